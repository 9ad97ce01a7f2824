// Captures of a call's work as CUDA graphs, with memory of graph_pools.so.
#include "graph_captures.h"

#include <dlfcn.h>

#include <string>
#include <utility>

#include "program.h"

namespace wrapperir {
namespace {

// Those of the graph_pools.so that this process has loaded, or of the one beside this library.
const PoolFunctions& pool_functions() {
  static const PoolFunctions& functions = *[] {
    void* library = dlopen(WRAPPERIR_GRAPH_POOLS, RTLD_NOW | RTLD_NOLOAD);
    const std::string path = own_folder() + "/graph_pools.so";
    if (!library) library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    void* found = library ? dlsym(library, "wrapperir_graph_pools") : nullptr;
    if (!found) throw GraphError{dlerror()};
    return static_cast<const PoolFunctions*>(found);
  }();
  return functions;
}

void check_pool(const char* message) {
  if (message) throw GraphError{message};
}

}  // namespace

OnlyCapture::OnlyCapture() { pool_functions().lock(); }
OnlyCapture::~OnlyCapture() { pool_functions().unlock(); }

HeldPool::HeldPool(const DeviceCall& call, int stream, int line)
    : pool_(pool_functions().hold(call.index(), call.stream(0), stream)) {
  const auto count = static_cast<size_t>(call.stream_count());
  try {
    while (pool_->streams.size() < count)
      pool_->streams.push_back(call.functions().make_stream(line));
  } catch (...) {
    pool_functions().drop(pool_);
    throw;
  }
}
HeldPool::~HeldPool() { pool_functions().drop(pool_); }

Capturing::Capturing(
    DeviceCall& call, int stream, CapturePool& pool, char* block, int line)
    : call_(call), pool_(pool), streams_(pool.streams) {
  constexpr int thread_local_mode = 1;
  std::swap(streams_.front(), streams_[stream]);
  check_pool(pool_functions().begin(&pool));
  try {
    guard_ = call.functions().enter_stream(pool.streams.front(), call.index(), line);
    check_graph(
        graph_driver()->cuStreamBeginCapture_v2(pool.streams.front(), thread_local_mode),
        "a capture");
  } catch (...) {
    if (guard_) call.functions().leave_stream(guard_);
    pool_functions().end(&pool);
    throw;
  }
  before_ = call.redirect({streams_.data(), block});
}

Capturing::~Capturing() {
  if (is_ended_) return;
  void* graph = nullptr;
  if (!graph_driver()->cuStreamEndCapture(pool_.streams.front(), &graph)) Graph{graph};
  try {
    restore();
  } catch (const GraphError&) {  // what ended the capture is said
  }
}

Graph Capturing::end() {
  void* graph = nullptr;
  is_ended_ = true;
  const int error = graph_driver()->cuStreamEndCapture(pool_.streams.front(), &graph);
  Graph captured(graph);
  restore();
  check_graph(error, "ending a capture");
  if (!captured) throw GraphError{"a capture has no graph"};
  return captured;
}

void Capturing::restore() {
  call_.redirect(before_);
  call_.functions().leave_stream(guard_);
  check_pool(pool_functions().end(&pool_));
}

}  // namespace wrapperir
