// Regions of a program that are recorded as CUDA graphs and replayed.
//
// The first call of a region with certain numbers runs its block, the second one records it, and
// later ones replay the recording. A region that cannot be recorded runs its block.
#pragma once

#include "device.h"

namespace wrapperir {

struct RegionFact {
  const char* name;
  int32_t recordings;  // that are kept at most
  int32_t stream;      // its number in the call
  bool has_branches;   // whether other streams work beside it
};

// A tensor that the block of a region reads or writes.
struct RegionTensor {
  char* address;
  int64_t bytes;          // from the first element to the end of the last
  int64_t written_bytes;  // of the elements, if the block writes it; else 0
  bool is_fixed = false;  // a collective is given it, whose recorded addresses stay
};

// Runs the block of a region with its tensors at the addresses `places`.
struct RegionBlock {
  void* state;
  void (*run)(void* state, char* const* places);
};

inline uint64_t bits_of(int64_t number) { return static_cast<uint64_t>(number); }
inline uint64_t bits_of(bool number) { return number; }
inline uint64_t bits_of(double number) {
  uint64_t bits = 0;
  memcpy(&bits, &number, sizeof bits);
  return bits;
}

// Run a region, or replay it. `numbers` are those that the block depends on. The block sets
// `results` to new tensors; so does a replay. `kept` has the recordings of an open program.
void run_region(
    int line, DeviceFrame& kept, const RegionFact& fact, DeviceCall& call,
    std::initializer_list<RegionTensor> tensors, std::initializer_list<uint64_t> numbers,
    std::initializer_list<Tensor*> results, const RegionBlock& block);

template <typename F>
inline void run_region(
    int line, DeviceFrame& kept, const RegionFact& fact, DeviceCall& call,
    std::initializer_list<RegionTensor> tensors, std::initializer_list<uint64_t> numbers,
    std::initializer_list<Tensor*> results, F block) {
  const RegionBlock given = {
      &block, [](void* state, char* const* places) { (*static_cast<F*>(state))(places); }};
  run_region(line, kept, fact, call, tensors, numbers, results, given);
}

}  // namespace wrapperir
