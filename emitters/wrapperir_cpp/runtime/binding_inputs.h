// The inputs of a call from Python: tensors and numbers, or a refusal that names the input.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>

#include <memory>
#include <string>

#include "binding_errors.h"
#include "wrapperir.h"

extern "C" {
int32_t aoti_torch_new_tensor_handle(wrapperir_tensor, wrapperir_tensor*);
int32_t aoti_torch_delete_tensor_object(wrapperir_tensor);
}
namespace at {
class Tensor;
class TensorBase;
namespace native {
bool is_conj(const Tensor&);
bool is_neg(const Tensor&);
}
}

namespace {

PyObject* tensor_class;
PyObject* parameter_class;
PyObject* dispatch_name;
PyObject* no_dispatch;

struct Program {
  PyObject_HEAD
  vectorcallfunc call;
  wrapperir_program* program;
  decltype(&wrapperir_run) run;
  decltype(&wrapperir_close) close;
  decltype(&wrapperir_error) error;
  decltype(&wrapperir_input_is_mutated) is_mutated;
  decltype(&wrapperir_input_kind) input_kind;
  decltype(&wrapperir_refuse_input) refuse_input;
  decltype(&wrapperir_timed_count) timed_count;
  decltype(&wrapperir_timed_name) timed_name;
  decltype(&wrapperir_timed_choice) timed_choice;
  decltype(&wrapperir_drop_recordings) drop_recordings;
  Py_ssize_t input_count;
  Py_ssize_t output_count;
  PyObject* weak;
};

// A Python tensor keeps its at::Tensor behind the object's head; loading checks that.
wrapperir_tensor handle_of(PyObject* object) {
  return reinterpret_cast<wrapperir_tensor>(
      reinterpret_cast<char*>(object) + sizeof(PyObject));
}

// Whether a tensor's class has no __torch_dispatch__ of its own. Python caches the lookup.
bool leaves_dispatch(PyTypeObject* type) {
  if (!PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(tensor_class))) return false;
  PyObject* found = PyObject_GetAttr(reinterpret_cast<PyObject*>(type), dispatch_name);
  if (!found) PyErr_Clear();
  Py_XDECREF(found);
  return found == no_dispatch;
}

bool is_plain(PyObject* object) {
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  return type == tensor_class || type == parameter_class || leaves_dispatch(Py_TYPE(object));
}

bool is_lazy(PyObject* tensor) {
  auto& inner = reinterpret_cast<const at::Tensor&>(*handle_of(tensor));
  return at::native::is_conj(inner) || at::native::is_neg(inner);
}

// The values of a call; the tensors among them are deleted at the end.
class Values {
 public:
  explicit Values(Py_ssize_t count) : count_(count) {
    if (count > kFew) many_ = std::make_unique<wrapperir_value[]>(count);
    all_ = many_ ? many_.get() : few_;
    for (Py_ssize_t i = 0; i < count; ++i) all_[i].kind = WRAPPERIR_NONE;
  }
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;
  ~Values() {
    for (Py_ssize_t i = 0; i < count_; ++i)
      if (all_[i].kind == WRAPPERIR_TENSOR && all_[i].as.tensor)
        aoti_torch_delete_tensor_object(all_[i].as.tensor);
  }

  wrapperir_value* all() { return all_; }
  // The tensors belong to someone else now.
  void release() { count_ = 0; }

 private:
  static constexpr Py_ssize_t kFew = 32;
  wrapperir_value few_[kFew];
  std::unique_ptr<wrapperir_value[]> many_;
  wrapperir_value* all_;
  Py_ssize_t count_;
};

// Set the error for an input that is not as declared, in the words of other emitters.
bool refuse(const Program& program, Py_ssize_t index, const std::string& needed) {
  program.refuse_input(program.program, index, needed.c_str());
  set_error(PyExc_RuntimeError, program.error());
  return false;
}

bool refuse_kind(const Program& program, Py_ssize_t index, const std::string& given) {
  constexpr const char* kinds[] = {"a tensor", "an int", "a float", "a bool"};
  const char* kind = kinds[program.input_kind(program.program, index)];
  return refuse(program, index, kind + (", not " + given));
}

