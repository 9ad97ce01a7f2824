// What an emitted program tells the runtime about itself: all of it static data, and the
// function that runs it.
#pragma once

#include "runtime.h"

namespace wrapperir {

// Stands for a size or stride that mentions symbols.
constexpr int64_t any_number = INT64_MIN;

// A tensor's type as the caller is to give it; `index` is the device's. Its storage begins
// at least `offset` elements before it.
struct TensorFact {
  DType dtype;
  Device device;
  int32_t index;
  int64_t ndim;
  const int64_t* sizes;
  const int64_t* strides;
  int64_t alignment;  // in bytes; 0 promises nothing
  int64_t offset;
};

// An input; `type` counts where `kind` is WRAPPERIR_TENSOR.
struct InputFact {
  const char* name;
  int64_t kind;
  TensorFact type;
  bool is_mutated;
};

// A constant. In constants.bin it is the `bytes` at `begin`: its storage from the type's
// offset on. What mentions symbols is not in that file: `bytes` is -1.
struct ConstantFact {
  const char* name;
  const char* key;
  TensorFact type;
  int64_t begin;
  int64_t bytes;
};

// A tensor that each frame has ready: `offset` bytes into its arena (`constant` is -1), or
// after the first element of a constant.
struct FixedTensor {
  int64_t constant;
  int64_t offset;
  DType dtype;
  int64_t ndim;
  const int64_t* sizes;
  const int64_t* strides;
};

// Bytes of the arena that are zero when a frame is made.
struct ZeroedRange {
  int64_t offset;
  int64_t bytes;
};

// Where a line of the program is in program.wir, and what it begins with.
struct LineFact {
  int32_t number;
  const char* text;
};

// A multi-kernel at calls of one kind: which of its kernels is the fastest there.
constexpr int32_t choice_is_open = -1;
constexpr int32_t choice_is_timed = -2;  // right now, by some thread
struct Fastest {
  const char* name;
  int32_t count;
  const char* const* kernels;
  int32_t choice = choice_is_open;
};

// What a frame keeps of devices, such as streams; a program that has any fills it in.
struct DeviceFrame {
  void* state = nullptr;
  void (*destroy)(void* state) = nullptr;
};

// What a call works with. A call has its frame to itself.
struct Context {
  char* arena;
  const AtenTensorHandle* fixed;
  const AtenTensorHandle* constants;
  char* const* constant_data;
  wrapperir_value* inputs;  // a call that takes a tensor clears it here
  wrapperir_value* outputs;
  int64_t* recent;  // what the frame keeps of the last call's choices
  DeviceFrame* devices;
};

struct Description {
  const char* name;
  int64_t input_count;
  const InputFact* inputs;
  int64_t output_count;
  int64_t constant_count;
  const ConstantFact* constants;
  int64_t arena_bytes;
  int64_t arena_alignment;
  int64_t fixed_count;
  const FixedTensor* fixed;
  int64_t zeroed_count;
  const ZeroedRange* zeroed;
  int64_t line_count;
  const LineFact* lines;
  int64_t recent_count;
  int64_t timed_count;
  Fastest* const* timed;
  void (*run)(const Context& context);
};

}  // namespace wrapperir

// Every emitted program defines this one.
extern const wrapperir::Description wrapperir_description;
