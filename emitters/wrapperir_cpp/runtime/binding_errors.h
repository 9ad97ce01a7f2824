// Python exceptions with the messages of programs.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string>

namespace {

void set_error(PyObject* type, const std::string& message) {
  PyObject* text = PyUnicode_DecodeUTF8(message.data(), message.size(), "replace");
  if (text) PyErr_SetObject(type, text);
  Py_XDECREF(text);
}

// Raise the KeyboardInterrupt or SystemExit that ended a Python operator. PyTorch keeps the text
// of pybind: after the failed line, the exception's class, its text, and where it was raised.
bool set_exit(const std::string& message) {
  size_t begin = message.find(": "), end = message.find("\n\nAt:\n");
  if (end == std::string::npos || begin > end) return false;
  std::string raised = message.substr(begin + 2, end - begin - 2);
  const char* empty = ": <EMPTY MESSAGE>";
  for (PyObject* type : {PyExc_KeyboardInterrupt, PyExc_SystemExit}) {
    std::string name = reinterpret_cast<PyTypeObject*>(type)->tp_name;
    if (raised == name + empty) {
      PyErr_SetNone(type);
      return true;
    }
    if (raised.rfind(name + ": ", 0)) continue;
    std::string text = raised.substr(name.size() + 2);
    PyObject* code =
        type == PyExc_SystemExit ? PyLong_FromString(text.c_str(), nullptr, 10) : nullptr;
    if (code) {
      PyErr_SetObject(type, code);
      Py_DECREF(code);
    } else {
      PyErr_Clear();
      set_error(type, text);
    }
    return true;
  }
  return false;
}

// Tensors of torch.func and tracing pass as plain tensors, but have no memory.
void set_failure(const std::string& message) {
  if (set_exit(message)) return;
  if (message.find("Cannot access data pointer") == std::string::npos)
    set_error(PyExc_RuntimeError, message);
  else
    set_error(
        PyExc_TypeError,
        message + ": the program takes plain tensors only, with memory of their own");
}

}  // namespace
