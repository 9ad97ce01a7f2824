// A CUDA driver, and the CUDA part of PyTorch's C interface, without a GPU: memory is the
// host's, and kernels of the test library are run as they are launched, from the arguments
// and the grid that the launch passes. Every call is written to a log.
//
// It is preloaded, and its name as a library is that of the driver.
#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

std::recursive_mutex lock;
std::string text;
int64_t live_bytes = 0;
int capability = 90;
std::map<void*, uint64_t> sizes;
std::map<void*, std::string> functions;
std::map<void*, int> numbers;
std::map<char, int> counts;
std::map<std::string, float> costs;  // of launches, in milliseconds
float device_time = 0;
std::map<void*, float> recorded;
bool is_captured = false;
bool needs_context = false;  // as the driver does
std::string shown_sizes;  // of the parameters that the log is to show, in bytes
thread_local void* current_context = nullptr;
thread_local int current_device = 0;
std::map<int, void*> streams;  // of devices that have one of their own
std::map<void*, void*> contexts;  // of functions and modules
int next_error = 0;
void* const first_context = reinterpret_cast<void*>(0x80);

}  // namespace

// What fake_cublas.cpp shares.
thread_local void* current_stream = reinterpret_cast<void*>(0x70);
thread_local void* entered_stream = nullptr;  // of a stream guard

__attribute__((format(printf, 1, 2))) void note(const char* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  std::lock_guard<std::recursive_mutex> held(lock);
  text += line;
  text += "\n";
}

namespace {

// Streams, events and modules have small numbers, in the order that they are made.
void* make(char kind) {
  std::lock_guard<std::recursive_mutex> held(lock);
  void* made = malloc(1);
  numbers[made] = counts[kind]++;
  return made;
}

}  // namespace

std::string name_of(void* stream) {
  if (stream == current_stream || stream == reinterpret_cast<void*>(0x70)) return "current";
  std::lock_guard<std::recursive_mutex> held(lock);
  auto found = numbers.find(stream);
  for (const auto& [device, own] : streams)
    if (own == stream) return "current of " + std::to_string(device);
  if (found == numbers.end()) return "other";
  return "side" + std::to_string(found->second);
}

