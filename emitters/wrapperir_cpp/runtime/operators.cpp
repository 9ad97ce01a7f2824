// Calls of operators by name, through PyTorch's dispatcher.
#include "operators.h"

#include <dlfcn.h>

#include <string>
#include <vector>

#include "program.h"

// The part of PyTorch's stable C interface for calls by name.
using StableIValue = uint64_t;
typedef struct StableListOpaque* StableListHandle;
typedef struct StringOpaque* StringHandle;
extern "C" {
uint64_t aoti_torch_abi_version();
int32_t aoti_torch_layout_strided();
int32_t aoti_torch_layout_sparse_coo();
int32_t aoti_torch_layout_sparse_csr();
int32_t aoti_torch_layout_sparse_csc();
int32_t aoti_torch_layout_sparse_bsr();
int32_t aoti_torch_layout_sparse_bsc();
int32_t aoti_torch_memory_format_contiguous_format();
int32_t aoti_torch_memory_format_preserve_format();
int32_t aoti_torch_memory_format_channels_last();
int32_t aoti_torch_memory_format_channels_last_3d();
AOTITorchError aoti_torch_new_uninitialized_tensor(AtenTensorHandle*);
AOTITorchError torch_call_dispatcher(const char*, const char*, StableIValue*, uint64_t);
AOTITorchError torch_new_list_reserve_size(size_t, StableListHandle*);
AOTITorchError torch_list_size(StableListHandle, size_t*);
AOTITorchError torch_list_get_item(StableListHandle, size_t, StableIValue*);
AOTITorchError torch_list_push_back(StableListHandle, StableIValue);
AOTITorchError torch_delete_list(StableListHandle);
AOTITorchError torch_new_string_handle(const char*, size_t, StringHandle*);
// Since PyTorch 2.13; before, both sides use new and delete.
__attribute__((weak)) AOTITorchError torch_new_stable_ivalue(StableIValue**);
__attribute__((weak)) AOTITorchError torch_delete_stable_ivalue(StableIValue*);
}

namespace wrapperir {
namespace op {

// In the order of the enumerators.
int32_t torch_layout(Layout layout) {
  static constexpr int32_t (*codes[])() = {
      aoti_torch_layout_strided,    aoti_torch_layout_sparse_coo,
      aoti_torch_layout_sparse_csr, aoti_torch_layout_sparse_csc,
      aoti_torch_layout_sparse_bsr, aoti_torch_layout_sparse_bsc};
  return codes[static_cast<int32_t>(layout)]();
}

int32_t torch_memory_format(MemoryFormat format) {
  static constexpr int32_t (*codes[])() = {
      aoti_torch_memory_format_contiguous_format, aoti_torch_memory_format_preserve_format,
      aoti_torch_memory_format_channels_last, aoti_torch_memory_format_channels_last_3d};
  return codes[static_cast<int32_t>(format)]();
}

namespace {

// Converts values to and from the 64 bits of PyTorch's stable interface. The callee owns the
// handles that it gets. An optional value is behind a pointer, which it owns too; none is 0.
class StableCall {
 public:
  StableCall(const Operator& callee, int line) : callee_(callee), line_(line) {}

  StableIValue encode(const Argument& argument) const {
    StableIValue value = 0;
    if (argument.kind == Kind::none && argument.is_optional) return 0;
    switch (argument.kind) {
      case Kind::none: {
        AtenTensorHandle handle = nullptr;
        check(aoti_torch_new_uninitialized_tensor(&handle), line_);
        value = as_value(handle);
        break;
      }
      case Kind::tensor:
        value = as_value(new_handle(argument.tensor, line_));
        break;
      case Kind::real:
        memcpy(&value, &argument.real, sizeof value);
        break;
      case Kind::string: {
        StringHandle handle = nullptr;
        check(torch_new_string_handle(argument.string, argument.count, &handle), line_);
        value = as_value(handle);
        break;
      }
      case Kind::device:
        value = static_cast<uint32_t>(argument.count) |
            static_cast<uint64_t>(static_cast<uint32_t>(argument.integer)) << 32;
        break;
      case Kind::integers:
        value = list_of(argument.count, [&](int64_t i) {
          return static_cast<StableIValue>(argument.integers[i]);
        });
        break;
      case Kind::list:
        value = list_of(argument.count, [&](int64_t i) { return encode(argument.items[i]); });
        break;
      case Kind::complex:
        fail(line_, "%s: PyTorch's C interface has no complex numbers", callee_.name);
      case Kind::dtype:
      case Kind::layout:
      case Kind::memory_format:
        value = static_cast<uint32_t>(argument.integer);
        break;
      case Kind::integer:
      case Kind::boolean:
        value = static_cast<StableIValue>(argument.integer);
        break;
    }
    if (!argument.is_optional) return value;
    StableIValue* there = torch_new_stable_ivalue ? nullptr : new StableIValue;
    if (!there) check(torch_new_stable_ivalue(&there), line_);
    *there = value;
    return as_value(there);
  }

