// The functions with which PyTorch's AOTIModelPackageLoader loads and runs a library, on top of
// wrapperir.h. A container of PyTorch's is one open program: it runs in several threads without
// copies. PyTorch's header is slow to compile and not included; functions are found by name.
#include <stdio.h>

#include <memory>
#include <string>
#include <vector>

#include "description.h"
#include "program.h"
#include "runtime.h"

typedef struct AOTInductorModelContainerOpaque* Handle;
typedef struct AOTInductorStreamOpaque* AOTInductorStreamHandle;
typedef struct AOTIProxyExecutorOpaque* AOTIProxyExecutorHandle;
typedef struct AOTInductorConstantMap* AOTInductorConstantMapHandle;
typedef int32_t AOTIRuntimeError;
typedef struct CUDAStreamGuardOpaque* CUDAStreamGuardHandle;

extern "C" {
AOTITorchError aoti_torch_get_dtype(AtenTensorHandle, int32_t*);
AOTITorchError aoti_torch_get_numel(AtenTensorHandle, int64_t*);
AOTITorchError aoti_torch_item_int64(AtenTensorHandle, int64_t*);
AOTITorchError aoti_torch_item_float64(AtenTensorHandle, double*);
AOTITorchError aoti_torch_item_bool(AtenTensorHandle, bool*);
AOTITorchError aoti_torch_scalar_to_tensor_int64(int64_t, AtenTensorHandle*);
AOTITorchError aoti_torch_scalar_to_tensor_float64(double, AtenTensorHandle*);
AOTITorchError aoti_torch_scalar_to_tensor_bool(bool, AtenTensorHandle*);
// Defined if PyTorch is built with CUDA.
__attribute__((weak)) AOTITorchError aoti_torch_create_cuda_stream_guard(
    void*, int32_t, CUDAStreamGuardHandle*);
__attribute__((weak)) AOTITorchError aoti_torch_delete_cuda_stream_guard(CUDAStreamGuardHandle);
}

namespace {

using wrapperir::DType;
using wrapperir::Tensor;

const wrapperir::Description& description = wrapperir_description;

struct Container {
  wrapperir_program* program = nullptr;
  int32_t cuda_device = -1;  // the index of the program's CUDA device; -1 for none
  std::string in_spec;
  std::string out_spec;

  ~Container() {
    if (program) wrapperir_close(program);
  }
};

// Run `what`, and return PyTorch's code for whether it threw. The message is printed, as
// PyTorch's own libraries do: older loaders do not ask for it.
template <typename What>
AOTIRuntimeError reported(What what) {
  const int error = wrapperir::guarded(what);
  if (error) fprintf(stderr, "Error: %s\n", wrapperir::error_message());
  return error;
}

[[noreturn]] void refuse(const std::string& message) {
  wrapperir::set_error_message(message.c_str());
  throw wrapperir::Failure();
}

void check_program(int error) {
  if (error) throw wrapperir::Failure();  // its message is kept
}

Container* container_of(Handle handle) {
  return reinterpret_cast<Container*>(handle);
}

// PyTorch's spelling of the tree of `count` values in a tuple.
std::string format_tuple(int64_t count) {
  std::string tree = R"({"type": "builtins.tuple", "context": "null", "children_spec": [)";
  for (int64_t i = 0; i < count; ++i) {
    if (i) tree += ", ";
    tree += R"({"type": null, "context": null, "children_spec": []})";
  }
  return tree + "]}";
}

std::string format_arguments(int64_t count) {
  return R"([1, {"type": "builtins.tuple", "context": "null", "children_spec": [)" +
      format_tuple(count) +
      R"(, {"type": "builtins.dict", "context": "[]", "children_spec": []}]}])";
}

// The index of the program's CUDA device; -1 for none.
int32_t find_cuda_device() {
  auto index = [](const wrapperir::TensorFact& type) {
    return type.device == wrapperir::Device::cuda ? (type.index < 0 ? 0 : type.index) : -1;
  };
  int32_t found = -1;
  for (int64_t i = 0; i < description.input_count && found < 0; ++i)
    if (description.inputs[i].kind == WRAPPERIR_TENSOR) found = index(description.inputs[i].type);
  for (int64_t i = 0; i < description.constant_count && found < 0; ++i)
    found = index(description.constants[i].type);
  return found;
}

// Compare the loader's device with the program's, which is fixed.
void check_device(const std::string& wanted, int32_t cuda_device) {
  std::string own = cuda_device < 0 ? "cpu" : "cuda:" + std::to_string(cuda_device);
  // If only inner lines use CUDA, no input shows the device.
  if (wanted != own && wanted != "cuda")
    refuse("the program is for the devices it was compiled for, and not for " + wanted);
}

// Makes a stream the current one of its device; does nothing without a stream.
class StreamGuard {
 public:
  StreamGuard(AOTInductorStreamHandle stream, int32_t device) {
    if (!stream || device < 0 || !aoti_torch_create_cuda_stream_guard) return;
    if (aoti_torch_create_cuda_stream_guard(stream, device, &guard_))
      refuse("the stream does not belong to cuda:" + std::to_string(device));
  }
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;
  ~StreamGuard() {
    if (guard_) aoti_torch_delete_cuda_stream_guard(guard_);
  }

