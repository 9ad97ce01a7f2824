// A region's recording for one combination of numbers, and how it is made.
#pragma once

#include <set>
#include <vector>

#include "graph_captures.h"
#include "region_calls.h"
#include "result_layout.h"

namespace wrapperir {

// An operand that has memory of its own in a recording; the graph copies `bytes`, 0 for none.
struct CopiedOperand {
  size_t operand;
  uint64_t memory;
  int64_t bytes;
  bool is_written;
};

struct RegionRecording {
  explicit RegionRecording(const DeviceFunctions& of) : functions(of) {}
  ~RegionRecording();
  RegionRecording(const RegionRecording&) = delete;
  RegionRecording& operator=(const RegionRecording&) = delete;

  const DeviceFunctions& functions;
  std::vector<uint64_t> key;
  std::unique_ptr<HeldPool> pool;
  Graph graph;
  std::unique_ptr<Recording> recording;
  std::vector<CopiedOperand> copied;
  std::vector<bool> is_copied;  // by operand
  std::vector<ResultLayout> results;
};

inline uint64_t address_of(const Tensor& tensor, int line) {
  return reinterpret_cast<uint64_t>(data_of(tensor.get(), line));
}

inline void copy_memory(uint64_t to, uint64_t from, int64_t bytes, void* stream) {
  if (bytes > 0)
    check_graph(
        graph_driver()->cuMemcpyDtoDAsync_v2(to, from, bytes, stream), "copying a tensor");
}

// Record a region with the operands that are given at `addresses`; some are to be copied by each
// replay. Throws GraphError or Failure. The region has not run then, and has no results.
std::unique_ptr<RegionRecording> record_region(
    const RegionCall& region, const std::vector<uint64_t>& addresses,
    const std::set<size_t>& to_copy);

}  // namespace wrapperir
