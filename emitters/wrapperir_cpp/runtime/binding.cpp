// A program's library as a Python callable. This is compiled once for a version of PyTorch and
// Python, and loads any library through the functions of wrapperir.h.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <string.h>
#include <structmember.h>

#include <memory>
#include <vector>

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
// A function of PyTorch's Python bindings; it moves from its argument.
PyObject* THPVariable_Wrap(at::TensorBase&&);

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
  decltype(&wrapperir_timed_count) timed_count;
  decltype(&wrapperir_timed_name) timed_name;
  decltype(&wrapperir_timed_choice) timed_choice;
  Py_ssize_t output_count;
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

bool take_whole(PyObject* number, Py_ssize_t index, wrapperir_value& value) {
  int overflow = 0;
  value.as.integer = PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow)
    PyErr_Format(PyExc_OverflowError, "input %zd does not fit 64 bits", index);
  else if (value.as.integer != -1 || !PyErr_Occurred())
    value.kind = PyBool_Check(number) ? WRAPPERIR_BOOL : WRAPPERIR_INT;
  return value.kind != WRAPPERIR_NONE;
}

bool refuse_tensor(PyObject* object, Py_ssize_t index) {
  PyErr_Format(
      PyExc_TypeError, "input %zd is a %s: the program takes plain tensors only", index,
      Py_TYPE(object)->tp_name);
  return false;
}

bool refuse_other(PyObject* object, Py_ssize_t index) {
  if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_TypeError)) return false;
  PyErr_Format(
      PyExc_TypeError, "input %zd is a %s, neither a tensor nor a real number", index,
      Py_TYPE(object)->tp_name);
  return false;
}

// Take an object that may be converted to an int or a float.
bool take_other(PyObject* object, Py_ssize_t index, wrapperir_value& value) {
  int is_tensor = PyObject_IsInstance(object, tensor_class);
  if (is_tensor < 0) return false;
  if (is_tensor) return refuse_tensor(object, index);
  if (PyIndex_Check(object)) {
    PyObject* number = PyNumber_Index(object);
    if (!number) return refuse_other(object, index);
    bool taken = take_whole(number, index, value);
    Py_DECREF(number);
    return taken;
  }
  if (PyNumber_Check(object)) {
    value.as.real = PyFloat_AsDouble(object);
    if (value.as.real == -1.0 && PyErr_Occurred()) return refuse_other(object, index);
    value.kind = WRAPPERIR_FLOAT;
    return true;
  }
  return refuse_other(object, index);
}

bool take_tensor(PyObject* tensor, Py_ssize_t index, wrapperir_value& value) {
  value.as.tensor = nullptr;
  if (aoti_torch_new_tensor_handle(handle_of(tensor), &value.as.tensor)) {
    PyErr_Format(PyExc_RuntimeError, "input %zd is a tensor that cannot be taken", index);
    return false;
  }
  value.kind = WRAPPERIR_TENSOR;
  return true;
}

// Take a copy of a lazily conjugated or negated tensor, whose memory does not hold its values.
// If the program writes to the tensor, the writes would be lost.
bool take_lazy(
    const Program& program, PyObject* tensor, Py_ssize_t index, wrapperir_value& value) {
  if (program.is_mutated(program.program, index)) {
    PyErr_Format(
        PyExc_TypeError,
        "input %zd is conjugated or negated lazily, and the program writes to it: pass one"
        " that is not, such as its clone",
        index);
    return false;
  }
  PyObject* steps[] = {Py_NewRef(tensor), nullptr, nullptr, nullptr};
  const char* methods[] = {"detach", "resolve_conj", "resolve_neg"};
  for (int i = 0; i < 3 && steps[i]; ++i)
    steps[i + 1] = PyObject_CallMethod(steps[i], methods[i], nullptr);
  bool taken = steps[3] && take_tensor(steps[3], index, value);
  for (PyObject* step : steps) Py_XDECREF(step);
  return taken;
}

bool take(
    const Program& program, PyObject* object, Py_ssize_t index, wrapperir_value& value) {
  if (is_plain(object))
    return is_lazy(object) ? take_lazy(program, object, index, value)
                           : take_tensor(object, index, value);
  if (PyLong_Check(object)) return take_whole(object, index, value);
  if (PyFloat_Check(object)) {
    value.as.real = PyFloat_AS_DOUBLE(object);
    value.kind = WRAPPERIR_FLOAT;
    return true;
  }
  return object == Py_None || take_other(object, index, value);
}