 private:
  CUDAStreamGuardHandle guard_ = nullptr;
};

bool has_one_element_of(AtenTensorHandle tensor, DType wide, DType narrow) {
  int32_t dtype = 0;
  int64_t count = 0;
  if (aoti_torch_get_dtype(tensor, &dtype) || aoti_torch_get_numel(tensor, &count))
    return false;
  return count == 1 &&
      (dtype == wrapperir::torch_dtype(wide) || dtype == wrapperir::torch_dtype(narrow));
}

[[noreturn]] void refuse_number(size_t index, const char* wanted) {
  refuse("input " + std::to_string(index) + " is a number: pass a tensor of one element of " +
         wanted);
}

// The value of an input: PyTorch's loaders pass numbers as tensors of one element.
wrapperir_value value_of(const Tensor& input, size_t index) {
  wrapperir_value value = {};
  value.kind = description.inputs[index].kind;
  bool truth = false;
  switch (value.kind) {
    case WRAPPERIR_INT:
      if (!has_one_element_of(input.get(), DType::i64, DType::i32) ||
          aoti_torch_item_int64(input.get(), &value.as.integer))
        refuse_number(index, "int64 or int32");
      break;
    case WRAPPERIR_FLOAT:
      if (!has_one_element_of(input.get(), DType::f64, DType::f32) ||
          aoti_torch_item_float64(input.get(), &value.as.real))
        refuse_number(index, "float64 or float32");
      break;
    case WRAPPERIR_BOOL:
      if (!has_one_element_of(input.get(), DType::boolean, DType::boolean) ||
          aoti_torch_item_bool(input.get(), &truth))
        refuse_number(index, "bool");
      value.as.integer = truth;
      break;
    default: value.as.tensor = input.get();
  }
  return value;
}

// A new handle of an output; null for none.
AtenTensorHandle handle_of(const wrapperir_value& value) {
  AtenTensorHandle handle = nullptr;
  AOTITorchError error = 0;
  switch (value.kind) {
    case WRAPPERIR_TENSOR: return value.as.tensor;
    case WRAPPERIR_INT:
      error = aoti_torch_scalar_to_tensor_int64(value.as.integer, &handle);
      break;
    case WRAPPERIR_FLOAT:
      error = aoti_torch_scalar_to_tensor_float64(value.as.real, &handle);
      break;
    case WRAPPERIR_BOOL:
      error = aoti_torch_scalar_to_tensor_bool(value.as.integer != 0, &handle);
      break;
    default: break;
  }
  if (error) refuse("a number of the outputs cannot be made a tensor");
  return handle;
}

// Take the inputs, run, and give new handles of the outputs.
void run(Container& container, AtenTensorHandle* input_handles, size_t input_count,
         AtenTensorHandle* output_handles, size_t output_count) {
  std::vector<Tensor> inputs;
  inputs.reserve(input_count);
  for (size_t i = 0; i < input_count; ++i) inputs.emplace_back(input_handles[i]);
  std::vector<wrapperir_value> values(input_count + output_count);
  const bool is_right = input_count == static_cast<size_t>(description.input_count);
  for (size_t i = 0; i < input_count; ++i)  // a wrong number is refused below
    values[i] = is_right ? value_of(inputs[i], i) : wrapperir::output(inputs[i].get());
  for (size_t i = 0; i < input_count; ++i)
    if (values[i].kind == WRAPPERIR_TENSOR) inputs[i].release();
  wrapperir_value* results = values.data() + input_count;
  check_program(wrapperir_run(
      container.program, values.data(), static_cast<int64_t>(input_count), results,
      static_cast<int64_t>(output_count)));
  for (size_t i = 0; i < output_count; ++i) output_handles[i] = handle_of(results[i]);
}

const wrapperir::ConstantFact& constant_at(size_t index) {
  if (index >= static_cast<size_t>(description.constant_count))
    refuse("there is no constant " + std::to_string(index) + ": the program has " +
           std::to_string(description.constant_count));
  return description.constants[index];
}

}  // namespace

#define AOTI_EXPORT extern "C" WRAPPERIR_EXPORT

AOTI_EXPORT AOTIRuntimeError AOTInductorModelContainerCreateWithDevice(
    Handle* handle, size_t, const char* device, const char* directory) {
  return reported([&] {
    auto container = std::make_unique<Container>();
    container->cuda_device = find_cuda_device();
    check_device(device, container->cuda_device);
    container->in_spec = format_arguments(description.input_count);
    container->out_spec = "[1, " + format_tuple(description.output_count) + "]";
    std::string found = directory ? directory : wrapperir::own_folder();
    check_program(wrapperir_open(found.c_str(), &container->program));
    *handle = reinterpret_cast<Handle>(container.release());
  });
}

