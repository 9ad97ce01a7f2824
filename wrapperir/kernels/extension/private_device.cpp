// What PyTorch asks of a device of type PrivateUse1 beside its allocator, its guard, and copies.
//
// Tensors are made, viewed and resized here. Operators that the backend does not register run on
// the CPU. The backend registers an allocator whose copy_data() copies between memory of the
// device on the current stream, a guard, the kernel _copy_from, and kernels that it has.
//
// The first source of the backend includes this, since PyTorch's headers take long to read.
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

namespace wrapperir_device {
namespace {

using c10::Device, c10::DeviceIndex;
using Sizes = c10::IntArrayRef;
constexpr c10::DeviceType type = c10::DeviceType::PrivateUse1;
const c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);

const c10::impl::DeviceGuardImplInterface& guard() {
  return *c10::impl::getDeviceGuardImpl(type);
}
c10::Allocator& allocator() { return *c10::GetAllocator(type); }

void resize_storage(const c10::Storage& storage, size_t bytes) {
  const c10::OptionalDeviceGuard on(storage.device());
  c10::DataPtr made = allocator().allocate(bytes);
  const size_t kept = std::min(bytes, storage.nbytes());
  if (kept) allocator().copy_data(made.get(), storage.data(), kept);
  storage.unsafeGetStorageImpl()->set_data_ptr(std::move(made));
  storage.unsafeGetStorageImpl()->set_nbytes(bytes);
}

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return guard().deviceCount() > 0; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return guard().deviceCount(); }
  DeviceIndex getCurrentDevice() const override { return guard().getDevice().index(); }
  void setCurrentDevice(DeviceIndex index) const override { guard().setDevice({type, index}); }
  DeviceIndex exchangeDevice(DeviceIndex index) const override {
    return guard().exchangeDevice({type, index}).index();
  }
  DeviceIndex maybeExchangeDevice(DeviceIndex index) const override {
    return exchangeDevice(index);
  }
  Device getDeviceFromPtr(void*) const override { return guard().getDevice(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(storage, bytes);
  }
};
const bool has_hooks = (at::RegisterPrivateUse1HooksInterface(new Hooks), true);

at::Tensor empty(
    Sizes sizes, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
    std::optional<Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  const c10::OptionalDeviceGuard on(device);
  return at::detail::empty_generic(
      sizes, &allocator(), keys, c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(
    Sizes sizes, Sizes strides, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
    std::optional<Device> device, std::optional<bool>) {
  const c10::OptionalDeviceGuard on(device);
  return at::detail::empty_strided_generic(
      sizes, strides, &allocator(), keys, c10::dtype_or_default(dtype));
}

const at::Tensor& resize(
    const at::Tensor& tensor, Sizes sizes, std::optional<at::MemoryFormat> format) {
  if (tensor.sizes() == sizes) return tensor;
  const size_t needed = at::detail::computeStorageNbytesContiguous(
      sizes, tensor.itemsize(), tensor.storage_offset());
  if (needed > tensor.storage().nbytes()) resize_storage(tensor.storage(), needed);
  c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(sizes);
  if (format) impl->empty_tensor_restride(*format);
  return tensor;
}

at::Tensor& set(
    at::Tensor& tensor, c10::Storage storage, int64_t offset, Sizes sizes, Sizes strides) {
  tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return tensor;
}

at::Tensor& set_to_all(at::Tensor& tensor, c10::Storage storage) {
  const auto size = static_cast<int64_t>(storage.nbytes() / tensor.itemsize());
  return set(tensor, std::move(storage), 0, {size}, {1});
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  to.resize_(from.sizes());
  return const_cast<at::Tensor&>(to).copy_(from);
}

at::Scalar item(const at::Tensor& tensor) { return tensor.cpu().item(); }

// Convolutions have no kernel that the fallback could call, so they are computed here, on the CPU.
at::Tensor convolution(
    const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
    Sizes stride, Sizes padding, Sizes dilation, bool transposed, Sizes output_padding,
    int64_t groups) {
  const auto added = bias && bias->defined() ? std::optional(bias->cpu()) : std::nullopt;
  const at::Tensor made = at::convolution(
      x.cpu(), weight.cpu(), added, stride, padding, dilation, transposed, output_padding,
      groups);
  return made.to(x.device());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight, Sizes stride,
    Sizes padding, Sizes dilation, bool transposed, Sizes output_padding, int64_t groups,
    std::array<bool, 3> wanted) {
  const int64_t channels = transposed ? weight.size(1) * groups : weight.size(0);
  const auto [of_x, of_weight, of_bias] = at::convolution_backward(
      grad.cpu(), x.cpu(), weight.cpu(), Sizes{channels}, stride, padding, dilation, transposed,
      output_padding, groups, wanted);
  const auto back = [&](const at::Tensor& made) {
    return made.defined() ? made.to(x.device()) : made;
  };
  return {back(of_x), back(of_weight), back(of_bias)};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("resize_", resize);
  library.impl("set_.source_Storage", set_to_all);
  library.impl("set_.source_Storage_storage_offset", set);
  library.impl("as_strided", at::native::as_strided_tensorimpl);
  library.impl("view", at::native::view);
  library.impl("_reshape_alias", at::native::_reshape_alias);
  library.impl("_copy_from_and_resize", copy_from_and_resize);
  library.impl("_local_scalar_dense", item);
  library.impl("convolution_overrideable", convolution);
  library.impl("convolution_backward_overrideable", convolution_backward);
}

void fall_back(const c10::OperatorHandle& operator_, torch::jit::Stack* stack) {
  at::native::cpu_fallback(operator_, stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>());
}

}  // namespace
}  // namespace wrapperir_device