  void decode(StableIValue value, const Result& result) const {
    if (result.is_optional) {
      if (value == 0) {
        if (result.kind == Kind::tensor) result.tensor->reset();
        return;
      }
      auto* there = as_pointer<StableIValue>(value);
      value = *there;
      if (torch_delete_stable_ivalue)
        check(torch_delete_stable_ivalue(there), line_);
      else
        delete there;
    }
    switch (result.returned) {
      case Kind::tensor: {
        Tensor made(as_pointer<AtenTensorOpaque>(value));
        if (result.kind != Kind::none) *result.tensor = static_cast<Tensor&&>(made);
        break;
      }
      case Kind::list:
        decode_list(as_pointer<StableListOpaque>(value), result);
        break;
      case Kind::integer:
        if (result.kind != Kind::none) *result.integer = static_cast<int64_t>(value);
        break;
      case Kind::boolean:
        if (result.kind != Kind::none) *result.boolean = (value & 0xff) != 0;
        break;
      case Kind::real:
        if (result.kind != Kind::none) memcpy(result.real, &value, sizeof value);
        break;
      default:
        fail(line_, "%s returns a value that PyTorch's C interface cannot pass", callee_.name);
    }
  }

 private:
  template <typename T>
  static StableIValue as_value(T* pointer) {
    return reinterpret_cast<StableIValue>(pointer);
  }
  template <typename T>
  static T* as_pointer(StableIValue value) {
    return reinterpret_cast<T*>(value);
  }

  template <typename F>
  StableIValue list_of(int64_t count, F item) const {
    StableListHandle made = nullptr;
    check(torch_new_list_reserve_size(static_cast<size_t>(count), &made), line_);
    for (int64_t i = 0; i < count; ++i) check(torch_list_push_back(made, item(i)), line_);
    return as_value(made);
  }

  // Decode a list of tensors: operators return no other lists.
  void decode_list(StableListHandle from, const Result& result) const {
    size_t count = 0;
    check(torch_list_size(from, &count), line_);
    std::vector<Tensor> made;
    made.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      StableIValue item = 0;
      check(torch_list_get_item(from, i, &item), line_);
      made.emplace_back(as_pointer<AtenTensorOpaque>(item));
    }
    check(torch_delete_list(from), line_);
    if (result.kind == Kind::none) return;
    if (static_cast<int64_t>(count) != result.count)
      fail(
          line_, "%s returned %zu tensors, not %lld", callee_.name, count,
          shown(result.count));
    for (size_t i = 0; i < count; ++i) {
      const Result& item = result.items[i];
      if (item.kind != Kind::none) *item.tensor = static_cast<Tensor&&>(made[i]);
    }
  }

  const Operator& callee_;
  int line_;
};

using CallOperator = const char* (*)(
    const Operator&, const Argument*, int64_t, const Result*, int64_t);

// Find operators.so beside the library that this code is in.
CallOperator find_bridge(int line) {
  const std::string path = own_folder() + "/operators.so";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) fail(line, "%s", dlerror());
  void* found = dlsym(library, "wrapperir_call_operator");
  if (!found) fail(line, "%s has no wrapperir_call_operator", path.c_str());
  return reinterpret_cast<CallOperator>(found);
}

}  // namespace

void call(
    const Operator& callee, std::initializer_list<Argument> arguments,
    std::initializer_list<Result> results, int line) {
  constexpr size_t usual = 24;
  StableIValue few[usual];
  std::vector<StableIValue> many;
  StableIValue* stack = few;
  size_t needed = arguments.size() > results.size() ? arguments.size() : results.size();
  if (needed > usual) {
    many.resize(needed);
    stack = many.data();
  }
  StableCall values(callee, line);
  StableIValue* next = stack;
  for (const Argument& argument : arguments) *next++ = values.encode(argument);
  check(
      torch_call_dispatcher(callee.name, callee.overload, stack, aoti_torch_abi_version()),
      line);
  const Result* result = results.begin();
  next = stack;
  try {
    while (result != results.end()) values.decode(*next++, *result++);
  } catch (const Failure&) {
    for (; result != results.end(); ++result) {  // the later results belong to us
      Result rest = dropped(result->returned);
      rest.is_optional = result->is_optional;
      values.decode(*next++, rest);
    }
    throw;
  }
}

void call_boxed(
    const Operator& callee, std::initializer_list<Argument> arguments,
    std::initializer_list<Result> results, int line) {
  static const CallOperator bridge = find_bridge(line);
  const char* message = bridge(
      callee, arguments.begin(), static_cast<int64_t>(arguments.size()), results.begin(),
      static_cast<int64_t>(results.size()));
  if (message) fail(line, "%s", message);
}

}  // namespace op
}  // namespace wrapperir