// A handle's tensor, as its Python object if it has one. The handle is deleted.
PyObject* wrap(wrapperir_tensor& handle) {
  PyObject* made = THPVariable_Wrap(reinterpret_cast<at::TensorBase&&>(*handle));
  aoti_torch_delete_tensor_object(handle);
  handle = nullptr;
  return made;
}

PyObject* give(wrapperir_value& value) {
  switch (value.kind) {
    case WRAPPERIR_TENSOR: return wrap(value.as.tensor);
    case WRAPPERIR_INT: return PyLong_FromLongLong(value.as.integer);
    case WRAPPERIR_FLOAT: return PyFloat_FromDouble(value.as.real);
    case WRAPPERIR_BOOL: return PyBool_FromLong(value.as.integer != 0);
    default: Py_RETURN_NONE;
  }
}

PyObject* give_all(wrapperir_value* outputs, Py_ssize_t count) {
  PyObject* result = PyTuple_New(count);
  for (Py_ssize_t i = 0; result && i < count; ++i) {
    PyObject* item = give(outputs[i]);
    if (item)
      PyTuple_SET_ITEM(result, i, item);
    else
      Py_CLEAR(result);
  }
  return result;
}

PyObject* call(PyObject* self, PyObject* const* given, size_t flags, PyObject* names) {
  auto* program = reinterpret_cast<Program*>(self);
  if (PyVectorcall_NARGS(flags) != 1 || names || !PyList_CheckExact(given[0])) {
    PyErr_SetString(PyExc_TypeError, "a program takes one list, of its inputs");
    return nullptr;
  }
  PyObject* list = given[0];
  Py_ssize_t count = PyList_GET_SIZE(list);
  Values inputs(count);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list) && i < count; ++i)
    if (!take(*program, PyList_GET_ITEM(list, i), i, inputs.all()[i])) return nullptr;
  Values outputs(program->output_count);
  // The list must not keep tensors alive that the program frees.
  if (PyList_SetSlice(list, 0, PyList_GET_SIZE(list), nullptr)) return nullptr;
  wrapperir_value* taken = inputs.all();
  inputs.release();
  PyThreadState* state = PyEval_SaveThread();
  int failed = program->run(
      program->program, taken, count, outputs.all(), program->output_count);
  PyEval_RestoreThread(state);
  if (failed) {
    set_failure(program->error());
    return nullptr;
  }
  return give_all(outputs.all(), program->output_count);
}

template <typename Function>
bool find(void* library, const char* name, Function& function, bool is_needed = true) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function && is_needed)
    PyErr_Format(PyExc_ImportError, "the library has no function %s", name);
  return function;
}

// The handles of a program's constants, borrowed from a dict.
bool find_constants(void* library, PyObject* constants, std::vector<wrapperir_tensor>& found) {
  decltype(&wrapperir_constant_count) count = nullptr;
  decltype(&wrapperir_constant_key) key = nullptr;
  if (!find(library, "wrapperir_constant_count", count) ||
      !find(library, "wrapperir_constant_key", key))
    return false;
  for (int64_t i = 0; i < count(); ++i) {
    PyObject* text = PyUnicode_DecodeUTF8(key(i), strlen(key(i)), "surrogatepass");
    PyObject* constant = text ? PyDict_GetItemWithError(constants, text) : nullptr;
    if (!constant && !PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, text);
    Py_XDECREF(text);
    if (!constant) return false;
    if (!is_plain(constant)) {
      PyErr_Format(
          PyExc_TypeError, "constant %s is a %s, not a plain tensor", key(i),
          Py_TYPE(constant)->tp_name);
      return false;
    }
    found.push_back(handle_of(constant));
  }
  return true;
}

bool open_with(Program* self, void* library, PyObject* constants) {
  decltype(&wrapperir_open_with) open = nullptr;
  decltype(&wrapperir_output_count) output_count = nullptr;
  std::vector<wrapperir_tensor> handles;
  if (!find(library, "wrapperir_open_with", open) ||
      !find(library, "wrapperir_output_count", output_count) ||
      !find(library, "wrapperir_run", self->run) ||
      !find(library, "wrapperir_close", self->close) ||
      !find(library, "wrapperir_error", self->error) ||
      !find(library, "wrapperir_input_is_mutated", self->is_mutated) ||
      !find_constants(library, constants, handles))
    return false;
  auto count = static_cast<int64_t>(handles.size());
  if (open(handles.data(), count, &self->program)) {
    set_error(PyExc_RuntimeError, self->error());
    return false;
  }
  // Older libraries do not have these.
  find(library, "wrapperir_timed_count", self->timed_count, false);
  find(library, "wrapperir_timed_name", self->timed_name, false);
  find(library, "wrapperir_timed_choice", self->timed_choice, false);
  self->output_count = static_cast<Py_ssize_t>(output_count(self->program));
  return true;
}