namespace {

int number_of(void* made) {
  std::lock_guard<std::recursive_mutex> held(lock);
  return numbers.at(made);
}

template <typename T>
T take(void** parameters, int index) {
  T value;
  memcpy(&value, parameters[index], sizeof(T));
  return value;
}

// The bytes of parameters, where they are asked for.
void note_parameters(void** parameters) {
  std::string shown;
  char digits[4];
  int index = 0;
  for (char size : shown_sizes) {
    const auto* bytes = static_cast<const unsigned char*>(parameters[index++]);
    for (int i = 0; i < size - '0'; ++i) {
      snprintf(digits, sizeof(digits), "%02x", bytes[i]);
      shown += digits;
    }
    shown += " ";
  }
  if (!shown.empty()) note("parameters %s", shown.c_str());
}

// A matrix behind a descriptor, however it was passed; `at` is where its parameters begin.
struct Matrix {
  float* base;
  int64_t rows, columns, step;
};
Matrix take_matrix(void** p, int& at) {
  Matrix made;
  if (capability >= 90) {
    const auto* map = static_cast<const uint64_t*>(p[at]);
    made = {reinterpret_cast<float*>(map[0]), int64_t(map[3]), int64_t(map[2]),
            int64_t(map[4] / 4)};
    at += 1;
  } else {
    made = {take<float*>(p, at), take<int64_t>(p, at + 1), take<int64_t>(p, at + 2),
            take<int64_t>(p, at + 3)};
    if (take<int64_t>(p, at + 4) != 1 || take<bool>(p, at + 5) || take<bool>(p, at + 6))
      note("a wrong stride or flag");
    at += 7;
  }
  if (take<int32_t>(p, at) != made.rows || take<int32_t>(p, at + 1) != made.columns ||
      take<int64_t>(p, at + 2) != made.step || take<int64_t>(p, at + 3) != 1)
    note("wrong sizes or strides");
  at += 4;
  return made;
}

// For one program, of four rows.
void add_blocks(void** p, int64_t program) {
  int at = 0;
  const Matrix left = take_matrix(p, at);
  const Matrix right = take_matrix(p, at);
  const Matrix out = take_matrix(p, at);
  const int32_t rows = take<int32_t>(p, at);
  const int32_t columns = take<int32_t>(p, at + 1);
  if (rows != left.rows || columns != left.columns) note("wrong numbers");
  for (int64_t i = program * 4; i < program * 4 + 4 && i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      out.base[i * out.step + j] = left.base[i * left.step + j] + right.base[i * right.step + j];
}

// The kernels of wrapperir.testing.kernels, for one program of 16 elements.
void run_program(const std::string& name, void** p, int64_t program) {
  if (name == "add_blocks") return add_blocks(p, program);
  const int64_t begin = program * 16;
  const bool one = name == "relu_inplace";
  const bool two = name == "row_sum";
  const int buffers = one ? 1 : two ? 2 : 3;
  const int32_t n = take<int32_t>(p, buffers);
  float* a = take<float*>(p, 0);
  float* b = one ? nullptr : take<float*>(p, 1);
  float* out = one || two ? nullptr : take<float*>(p, 2);
  for (int64_t i = begin; i < begin + 16 && i < n; ++i) {
    if (name == "add" || name == "add_reversed") {
      const int64_t at = name == "add" ? i : n - 1 - i;
      out[at] = a[at] + b[at];
    } else if (name == "subtract") {
      out[i] = a[i] - b[i];
    } else if (one) {
      a[i] = a[i] > 0 ? a[i] : 0;
    } else if (two) {
      const int32_t length = take<int32_t>(p, 3);
      float total = 0;
      for (int32_t j = 0; j < length; ++j) total += a[i * length + j];
      b[i] = total;
    } else if (name == "scratch_write") {
      b[i] = a[i];
      out[i] = b[i];
    } else if (name == "scratch_add") {
      out[i] = a[i] + b[i];
      b[i] = 0;
    } else {
      note("no such kernel: %s", name.c_str());
    }
  }
}

}  // namespace

// What fake_graphs.cpp shares.

bool capture_launch(
    void* function, const unsigned* sizes, unsigned shared, void* stream, void** parameters);
bool capture_copy(uint64_t to, uint64_t from, size_t bytes, void* stream);
bool is_capturing(void* stream);
void capture_event(void* event, void* stream);
int capture_wait(void* stream, void* event);

bool has_context() { return current_context; }

std::string kernel_of(void* function) {
  auto found = functions.find(function);
  return found == functions.end() ? "" : found->second;
}

void run_kernel(const std::string& name, void** parameters, int64_t programs) {
  if (name == "nothing") return;
  if (name == "add_behind_halves") {  // the first address is given as its half
    uint64_t first = take<uint64_t>(parameters, 0) * 2;
    void* passed[] = {&first, parameters[1], parameters[2], parameters[3]};
    return run_kernel("add", passed, programs);
  }
  for (int64_t program = 0; program < programs; ++program) run_program(name, parameters, program);
}

namespace {

template <typename F>
F* real(const char* name) {
  static void* torch = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
  return reinterpret_cast<F*>(dlsym(torch, name));
}

}  // namespace

// What the tests ask for.

EXPORT const char* fake_log() {
  static std::string shown;
  std::lock_guard<std::recursive_mutex> held(lock);
  shown = text;
  text.clear();
  return shown.c_str();
}
EXPORT void fake_count_from_zero() { counts.clear(); }
EXPORT void fake_show_parameters(const char* bytes) { shown_sizes = bytes; }
EXPORT int64_t fake_live_bytes() { return live_bytes; }
EXPORT void fake_set_capability(int value) { capability = value; }
EXPORT void fake_set_cost(const char* kernel, float milliseconds) {
  costs[kernel] = milliseconds;
}
EXPORT void fake_set_captured(bool value) { is_captured = value; }
EXPORT void fake_need_context() { needs_context = true; }
EXPORT void fake_set_device(int device, bool has_context) {
  current_device = device;
  current_context = has_context ? static_cast<char*>(first_context) + device : nullptr;
}
EXPORT void fake_set_stream_of(int device, uint64_t stream) {
  streams[device] = reinterpret_cast<void*>(stream);
}
EXPORT void fake_fail_next_launch(int error) { next_error = error; }
EXPORT void fake_set_stream(uint64_t stream) {
  current_stream = reinterpret_cast<void*>(stream);
}

// The driver.

EXPORT int cuGetErrorName(int error, const char** name) {
  *name = error == 1 ? "CUDA_ERROR_INVALID_VALUE" : "CUDA_ERROR_OTHER";
  return 0;
}
EXPORT int cuGetErrorString(int error, const char** name) {
  *name = error == 1 ? "invalid argument" : "some error";
  return 0;
}
EXPORT int cuDeviceGet(int* device, int index) {
  *device = index;
  return 0;
}
EXPORT int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : 232448;
  return 0;
}
EXPORT int cuCtxGetCurrent(void** context) {
  *context = current_context;
  return 0;
}
EXPORT int cuCtxGetDevice(int* device) {
  if (!current_context) return 201;
  *device = static_cast<int>(
      static_cast<char*>(current_context) - static_cast<char*>(first_context));
  return 0;
}
EXPORT int cuCtxSetCurrent(void* context) {
  note("context");
  current_context = context;
  return 0;
}
EXPORT int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = reinterpret_cast<void*>(0x80 + device);
  return 0;
}
EXPORT int cuModuleLoadData(void** module, const void* image) {
  *module = make('m');
  contexts[*module] = current_context;
  note("module %s", memcmp(image, "\177ELF", 4) ? "no ELF" : "ELF");
  return 0;
}
EXPORT int cuModuleGetFunction(void** function, void* module, const char* name) {
  *function = make('f');
  std::lock_guard<std::recursive_mutex> held(lock);
  contexts[*function] = contexts.at(module);
  functions[*function] = name;
  return 0;
}
EXPORT int cuFuncSetAttribute(void* function, int attribute, int value) {
  note("attribute %s %d %d", functions.at(function).c_str(), attribute, value);
  return 0;
}
EXPORT int cuLaunchKernel(
    void* function, unsigned x, unsigned y, unsigned z, unsigned block, unsigned block_y,
    unsigned block_z, unsigned shared, void* stream, void** parameters, void** extra) {
  std::lock_guard<std::recursive_mutex> held(lock);
  const std::string& name = functions.at(function);
  if (next_error) return std::exchange(next_error, 0);
  if (contexts.at(function) && contexts.at(function) != current_context) note("wrong context");
  note(
      "launch %s grid %u %u %u block %u %u %u shared %u on %s%s", name.c_str(), x, y, z, block,
      block_y, block_z, shared, name_of(stream).c_str(), extra ? " extra" : "");
  if (!x || !y || !z) return 1;
  const unsigned extents[] = {x, y, z, block, block_y, block_z};
  if (capture_launch(function, extents, shared, stream, parameters)) return 0;
  if (costs.count(name)) device_time += costs[name];
  note_parameters(parameters);
  if (!shown_sizes.empty()) return 0;
  for (int64_t program = 0; program < int64_t{x} * y * z; ++program)
    run_program(name, parameters, program);
  return 0;
}
struct Attribute {
  int id;
  char padding[4];
  unsigned values[16];
};
struct Config {
  unsigned x, y, z, block, block_y, block_z, shared;
  void* stream;
  const Attribute* attributes;
  unsigned count;
};
EXPORT int cuLaunchKernelEx(const Config* c, void* function, void** parameters, void** extra) {
  for (unsigned i = 0; i < c->count; ++i)
    note("attribute %d is %u", c->attributes[i].id, c->attributes[i].values[0]);
  return cuLaunchKernel(
      function, c->x, c->y, c->z, c->block, c->block_y, c->block_z, c->shared, c->stream,
      parameters, extra);
}
// What Triton's own launcher is linked with, and does not call for a launch.
EXPORT int cuCtxGetLimit(size_t*, int) { return 1; }
EXPORT int cuCtxSetLimit(int, size_t) { return 1; }
EXPORT int cuFuncGetAttribute(int*, int, void*) { return 1; }
EXPORT int cuFuncSetCacheConfig(void*, int) { return 1; }
EXPORT int cuPointerGetAttribute(void*, int, uint64_t) { return 0; }
EXPORT int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
EXPORT int cuTensorMapEncodeTiled(
    uint64_t* map, int type, uint32_t rank, void* base, const uint64_t* sizes,
    const uint64_t* strides, const uint32_t* block, const uint32_t* steps, int interleave,
    int swizzle, int promotion, int fill) {
  note(
      "encode type %d rank %u block %u %u steps %u %u interleave %d swizzle %d promotion %d "
      "fill %d",
      type, rank, block[0], block[1], steps[0], steps[1], interleave, swizzle, promotion, fill);
  const uint64_t made[] = {
      reinterpret_cast<uint64_t>(base), uint64_t{1} << 21, sizes[0], sizes[1], strides[0]};
  memcpy(map, made, sizeof(made));
  return 0;
}
EXPORT int cuMemsetD8Async(uint64_t address, unsigned char value, size_t bytes, void* stream) {
  note("memset %d %zu on %s", value, bytes, name_of(stream).c_str());
  memset(reinterpret_cast<void*>(address), value, bytes);
  return 0;
}
EXPORT int cuStreamCreate(void** stream, unsigned flags) {
  *stream = make('s');
  note("stream side%d flags %u", number_of(*stream), flags);
  return 0;
}
EXPORT int cuStreamDestroy_v2(void*) { return 0; }
EXPORT int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  note("%s waits for event%d", name_of(stream).c_str(), number_of(event));
  if (int error = capture_wait(stream, event)) return error;
  return 0;
}
EXPORT int cuEventCreate(void** event, unsigned flags) {
  *event = make('e');
  note("event%d flags %u", number_of(*event), flags);
  return 0;
}
EXPORT int cuEventRecord(void* event, void* stream) {
  {
    std::lock_guard<std::recursive_mutex> held(lock);
    recorded[event] = device_time;
  }
  note("event%d on %s", number_of(event), name_of(stream).c_str());
  capture_event(event, stream);
  return 0;
}
EXPORT int cuEventSynchronize(void*) { return 0; }
EXPORT int cuEventDestroy_v2(void*) { return 0; }
EXPORT int cuEventElapsedTime(float* milliseconds, void* begin, void* end) {
  std::lock_guard<std::recursive_mutex> held(lock);
  *milliseconds = recorded.at(end) - recorded.at(begin);
  return 0;
}
EXPORT int cuStreamSynchronize(void*) { return 0; }
EXPORT int cuStreamIsCapturing(void* stream, int* status) {
  if (needs_context && !current_context) return 201;
  *status = is_captured || is_capturing(stream);
  return 0;
}
EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  if (needs_context && !current_context) return 201;
  if (capture_copy(to, from, bytes, stream)) return 0;
  const uint64_t apart = to ^ from;
  note(
      "copy %zu on %s at addresses alike to %lu", bytes, name_of(stream).c_str(),
      static_cast<unsigned long>(apart & -apart));
  memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
  return 0;
}

