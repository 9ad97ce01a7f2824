// The interface of graph_pools.so: memory of PyTorch's allocator for what is allocated while a
// graph is captured. All libraries of a process share one graph_pools.so, and its pools.
#pragma once

#include <stdint.h>

#include <vector>

// The name by which a library finds a loaded graph_pools.so; its number is that of this interface.
#define WRAPPERIR_GRAPH_POOLS "libwrapperir_graph_pools.so.1"

namespace wrapperir {

// The memory of all captures for one stream of calls. Nothing in it is needed after a region.
struct CapturePool {
  int32_t device = 0;
  // Those of captures: one for the stream, then one for each stream beside it. The first library
  // that needs one makes it; it stays.
  std::vector<void*> streams;
};

// Functions with a message return null if they succeed; it stays until this thread's next call.
struct PoolFunctions {
  // One thread at a time captures.
  void (*lock)();
  void (*unlock)();
  // The pool of the stream `number` of calls that are on a stream: work on these streams of two
  // calls is in order. It has its memory until each of its holders has dropped it.
  CapturePool* (*hold)(int32_t device, void* stream, int32_t number);
  void (*drop)(CapturePool* pool);
  // Have this thread allocate from a pool, and as before; while the captures are locked.
  const char* (*begin)(CapturePool* pool);
  const char* (*end)(CapturePool* pool);
};

}  // namespace wrapperir