// The name of an object's class with its article, such as "an ndarray".
std::string name_of_class(PyObject* object) {
  const char* name = Py_TYPE(object)->tp_name;
  if (const char* dot = strrchr(name, '.')) name = dot + 1;
  return (strchr("aeiou", *name) ? "an " : "a ") + std::string(name);
}

bool take_whole(
    const Program& program, PyObject* number, Py_ssize_t index, wrapperir_value& value) {
  int overflow = 0;
  value.as.integer = PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow) return refuse_kind(program, index, "an int of more than 64 bits");
  if (value.as.integer == -1 && PyErr_Occurred()) return false;
  value.kind = PyBool_Check(number) ? WRAPPERIR_BOOL : WRAPPERIR_INT;
  return true;
}

bool refuse_tensor(const Program& program, PyObject* object, Py_ssize_t index) {
  if (program.input_kind(program.program, index) != WRAPPERIR_TENSOR)
    return refuse_kind(program, index, "a tensor");
  return refuse(program, index, "a plain tensor, not " + name_of_class(object));
}

// Refuse what no input can be; an exception of another kind than TypeError stays.
bool refuse_other(const Program& program, PyObject* object, Py_ssize_t index) {
  if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_TypeError)) return false;
  PyErr_Clear();
  return refuse_kind(program, index, name_of_class(object));
}

// Take an object that may be converted to an int or a float.
bool take_other(
    const Program& program, PyObject* object, Py_ssize_t index, wrapperir_value& value) {
  int is_tensor = PyObject_IsInstance(object, tensor_class);
  if (is_tensor < 0) return false;
  if (is_tensor) return refuse_tensor(program, object, index);
  if (PyIndex_Check(object)) {
    PyObject* number = PyNumber_Index(object);
    if (!number) return refuse_other(program, object, index);
    bool taken = take_whole(program, number, index, value);
    Py_DECREF(number);
    return taken;
  }
  if (!PyNumber_Check(object)) return refuse_other(program, object, index);
  value.as.real = PyFloat_AsDouble(object);
  if (value.as.real == -1.0 && PyErr_Occurred()) return refuse_other(program, object, index);
  value.kind = WRAPPERIR_FLOAT;
  return true;
}

bool take_tensor(
    const Program& program, PyObject* tensor, Py_ssize_t index, wrapperir_value& value) {
  value.as.tensor = nullptr;
  if (aoti_torch_new_tensor_handle(handle_of(tensor), &value.as.tensor))
    return refuse(program, index, "a tensor with a handle");
  value.kind = WRAPPERIR_TENSOR;
  return true;
}

// Take a copy of a lazily conjugated or negated tensor, whose memory does not hold its values.
// If the program writes to the tensor, the writes would be lost.
bool take_lazy(
    const Program& program, PyObject* tensor, Py_ssize_t index, wrapperir_value& value) {
  if (program.is_mutated(program.program, index))
    return refuse(
        program, index,
        "memory that holds its values: it is conjugated or negated lazily, and the program"
        " writes to it; pass its clone");
  PyObject* steps[] = {Py_NewRef(tensor), nullptr, nullptr, nullptr};
  const char* methods[] = {"detach", "resolve_conj", "resolve_neg"};
  for (int i = 0; i < 3 && steps[i]; ++i)
    steps[i + 1] = PyObject_CallMethod(steps[i], methods[i], nullptr);
  bool taken = steps[3] && take_tensor(program, steps[3], index, value);
  for (PyObject* step : steps) Py_XDECREF(step);
  return taken;
}

bool take(
    const Program& program, PyObject* object, Py_ssize_t index, wrapperir_value& value) {
  if (is_plain(object))
    return is_lazy(object) ? take_lazy(program, object, index, value)
                           : take_tensor(program, object, index, value);
  if (PyLong_Check(object)) return take_whole(program, object, index, value);
  if (PyFloat_Check(object)) {
    value.as.real = PyFloat_AS_DOUBLE(object);
    value.kind = WRAPPERIR_FLOAT;
    return true;
  }
  return object == Py_None || take_other(program, object, index, value);
}

}  // namespace