// PyTorch's C interface, where it is compiled with CUDA.

EXPORT int aoti_torch_create_cuda_guard(int index, void** guard) {
  *guard = make('g');
  note("guard %d", index);
  return 0;
}
EXPORT int aoti_torch_delete_cuda_guard(void*) {
  note("unguard");
  return 0;
}
EXPORT int aoti_torch_create_cuda_stream_guard(void* stream, int, void** guard) {
  note("enter %s", name_of(stream).c_str());
  entered_stream = stream;
  *guard = stream;
  return 0;
}
EXPORT int aoti_torch_delete_cuda_stream_guard(void* guard) {
  note("leave %s", name_of(guard).c_str());
  entered_stream = nullptr;
  return 0;
}
EXPORT int aoti_torch_get_current_cuda_stream(int device, void** stream) {
  *stream = streams.count(device) ? streams.at(device) : current_stream;
  return 0;
}
EXPORT int aoti_torch_get_current_device_index(int32_t* device) {
  *device = current_device;
  return 0;
}
EXPORT int aoti_torch_cuda_caching_allocator_raw_alloc(uint64_t bytes, void** memory) {
  std::lock_guard<std::recursive_mutex> held(lock);
  if (posix_memalign(memory, 512, bytes)) return 1;
  memset(*memory, 0xff, bytes);
  sizes[*memory] = bytes;
  live_bytes += bytes;
  note("allocate %lu", static_cast<unsigned long>(bytes));
  return 0;
}
EXPORT int aoti_torch_cuda_caching_allocator_raw_delete(void* memory) {
  std::lock_guard<std::recursive_mutex> held(lock);
  live_bytes -= sizes.at(memory);
  note("deallocate %lu", static_cast<unsigned long>(sizes.at(memory)));
  sizes.erase(memory);
  free(memory);
  return 0;
}

