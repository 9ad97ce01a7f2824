// The description of an emitted program for the runtime: static data, and the function that
// runs it.
#pragma once

#include "runtime.h"

namespace wrapperir {

// A size or stride with symbols.
constexpr int64_t any_number = INT64_MIN;

// The type of a tensor that the caller gives; `index` is the device's. Its storage begins at
// least `offset` elements before it.
struct TensorFact {
  DType dtype;
  Device device;
  int32_t index;
  int64_t ndim;
  const int64_t* sizes;
  const int64_t* strides;
  int64_t alignment;  // in bytes; 0 promises nothing
  int64_t offset;
  int32_t layout;  // PyTorch's number: 0, or one of a library's own, without strides
};

// An input; it has a `type` if `kind` is WRAPPERIR_TENSOR. What only operators take may be on the
// CPU: PyTorch's take a tensor without dimensions from there, and return some there.
struct InputFact {
  const char* name;
  int64_t kind;
  TensorFact type;
  bool is_mutated;
  bool may_be_on_cpu;
};

// A constant. constants.bin has its storage, from the type's offset on: `bytes` bytes at
// `begin`. If the type has symbols, the file does not have it, and `bytes` is -1.
struct ConstantFact {
  const char* name;
  const char* key;
  TensorFact type;
  int64_t begin;
  int64_t bytes;
};

// A tensor that each frame holds: `offset` bytes into its arena (`constant` is -1), or after the
// first element of a constant.
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

// The number of a program's line in program.wir, and its first words.
struct LineFact {
  int32_t number;
  const char* text;
};

// The fastest kernel of a multi-kernel, for calls of one kind.
constexpr int32_t choice_is_open = -1;
constexpr int32_t choice_is_timed = -2;  // a thread is timing it
struct Fastest {
  const char* name;
  int32_t count;
  const char* const* kernels;
  int32_t choice = choice_is_open;
};

// State that another part of the runtime keeps, such as the streams of a frame; null until then.
struct DeviceFrame {
  void* state = nullptr;
  void (*destroy)(void* state) = nullptr;
  void (*drop_recordings)(void* state) = nullptr;
};

// The frame, inputs and outputs of a call. No other call has the frame.
struct Context {
  char* arena;
  const AtenTensorHandle* fixed;
  const AtenTensorHandle* constants;
  char* const* constant_data;
  wrapperir_value* inputs;  // a tensor that the call takes is cleared here
  wrapperir_value* outputs;
  int64_t* recent;  // sizes and choices of the last call
  DeviceFrame* devices;
  DeviceFrame* regions;  // the recordings of each graph region, of the open program
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
  int64_t region_count;
  int64_t timed_count;
  Fastest* const* timed;
  void (*run)(const Context& context);
};

}  // namespace wrapperir

// Every emitted program defines this one.
extern const wrapperir::Description wrapperir_description;