AOTI_EXPORT AOTIRuntimeError
AOTInductorModelContainerDelete(Handle handle) {
  return reported([&] { delete container_of(handle); });
}

AOTI_EXPORT AOTIRuntimeError AOTInductorModelContainerRun(
    Handle handle, AtenTensorHandle* inputs, size_t input_count,
    AtenTensorHandle* outputs, size_t output_count, AOTInductorStreamHandle stream,
    AOTIProxyExecutorHandle) {
  return reported([&] {
    Container& container = *container_of(handle);
    StreamGuard guard(stream, container.cuda_device);
    run(container, inputs, input_count, outputs, output_count);
  });
}

AOTI_EXPORT AOTIRuntimeError AOTInductorModelContainerRunSingleThreaded(
    Handle handle, AtenTensorHandle* inputs, size_t input_count,
    AtenTensorHandle* outputs, size_t output_count, AOTInductorStreamHandle stream,
    AOTIProxyExecutorHandle proxy) {
  return AOTInductorModelContainerRun(
      handle, inputs, input_count, outputs, output_count, stream, proxy);
}

AOTI_EXPORT AOTIRuntimeError
AOTInductorModelContainerGetNumInputs(Handle, size_t* count) {
  *count = static_cast<size_t>(description.input_count);
  return 0;
}

AOTI_EXPORT AOTIRuntimeError
AOTInductorModelContainerGetNumOutputs(Handle, size_t* count) {
  *count = static_cast<size_t>(description.output_count);
  return 0;
}

AOTI_EXPORT AOTIRuntimeError AOTInductorModelContainerGetCallSpec(
    Handle handle, const char** in_spec, const char** out_spec) {
  *in_spec = container_of(handle)->in_spec.c_str();
  *out_spec = container_of(handle)->out_spec.c_str();
  return 0;
}

AOTI_EXPORT AOTIRuntimeError
AOTInductorModelContainerGetNumConstants(Handle, size_t* count) {
  *count = static_cast<size_t>(description.constant_count);
  return 0;
}

AOTI_EXPORT AOTIRuntimeError AOTInductorModelContainerGetConstantName(
    Handle, size_t index, const char** name) {
  return reported([&] { *name = constant_at(index).key; });
}

AOTI_EXPORT AOTIRuntimeError AOTInductorModelContainerGetConstantOriginalFQN(
    Handle handle, size_t index, const char** name) {
  return AOTInductorModelContainerGetConstantName(handle, index, name);
}

AOTI_EXPORT AOTIRuntimeError AOTInductorModelContainerGetConstantDtype(
    Handle, size_t index, int32_t* dtype) {
  return reported([&] { *dtype = wrapperir::torch_dtype(constant_at(index).type.dtype); });
}

AOTI_EXPORT AOTIRuntimeError AOTInductorModelContainerGetConstantsBlobSize(
    Handle, uint64_t* size) {
  *size = 0;
  for (int64_t i = 0; i < description.constant_count; ++i)
    *size += static_cast<uint64_t>(description.constants[i].bytes);
  return 0;
}

// No constant is computed from others, so there is nothing to fold.
AOTI_EXPORT AOTIRuntimeError AOTInductorModelContainerRunConstantFolding(
    Handle, bool, AOTInductorStreamHandle, AOTIProxyExecutorHandle) {
  return 0;
}

AOTI_EXPORT AOTIRuntimeError AOTInductorModelContainerExtractConstantsMap(
    Handle, AOTInductorConstantMapHandle, bool) {
  return reported([] { refuse("the constants of this package cannot be taken out"); });
}

#define REFUSE_UPDATE(name, ...)                                                              \
  AOTI_EXPORT AOTIRuntimeError AOTInductor##name(__VA_ARGS__) {                               \
    return reported([] {                                                                      \
      refuse("the constants of this package cannot be replaced: package the program with others"); \
    });                                                                                       \
  }
using Constants = AOTInductorConstantMapHandle;
REFUSE_UPDATE(ModelContainerUpdateConstantBuffer, Handle, Constants, bool, bool)
REFUSE_UPDATE(ModelContainerUpdateConstantBufferFromCpu, Handle, Constants, bool, bool)
REFUSE_UPDATE(ModelContainerUpdateUserManagedConstantBuffer, Handle, Constants, bool, bool)
REFUSE_UPDATE(ModelContainerUpdateInactiveConstantBuffer, Handle, Constants)
REFUSE_UPDATE(ModelUpdateConstantsFromBlob, Handle, const uint8_t*)
REFUSE_UPDATE(ModelContainerSwapConstantBuffer, Handle)

AOTI_EXPORT AOTIRuntimeError
AOTInductorModelContainerFreeInactiveConstantBuffer(Handle) {
  return 0;
}

AOTI_EXPORT AOTIRuntimeError AOTInductorGetLastError(const char** message) {
  *message = wrapperir::error_message();
  return 0;
}