// Tensors on the host pass for tensors on a GPU.

EXPORT int aoti_torch_get_device_type(void*, int32_t* type) {
  *type = 1;
  return 0;
}
EXPORT int aoti_torch_create_tensor_from_blob(
    void* data, int64_t ndim, const int64_t* size, const int64_t* stride, int64_t offset,
    int32_t dtype, int32_t, int32_t, void** result) {
  return real<decltype(aoti_torch_create_tensor_from_blob)>(
      "aoti_torch_create_tensor_from_blob")(
      data, ndim, size, stride, offset, dtype, 0, 0, result);
}

// Memory of a GPU is aligned to 512 bytes. What a tensor has is never freed.
EXPORT int aoti_torch_empty_strided(
    int64_t ndim, const int64_t* size, const int64_t* stride, int32_t dtype, int32_t, int32_t,
    void** result) {
  void* measured = nullptr;
  int64_t bytes = 0;
  if (real<decltype(aoti_torch_empty_strided)>("aoti_torch_empty_strided")(
          ndim, size, stride, dtype, 0, 0, &measured) ||
      real<int(void*, int64_t*)>("aoti_torch_get_storage_size")(measured, &bytes))
    return 1;
  real<int(void*)>("aoti_torch_delete_tensor_object")(measured);
  void* memory = nullptr;
  if (posix_memalign(&memory, 512, bytes + 1)) return 1;
  memset(memory, 0xff, bytes);
  return aoti_torch_create_tensor_from_blob(
      memory, ndim, size, stride, 0, dtype, 0, 0, result);
}
