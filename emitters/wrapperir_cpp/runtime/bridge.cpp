// Calls of operators whose arguments PyTorch's stable C interface cannot pass. This is compiled
// to operators.so with PyTorch's C++ headers, for one build of PyTorch.
#define AT_PER_OPERATOR_HEADERS  // the headers of all operators take long to read
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/inductor/aoti_torch/utils.h>

#include <string>

#include "operators.h"

// Of ATen/ScalarOps.h, which takes longer to read than all other headers here.
namespace at::detail {
TORCH_API Tensor scalar_tensor_static(
    const Scalar& value, std::optional<ScalarType> dtype, std::optional<Device> device);
}

namespace {

using torch::aot_inductor::new_tensor_handle;
using torch::aot_inductor::tensor_handle_to_tensor_pointer;
using wrapperir::op::Argument;
using wrapperir::op::Kind;
using wrapperir::op::Operator;
using wrapperir::op::Result;

at::Scalar scalar_of(const Argument& argument) {
  switch (argument.kind) {
    case Kind::integer: return argument.integer;
    case Kind::boolean: return argument.integer != 0;
    case Kind::real: return argument.real;
    case Kind::complex: return c10::complex<double>(argument.parts[0], argument.parts[1]);
    default: TORCH_CHECK(false, "a number is needed");
  }
}

// A number in place of a tensor is promoted as a number.
at::Tensor wrapped_number(const Argument& argument) {
  const at::Scalar value = scalar_of(argument);
  at::Tensor made = at::detail::scalar_tensor_static(value, value.type(), at::kCPU);
  made.unsafeGetTensorImpl()->set_wrapped_number(true);
  return made;
}

at::Tensor tensor_of(const Argument& argument) {
  if (argument.kind == Kind::none) return {};
  if (argument.kind != Kind::tensor) return wrapped_number(argument);
  return *tensor_handle_to_tensor_pointer(argument.tensor);
}

c10::IValue value_of(const c10::Type& type, const Argument& argument);

c10::IValue list_of(const c10::TypePtr& element, const Argument& argument) {
  // A list of symbolic sizes is given as ints.
  const bool is_symbolic = element->kind() == c10::TypeKind::SymIntType;
  c10::impl::GenericList made(is_symbolic ? c10::TypePtr(c10::IntType::get()) : element);
  made.reserve(argument.count);
  for (int64_t i = 0; i < argument.count; ++i) {
    if (argument.kind == Kind::integers) {
      made.emplace_back(argument.integers[i]);
    } else {
      made.emplace_back(value_of(*element, argument.items[i]));
    }
  }
  return made;
}

c10::IValue value_of(const c10::Type& type, const Argument& argument) {
  switch (type.kind()) {
    case c10::TypeKind::OptionalType:
      if (argument.kind == Kind::none) return {};
      return value_of(*type.castRaw<c10::OptionalType>()->getElementType(), argument);
    case c10::TypeKind::TensorType: return tensor_of(argument);
    case c10::TypeKind::ListType:
      return list_of(type.castRaw<c10::ListType>()->getElementType(), argument);
    case c10::TypeKind::NumberType: return scalar_of(argument);
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType: return scalar_of(argument).toLong();
    case c10::TypeKind::FloatType: return scalar_of(argument).toDouble();
    case c10::TypeKind::ComplexType: return scalar_of(argument).toComplexDouble();
    case c10::TypeKind::BoolType:
    case c10::TypeKind::SymBoolType: return argument.integer != 0;
    case c10::TypeKind::AnyType:
      TORCH_CHECK(argument.kind == Kind::string, "arguments of type Any can only be strings");
      [[fallthrough]];
    case c10::TypeKind::StringType:
      return std::string(argument.string, static_cast<size_t>(argument.count));
    case c10::TypeKind::DeviceObjType:
      return c10::Device(
          static_cast<c10::DeviceType>(argument.integer),
          static_cast<c10::DeviceIndex>(argument.count));
    // Element types, layouts and memory formats are ints in a schema.
    case c10::TypeKind::ScalarTypeType:
    case c10::TypeKind::LayoutType:
    case c10::TypeKind::MemoryFormatType: return argument.integer;
    default: TORCH_CHECK(argument.kind == Kind::none, "arguments cannot be of type ", type.str());
  }
  return {};
}

void store(const c10::IValue& value, const Result& result) {
  switch (result.kind) {
    case Kind::none: return;
    case Kind::tensor:
      if (value.isNone()) {
        result.tensor->reset();
      } else {
        result.tensor->reset(new_tensor_handle(at::Tensor(value.toTensor())));
      }
      return;
    case Kind::integer: *result.integer = value.toScalar().toLong(); return;
    case Kind::real: *result.real = value.toScalar().toDouble(); return;
    case Kind::boolean: *result.boolean = value.toScalar().toBool(); return;
    case Kind::list: {
      const auto items = value.toListRef();
      TORCH_CHECK(
          static_cast<int64_t>(items.size()) == result.count, "it returned ", items.size(),
          " values, not ", result.count);
      for (int64_t i = 0; i < result.count; ++i) store(items[i], result.items[i]);
      return;
    }
    default: TORCH_CHECK(false, "a result has no form in a program");
  }
}

}  // namespace

// Return the error message, or null; the message stays until this thread's next call.
extern "C" __attribute__((visibility("default"))) const char* wrapperir_call_operator(
    const Operator& callee, const Argument* arguments, int64_t argument_count,
    const Result* results, int64_t result_count) {
  static thread_local std::string message;
  try {
    const c10::OperatorHandle handle =
        c10::Dispatcher::singleton().findSchemaOrThrow(callee.name, callee.overload);
    const c10::FunctionSchema& schema = handle.schema();
    TORCH_CHECK(
        static_cast<int64_t>(schema.arguments().size()) == argument_count &&
            static_cast<int64_t>(schema.returns().size()) == result_count,
        callee.name, " has another schema than when the program was emitted");
    torch::jit::Stack stack;
    stack.reserve(schema.arguments().size());
    for (int64_t i = 0; i < argument_count; ++i) {
      stack.push_back(value_of(*schema.arguments()[i].real_type(), arguments[i]));
    }
    handle.callBoxed(stack);
    for (int64_t i = 0; i < result_count; ++i) store(stack[i], results[i]);
    return nullptr;
  } catch (const c10::Error& error) {
    message = error.what_without_backtrace();
  } catch (const std::exception& error) {
    message = error.what();
  } catch (...) {
    message = "an exception that is not of C++";
  }
  return message.c_str();
}