// Program(path, constants). The library stays loaded, since threads may run its code.
PyObject* make(PyTypeObject* type, PyObject* given, PyObject*) {
  PyObject* path = nullptr;
  PyObject* constants = nullptr;
  if (!PyArg_ParseTuple(given, "O&O!", PyUnicode_FSConverter, &path, &PyDict_Type, &constants))
    return nullptr;
  void* library = dlopen(PyBytes_AS_STRING(path), RTLD_NOW | RTLD_LOCAL);
  Py_DECREF(path);
  if (!library) {
    PyErr_SetString(PyExc_ImportError, dlerror());
    return nullptr;
  }
  auto* self = reinterpret_cast<Program*>(type->tp_alloc(type, 0));
  if (self) {
    self->call = call;
    if (open_with(self, library, constants)) return reinterpret_cast<PyObject*>(self);
    Py_DECREF(self);
  }
  return nullptr;
}

void destroy(PyObject* self) {
  auto* program = reinterpret_cast<Program*>(self);
  if (program->program) program->close(program->program);
  Py_TYPE(self)->tp_free(self);
}

// Pairs of a multi-kernel's name and its fastest kernel or None.
PyObject* timed_choices(PyObject* self, void*) {
  auto* program = reinterpret_cast<Program*>(self);
  const Py_ssize_t count = program->timed_choice ? program->timed_count() : 0;
  PyObject* pairs = PyTuple_New(count);
  for (Py_ssize_t i = 0; pairs && i < count; ++i) {
    PyObject* pair = Py_BuildValue("sz", program->timed_name(i), program->timed_choice(i));
    if (pair)
      PyTuple_SET_ITEM(pairs, i, pair);
    else
      Py_CLEAR(pairs);
  }
  return pairs;
}

PyGetSetDef attributes[] = {
    {"timed_choices", timed_choices, nullptr,
     "Pairs of the name of each timed multi-kernel, and its fastest kernel or None.",
     nullptr},
    {}};

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Program, call), READONLY, nullptr}, {}};

PyTypeObject program_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

bool fill_type() {
  program_type.tp_name = "wrapperir_cpp.Program";
  program_type.tp_doc = "A loaded program: takes its inputs as a list, which it empties.";
  program_type.tp_basicsize = sizeof(Program);
  program_type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
  program_type.tp_vectorcall_offset = offsetof(Program, call);
  program_type.tp_call = PyVectorcall_Call;
  program_type.tp_new = make;
  program_type.tp_dealloc = destroy;
  program_type.tp_members = members;
  program_type.tp_getset = attributes;
  return !PyType_Ready(&program_type);
}

bool knows_tensors(PyObject* torch) {
  PyObject* tensor = PyObject_CallMethod(torch, "empty", "i", 0);
  PyObject* address = tensor ? PyObject_GetAttrString(tensor, "_cdata") : nullptr;
  bool known = address &&
      PyLong_AsVoidPtr(address) == *reinterpret_cast<void**>(handle_of(tensor));
  Py_XDECREF(address);
  Py_XDECREF(tensor);
  if (!known && !PyErr_Occurred())
    PyErr_SetString(PyExc_ImportError, "tensors have another layout");
  return known;
}

bool find_classes(PyObject* torch) {
  PyObject* nn = PyImport_ImportModule("torch.nn");
  tensor_class = PyObject_GetAttrString(torch, "Tensor");
  parameter_class = nn ? PyObject_GetAttrString(nn, "Parameter") : nullptr;
  Py_XDECREF(nn);
  dispatch_name = PyUnicode_InternFromString("__torch_dispatch__");
  if (!tensor_class || !parameter_class || !dispatch_name) return false;
  no_dispatch = PyObject_GetAttr(tensor_class, dispatch_name);
  return no_dispatch;
}

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "binding", nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_binding() {
  PyObject* torch = PyImport_ImportModule("torch");
  if (!torch) return nullptr;
  PyObject* module = nullptr;
  if (knows_tensors(torch) && find_classes(torch) && fill_type()) {
    module = PyModule_Create(&definition);
    auto* type = reinterpret_cast<PyObject*>(&program_type);
    if (module && PyModule_AddObjectRef(module, "Program", type)) Py_CLEAR(module);
  }
  Py_DECREF(torch);
  return module;
}
