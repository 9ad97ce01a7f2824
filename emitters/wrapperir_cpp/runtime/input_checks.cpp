// Checks of the tensors and numbers that the caller gives.
#include <string>

#include "program.h"

extern "C" {
AOTITorchError aoti_torch_get_layout(AtenTensorHandle, int32_t*);
AOTITorchError aoti_torch_get_dtype(AtenTensorHandle, int32_t*);
AOTITorchError aoti_torch_get_device_type(AtenTensorHandle, int32_t*);
AOTITorchError aoti_torch_get_device_index(AtenTensorHandle, int32_t*);
AOTITorchError aoti_torch_get_numel(AtenTensorHandle, int64_t*);
AOTITorchError aoti_torch_get_dim(AtenTensorHandle, int64_t*);
AOTITorchError aoti_torch_get_sizes(AtenTensorHandle, int64_t**);
AOTITorchError aoti_torch_get_strides(AtenTensorHandle, int64_t**);
AOTITorchError aoti_torch_get_storage_offset(AtenTensorHandle, int64_t*);
}

namespace wrapperir {
namespace {

constexpr const char* dtype_names[] = {
    "f64", "f32", "f16", "bf16", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz",
    "f8e8m0fnu", "f4e2m1fn_x2", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8",
    "bool", "c32", "c64", "c128"};

const char* name_of_code(int32_t code) {
  for (int32_t i = 0; i < 22; ++i)
    if (torch_dtype(static_cast<DType>(i)) == code) return dtype_names[i];
  return "an unknown dtype";
}

const char* name_of_kind(int64_t kind) {
  constexpr const char* names[] = {"a tensor", "an int", "a float", "a bool", "nothing"};
  bool is_known = kind >= WRAPPERIR_TENSOR && kind <= WRAPPERIR_NONE;
  return is_known ? names[kind] : "a value of an unknown kind";
}

// The name of a c10::Layout in Python.
const char* name_of_layout(int32_t layout) {
  constexpr const char* names[] = {
      "strided", "sparse_coo", "sparse_csr", "_mkldnn", "sparse_csc", "sparse_bsr", "sparse_bsc",
      "jagged"};
  return layout >= 0 && layout < 8 ? names[layout] : "an unknown layout";
}

// The name of a c10::DeviceType in Python.
std::string name_of_device(int32_t device, int32_t index) {
  constexpr const char* names[] = {
      "cpu", "cuda", "mkldnn", "opengl", "opencl", "ideep", "hip", "fpga", "maia", "xla",
      "vulkan", "metal", "xpu", "mps", "meta", "hpu", "ve", "lazy", "ipu", "mtia",
      "privateuseone"};
  constexpr int32_t count = sizeof names / sizeof *names;
  std::string name = device >= 0 && device < count
      ? names[device]
      : "device type " + std::to_string(device);
  if (device == torch_device(Device::privateuseone) && private_device_name)
    name = private_device_name();
  return index < 0 || device == 0 ? name : name + ":" + std::to_string(index);
}

bool are(const int64_t* wanted, const int64_t* given, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (wanted[i] != given[i] && wanted[i] != any_number) return false;
  return true;
}

// A dimension of size 1 may have any stride; without elements, all may.
bool are_strides(
    const int64_t* wanted, const int64_t* given, const int64_t* sizes, int64_t count) {
  if (are(wanted, given, count)) return true;
  for (int64_t i = 0; i < count; ++i)
    if (sizes[i] == 0) return true;
  for (int64_t i = 0; i < count; ++i)
    if (wanted[i] != given[i] && wanted[i] != any_number && sizes[i] != 1) return false;
  return true;
}

constexpr const char* an_input = "WIR801: %";

void check_sizes(
    AtenTensorHandle tensor, int64_t count, const int64_t* sizes, const int64_t* strides,
    const char* what, const char* name) {
  int64_t* given_sizes = nullptr;
  int64_t* given_strides = nullptr;
  check(aoti_torch_get_sizes(tensor, &given_sizes), -1);
  check(aoti_torch_get_strides(tensor, &given_strides), -1);
  if (!are(sizes, given_sizes, count))
    fail(
        -1, "%s%s needs size %s, not %s", what, name, spelled(sizes, count).c_str(),
        spelled(given_sizes, count).c_str());
  if (!are_strides(strides, given_strides, given_sizes, count))
    fail(
        -1, "%s%s needs stride %s, not %s", what, name, spelled(strides, count).c_str(),
        spelled(given_strides, count).c_str());
}

// The storage of a tensor begins `offset` elements before it, or earlier.
void check_storage_offset(
    AtenTensorHandle tensor, int64_t offset, const char* what, const char* name) {
  int64_t given = 0;
  check(aoti_torch_get_storage_offset(tensor, &given), -1);
  if (given < offset)
    fail(
        -1, "%s%s needs offset %lld or more, not %lld", what, name, shown(offset), shown(given));
}

}  // namespace

void check_tensor(
    AtenTensorHandle tensor, const TensorFact& type, const char* what, const char* name,
    bool may_be_on_cpu) {
  int32_t layout = 0, dtype = 0, device = 0, index = 0;
  check(aoti_torch_get_layout(tensor, &layout), -1);
  if (layout != type.layout)
    fail(
        -1, "%s%s needs a tensor %s, not %s", what, name,
        type.layout ? name_of_layout(type.layout) : "with strides", name_of_layout(layout));
  check(aoti_torch_get_dtype(tensor, &dtype), -1);
  if (dtype != torch_dtype(type.dtype))
    fail(
        -1, "%s%s needs elements of %s, not %s", what, name,
        dtype_names[static_cast<int32_t>(type.dtype)], name_of_code(dtype));
  check(aoti_torch_get_device_type(tensor, &device), -1);
  check(aoti_torch_get_device_index(tensor, &index), -1);
  const bool is_there =
      device == torch_device(type.device) && (index > 0 ? index : 0) == type.index;
  if (!is_there && !(may_be_on_cpu && device == torch_device(Device::cpu)))
    fail(
        -1, "%s%s needs to be on %s, not on %s", what, name,
        name_of_device(torch_device(type.device), type.index).c_str(),
        name_of_device(device, index).c_str());
  int64_t ndim = 0;
  check(aoti_torch_get_dim(tensor, &ndim), -1);
  if (ndim != type.ndim)
    fail(
        -1, "%s%s needs %lld dimensions, not %lld", what, name, shown(type.ndim), shown(ndim));
  if (layout) return;  // its library alone knows where the elements are
  check_sizes(tensor, ndim, type.sizes, type.strides, what, name);
  char* data = data_of(tensor, -1);
  int64_t count = 0;
  if (!data) check(aoti_torch_get_numel(tensor, &count), -1);
  if (count) fail(-1, "%s%s needs memory for its elements, and has none", what, name);
  if (type.offset > 0) check_storage_offset(tensor, type.offset, what, name);
  if (type.alignment && reinterpret_cast<uintptr_t>(data) % type.alignment)
    fail(
        -1, "%s%s needs an address that is a multiple of %lld", what, name,
        shown(type.alignment));
}

void refuse_input(const InputFact& fact, const std::string& needed) {
  fail(-1, "%s%s needs %s", an_input, fact.name, needed.c_str());
}

void check_input(wrapperir_value& value, const InputFact& fact) {
  if (fact.kind == WRAPPERIR_TENSOR) {
    const bool is_null = value.kind == WRAPPERIR_TENSOR && !value.as.tensor;
    if (value.kind != WRAPPERIR_TENSOR || is_null)
      refuse_input(
          fact, std::string("a tensor, not ") +
              (is_null ? "a null handle" : name_of_kind(value.kind)));
    return check_tensor(value.as.tensor, fact.type, an_input, fact.name, fact.may_be_on_cpu);
  }
  bool is_whole = value.kind == WRAPPERIR_INT || value.kind == WRAPPERIR_BOOL;
  if (!is_whole && (value.kind != WRAPPERIR_FLOAT || fact.kind != WRAPPERIR_FLOAT))
    refuse_input(
        fact, std::string(name_of_kind(fact.kind)) + ", not " + name_of_kind(value.kind));
  if (is_whole && fact.kind == WRAPPERIR_FLOAT)
    value.as.real = static_cast<double>(value.as.integer);
  if (fact.kind == WRAPPERIR_BOOL) value.as.integer = value.as.integer != 0;
  value.kind = fact.kind;
}

void check_layout(
    AtenTensorHandle tensor, const Ints& sizes, const Ints& strides, const char* subject) {
  check_sizes(tensor, sizes.count, sizes.data, strides.data, subject, "");
}

void check_offset(AtenTensorHandle tensor, int64_t offset, const char* subject) {
  check_storage_offset(tensor, offset, subject, "");
}

}  // namespace wrapperir
