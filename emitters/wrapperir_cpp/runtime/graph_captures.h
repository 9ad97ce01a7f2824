// Captures of a call's work as CUDA graphs.
#pragma once

#include <memory>

#include "device.h"
#include "graph_pools.h"
#include "recording.h"

namespace wrapperir {

struct GraphDeleter {
  void operator()(void* graph) const { graph_driver()->cuGraphDestroy(graph); }
};
using Graph = std::unique_ptr<void, GraphDeleter>;

// No other thread captures while this object lives.
class OnlyCapture {
 public:
  OnlyCapture();  // throws GraphError
  ~OnlyCapture();
  OnlyCapture(const OnlyCapture&) = delete;
  OnlyCapture& operator=(const OnlyCapture&) = delete;
};

// Holds the pool of a stream of a call, which keeps its memory while this object lives.
class HeldPool {
 public:
  // No other thread may capture.
  HeldPool(const DeviceCall& call, int stream, int line);
  ~HeldPool();
  HeldPool(const HeldPool&) = delete;
  HeldPool& operator=(const HeldPool&) = delete;

  CapturePool& pool() const { return *pool_; }

 private:
  CapturePool* const pool_;
};

// Captures what a call gives one of its streams while this object lives, and others that wait
// for it. Its allocations are in a pool then, and its block of memory is at `block`.
class Capturing {
 public:
  Capturing(DeviceCall& call, int stream, CapturePool& pool, char* block, int line);
  ~Capturing();
  Capturing(const Capturing&) = delete;
  Capturing& operator=(const Capturing&) = delete;

  Graph end();

 private:
  void restore();

  DeviceCall& call_;
  CapturePool& pool_;
  std::vector<void*> streams_;  // by number
  DeviceCall::Target before_ = {};
  void* guard_ = nullptr;
  bool is_ended_ = false;
};

}  // namespace wrapperir
