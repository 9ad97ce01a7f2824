// Calls of compiled C++ kernels: a Kernel is called with its tensors and numbers by position.
#include "arguments.h"

#include <alloca.h>
#include <stddef.h>
#include <structmember.h>

#include <exception>
#include <string>
#include <vector>

namespace {

struct Kernel {
  PyObject_HEAD
  vectorcallfunc call;
  PyObject* name;
  PyObject* types;
  void (*function)(const uint64_t*);
  std::vector<Parameter>* parameters;
};

bool refuse(Kernel& kernel, size_t index, PyObject* given, Fault fault) {
  PyErr_Clear();
  const bool is_value = fault == Fault::value;
  PyErr_Format(
      is_value ? PyExc_OverflowError : PyExc_TypeError,
      is_value ? "%U takes argument %zu as %U, which cannot hold %S"
               : "%U takes argument %zu as %U, not %R",
      kernel.name, index, PyTuple_GET_ITEM(kernel.types, index), given);
  return false;
}

// Write an argument as the kernel's caller takes it; false with an error where it cannot be.
bool pass(Kernel& kernel, size_t index, PyObject* given, uint64_t* result) {
  const Parameter& parameter = (*kernel.parameters)[index];
  if (parameter.kind != address) {
    const Fault fault = write_number(parameter, given, result);
    return fault == Fault::none || refuse(kernel, index, given, fault);
  }
  void* pointer = nullptr;
  if (!PyType_IsSubtype(Py_TYPE(given), tensor_class))
    return refuse(kernel, index, given, Fault::type);
  if (aoti_torch_get_data_ptr(handle_of(given), &pointer)) {
    PyErr_Format(PyExc_RuntimeError, "argument %zu of %U has no memory", index, kernel.name);
    return false;
  }
  *result = reinterpret_cast<uint64_t>(pointer);
  return true;
}

PyObject* call(PyObject* self, PyObject* const* given, size_t flags, PyObject* keywords) {
  Kernel& kernel = *reinterpret_cast<Kernel*>(self);
  const size_t total = PyVectorcall_NARGS(flags), count = kernel.parameters->size();
  if (total != count || (keywords && PyTuple_GET_SIZE(keywords)))
    return PyErr_Format(
        PyExc_TypeError, "%U takes %zu arguments by position, not %zu", kernel.name, count,
        total);
  if (!kernel.function)
    return PyErr_Format(PyExc_RuntimeError, "%U is not compiled", kernel.name);
  auto* values = static_cast<uint64_t*>(alloca((count + 1) * sizeof(uint64_t)));
  for (size_t i = 0; i < count; ++i)
    if (!pass(kernel, i, given[i], &values[i])) return nullptr;
  AtenRecordFunctionHandle record = nullptr;
  if (is_recorded()) {
    const char* name = PyUnicode_AsUTF8(kernel.name);
    if (!name) return nullptr;
    aoti_record_function_start(name, nullptr, nullptr, 0, &record);
  }
  std::string failure;
  bool has_failed = false;
  PyThreadState* state = PyEval_SaveThread();
  try {
    kernel.function(values);
  } catch (const std::exception& error) {  // such as an index that a kernel found out of bounds
    has_failed = true;
    failure = error.what();
  } catch (...) {
    has_failed = true;
    failure = "the kernel failed";
  }
  PyEval_RestoreThread(state);
  if (record) aoti_record_function_end(record);
  if (has_failed) return PyErr_Format(PyExc_RuntimeError, "%s", failure.c_str());
  Py_RETURN_NONE;
}

// Kernel(name, types)
PyObject* make(PyTypeObject* type, PyObject* given, PyObject*) {
  PyObject *name, *types;
  if (!PyArg_ParseTuple(given, "UO!", &name, &PyTuple_Type, &types)) return nullptr;
  auto* self = reinterpret_cast<Kernel*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->call = call;
  self->name = Py_NewRef(name);
  self->types = Py_NewRef(types);
  self->parameters = new std::vector<Parameter>;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(types); ++i) {
    const char* spelled = PyUnicode_AsUTF8(PyTuple_GET_ITEM(types, i));
    const auto found = known_types().find(spelled ? spelled : "");
    const bool is_address = spelled && !strcmp(spelled, "address");
    if (!is_address && found == known_types().end()) {
      Py_DECREF(self);
      return PyErr_Format(PyExc_ValueError, "%U has a parameter of an unknown type", name);
    }
    self->parameters->push_back(is_address ? Parameter{address, 0, 0} : found->second);
  }
  return reinterpret_cast<PyObject*>(self);
}

// Kernel.bind(address): call this function from now on.
PyObject* bind(PyObject* object, PyObject* given) {
  void* function = PyLong_AsVoidPtr(given);
  if (PyErr_Occurred()) return nullptr;
  reinterpret_cast<Kernel*>(object)->function =
      reinterpret_cast<void (*)(const uint64_t*)>(function);
  Py_RETURN_NONE;
}

void drop(PyObject* object) {
  auto* self = reinterpret_cast<Kernel*>(object);
  Py_XDECREF(self->name);
  Py_XDECREF(self->types);
  delete self->parameters;
  Py_TYPE(object)->tp_free(object);
}

PyMemberDef members[] = {
    {"__name__", T_OBJECT_EX, offsetof(Kernel, name), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyMethodDef methods[] = {{"bind", bind, METH_O, nullptr}, {nullptr, nullptr, 0, nullptr}};

PyTypeObject kernel_type = {PyVarObject_HEAD_INIT(nullptr, 0) "cpp_calls.Kernel"};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "cpp_calls", nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_cpp_calls() {
  kernel_type.tp_basicsize = sizeof(Kernel);
  kernel_type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
  kernel_type.tp_vectorcall_offset = offsetof(Kernel, call);
  kernel_type.tp_call = PyVectorcall_Call;
  kernel_type.tp_new = make;
  kernel_type.tp_dealloc = drop;
  kernel_type.tp_members = members;
  kernel_type.tp_methods = methods;
  PyObject* torch = PyImport_ImportModule("torch");
  bool ready = torch && find_tensors(torch) && !PyType_Ready(&kernel_type);
  Py_XDECREF(torch);
  // FX names a node's function by its module.
  PyObject* name = ready ? PyUnicode_FromString("cpp_calls") : nullptr;
  ready = name && !PyDict_SetItemString(kernel_type.tp_dict, "__module__", name);
  Py_XDECREF(name);
  PyObject* module = ready ? PyModule_Create(&definition) : nullptr;
  if (module && PyModule_AddObjectRef(module, "Kernel", reinterpret_cast<PyObject*>(&kernel_type)))
    Py_CLEAR(module);
  return module;
}
