// Python exceptions with the messages of programs.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string>

namespace {

PyObject* decoded(const std::string& message) {
  return PyUnicode_DecodeUTF8(message.data(), message.size(), "replace");
}

void set_error(PyObject* type, const std::string& message) {
  PyObject* text = decoded(message);
  if (text) PyErr_SetObject(type, text);
  Py_XDECREF(text);
}

// Take the exception that is set, or None.
PyObject* take_raised() {
  PyObject *type = nullptr, *raised = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &raised, &traceback);
  if (!type) Py_RETURN_NONE;
  PyErr_NormalizeException(&type, &raised, &traceback);
  if (traceback) PyException_SetTraceback(raised, traceback);
  Py_XDECREF(traceback);
  Py_DECREF(type);
  return raised;
}

// Raise the exception that wrapperir_cpp.errors makes of a message.
void set_failure(const std::string& message) {
  // What a dispatch mode in Python raised is still set; the message may not have its text.
  PyObject* raised = take_raised();
  PyObject* module = PyImport_ImportModule("wrapperir_cpp.errors");
  PyObject* text = module ? decoded(message) : nullptr;
  PyObject* error =
      text ? PyObject_CallMethod(module, "error_of", "OO", text, raised) : nullptr;
  Py_DECREF(raised);
  if (error) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  Py_XDECREF(error);
  Py_XDECREF(text);
  Py_XDECREF(module);
}

}  // namespace
