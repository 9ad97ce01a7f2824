// A program's library as a Python callable. This is compiled once for a version of PyTorch and
// Python, and loads any library through the functions of wrapperir.h.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <string.h>
#include <structmember.h>

#include <vector>

#include "binding_inputs.h"

// A function of PyTorch's Python bindings; it moves from its argument.
PyObject* THPVariable_Wrap(at::TensorBase&&);

namespace {

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
    PyErr_SetString(
        PyVectorcall_NARGS(flags) != 1 || names ? PyExc_TypeError : PyExc_RuntimeError,
        "WIR800: a program takes one list, of its inputs");
    return nullptr;
  }
  PyObject* list = given[0];
  Py_ssize_t count = PyList_GET_SIZE(list);
  Values inputs(count);
  // Another number of inputs is refused by the program.
  const Py_ssize_t wanted = count == program->input_count ? count : 0;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list) && i < wanted; ++i)
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
  decltype(&wrapperir_input_count) input_count = nullptr;
  decltype(&wrapperir_output_count) output_count = nullptr;
  std::vector<wrapperir_tensor> handles;
  if (!find(library, "wrapperir_open_with", open) ||
      !find(library, "wrapperir_input_count", input_count) ||
      !find(library, "wrapperir_output_count", output_count) ||
      !find(library, "wrapperir_run", self->run) ||
      !find(library, "wrapperir_close", self->close) ||
      !find(library, "wrapperir_error", self->error) ||
      !find(library, "wrapperir_input_is_mutated", self->is_mutated) ||
      !find(library, "wrapperir_input_kind", self->input_kind) ||
      !find(library, "wrapperir_refuse_input", self->refuse_input) ||
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
  find(library, "wrapperir_drop_recordings", self->drop_recordings, false);
  self->input_count = static_cast<Py_ssize_t>(input_count(self->program));
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
  if (program->weak) PyObject_ClearWeakRefs(self);
  if (program->program) program->close(program->program);
  Py_TYPE(self)->tp_free(self);
}

PyObject* drop_recordings(PyObject* self, PyObject*) {
  auto* program = reinterpret_cast<Program*>(self);
  if (program->drop_recordings && program->drop_recordings(program->program)) {
    set_failure(program->error());
    return nullptr;
  }
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"drop_recordings", drop_recordings, METH_NOARGS,
     "Drop what graph regions have recorded; later calls record it again."},
    {}};

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
  program_type.tp_methods = methods;
  program_type.tp_weaklistoffset = offsetof(Program, weak);
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
