// Operators and layout checks of an emitted program, through PyTorch's stable C functions:
// nothing is dispatched, no argument is parsed.  A function of Python is called instead for a
// tensor of a subclass, for an operator on a tensor outside the CPU, and if a call fails: it
// computes the result or explains the error.  So it is while a profiler records this thread,
// which sees dispatched operators only.
//
// No gradient is recorded and no version counted, so out must be memory of the program's own.

#include "tensors.h"

extern "C" {
AOTITorchError aoti_torch_cpu_mm_out(AtenTensorHandle, AtenTensorHandle, AtenTensorHandle);
AOTITorchError aoti_torch_cpu_bmm_out(AtenTensorHandle, AtenTensorHandle, AtenTensorHandle);
AOTITorchError aoti_torch_cpu_addmm_out(
    AtenTensorHandle, AtenTensorHandle, AtenTensorHandle, AtenTensorHandle, double, double);
AOTITorchError aoti_torch_cpu_baddbmm_out(
    AtenTensorHandle, AtenTensorHandle, AtenTensorHandle, AtenTensorHandle, double, double);
}

namespace {

// Multiplications from which on the interpreter's lock is worth releasing.
constexpr double kLongWork = 1 << 20;

struct Sizes {
  int64_t dims = 0;
  int64_t* of = nullptr;
};

// Whether this is a tensor of the CPU and no subclass's, and its sizes.  One without strides
// or memory makes the operator fail.
bool is_plain_on_cpu(PyObject* object, Sizes& sizes) {
  if (!is_plain(object)) return false;
  AtenTensorHandle tensor = handle_of(object);
  int32_t device = 0;
  return !aoti_torch_get_device_type(tensor, &device) &&
      device == aoti_torch_device_type_cpu() &&
      !aoti_torch_get_dim(tensor, &sizes.dims) &&
      !aoti_torch_get_sizes(tensor, &sizes.of);
}

// An operator whose last two tensors are matrices, or batches of them, to multiply.  It is
// given its tensors, its numbers and out, in the order in which PyTorch's binding has them;
// keywords are the names of those that the binding takes by name.
template <int kDims, int kTensors, int kNumbers, typename Function>
PyObject* multiply(
    Function function,
    PyObject* binding,
    PyObject* keywords,
    PyObject* const* given,
    Py_ssize_t count) {
  constexpr int kOut = kTensors + kNumbers;
  if (count != kOut + 1) {
    PyErr_Format(PyExc_TypeError, "%d arguments are needed, not %zd", kOut + 1, count);
    return nullptr;
  }
  Sizes sizes[kTensors], out;
  bool plain = is_plain_on_cpu(given[kOut], out);
  for (int i = 0; i < kTensors; ++i) plain = plain && is_plain_on_cpu(given[i], sizes[i]);
  const Sizes &left = sizes[kTensors - 2], &right = sizes[kTensors - 1];
  plain = plain && left.dims == kDims && right.dims == kDims;
  double numbers[kNumbers + 1];
  for (int i = 0; plain && i < kNumbers; ++i) {
    numbers[i] = PyFloat_AsDouble(given[kTensors + i]);
    if (numbers[i] == -1.0 && PyErr_Occurred()) {
      PyErr_Clear();
      plain = false;
    }
  }
  if (plain) {
    // PyTorch would resize out, and write over what lies behind it in a pool.
    bool fits = out.dims == kDims && out.of[kDims - 1] == right.of[kDims - 1];
    double work = right.of[kDims - 1];
    for (int i = 0; i < kDims; ++i) {
      fits = fits && (i == kDims - 1 || out.of[i] == left.of[i]);
      work *= left.of[i];
    }
    if (!fits) {
      PyErr_SetString(PyExc_ValueError, "out does not have the size of the result");
      return nullptr;
    }
    AOTITorchError failed = is_recorded();
    if (!failed) {
      AtenTensorHandle tensors[kTensors];
      for (int i = 0; i < kTensors; ++i) tensors[i] = handle_of(given[i]);
      PyThreadState* state = work < kLongWork ? nullptr : PyEval_SaveThread();
      failed = function(handle_of(given[kOut]), tensors, numbers);
      if (state) PyEval_RestoreThread(state);
    }
    if (!failed) Py_RETURN_NONE;
  }
  PyObject* result = PyObject_Vectorcall(binding, given, kTensors, keywords);
  if (!result) return nullptr;
  Py_DECREF(result);
  Py_RETURN_NONE;
}

PyObject* out_keyword;  // ("out",)
PyObject* scaled_keywords;  // ("beta", "alpha", "out")

PyObject* mm_out(PyObject* binding, PyObject* const* given, Py_ssize_t count) {
  auto function = [](AtenTensorHandle out, AtenTensorHandle* t, double*) {
    return aoti_torch_cpu_mm_out(out, t[0], t[1]);
  };
  return multiply<2, 2, 0>(function, binding, out_keyword, given, count);
}

PyObject* bmm_out(PyObject* binding, PyObject* const* given, Py_ssize_t count) {
  auto function = [](AtenTensorHandle out, AtenTensorHandle* t, double*) {
    return aoti_torch_cpu_bmm_out(out, t[0], t[1]);
  };
  return multiply<3, 2, 0>(function, binding, out_keyword, given, count);
}

PyObject* addmm_out(PyObject* binding, PyObject* const* given, Py_ssize_t count) {
  auto function = [](AtenTensorHandle out, AtenTensorHandle* t, double* number) {
    return aoti_torch_cpu_addmm_out(out, t[0], t[1], t[2], number[0], number[1]);
  };
  return multiply<2, 3, 2>(function, binding, scaled_keywords, given, count);
}

PyObject* baddbmm_out(PyObject* binding, PyObject* const* given, Py_ssize_t count) {
  auto function = [](AtenTensorHandle out, AtenTensorHandle* t, double* number) {
    return aoti_torch_cpu_baddbmm_out(out, t[0], t[1], t[2], number[0], number[1]);
  };
  return multiply<3, 3, 2>(function, binding, scaled_keywords, given, count);
}

// Whether a tuple has these numbers; where `sizes` are given, only those of dimensions of more
// than one element count.
bool has(PyObject* tuple, int64_t dims, const int64_t* numbers, const int64_t* sizes) {
  if (!PyTuple_CheckExact(tuple) || PyTuple_GET_SIZE(tuple) != dims) return false;
  for (int64_t i = 0; i < dims; ++i) {
    if (sizes && sizes[i] <= 1) continue;
    PyObject* wanted = PyTuple_GET_ITEM(tuple, i);
    int overflow = 0;
    if (!PyLong_CheckExact(wanted)) return false;
    if (PyLong_AsLongLongAndOverflow(wanted, &overflow) != numbers[i] || overflow) return false;
  }
  return true;
}

// assert_layout(tensor, size, stride, subject); what differs is told by the function in Python.
PyObject* assert_layout(PyObject* explain, PyObject* const* given, Py_ssize_t count) {
  if (count == 4 && is_plain(given[0])) {
    AtenTensorHandle tensor = handle_of(given[0]);
    int64_t dims = 0, *sizes = nullptr, *strides = nullptr;
    if (!aoti_torch_get_dim(tensor, &dims) && !aoti_torch_get_sizes(tensor, &sizes) &&
        has(given[1], dims, sizes, nullptr) && !aoti_torch_get_strides(tensor, &strides) &&
        has(given[2], dims, strides, sizes))
      Py_RETURN_NONE;
  }
  return PyObject_Vectorcall(explain, given, count, nullptr);
}

struct Operator {
  const char* binding;
  PyMethodDef method;
};

template <PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t)>
PyMethodDef method(const char* name) {
  auto* entry = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
  return {name, entry, METH_FASTCALL, nullptr};
}

Operator operators[] = {
    {"mm", method<mm_out>("mm_out")},
    {"bmm", method<bmm_out>("bmm_out")},
    {"addmm", method<addmm_out>("addmm_out")},
    {"baddbmm", method<baddbmm_out>("baddbmm_out")},
};

PyMethodDef layout_check = method<assert_layout>("assert_layout");

// Return assert_layout, which calls a function of Python where a layout differs.
PyObject* explained_by(PyObject*, PyObject* explain) {
  return PyCFunction_New(&layout_check, explain);
}

PyMethodDef functions[] = {
    {"assert_layout_explained_by", explained_by, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr}};

bool fill(PyObject* module, PyObject* torch) {
  out_keyword = Py_BuildValue("(s)", "out");
  scaled_keywords = Py_BuildValue("(sss)", "beta", "alpha", "out");
  if (!out_keyword || !scaled_keywords || !find_tensors(torch)) return false;
  for (Operator& op : operators) {
    PyObject* binding = PyObject_GetAttrString(torch, op.binding);
    PyObject* function = binding ? PyCFunction_New(&op.method, binding) : nullptr;
    Py_XDECREF(binding);
    if (!function) return false;
    int failed = PyModule_AddObjectRef(module, op.method.ml_name, function);
    Py_DECREF(function);
    if (failed) return false;
  }
  return true;
}

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "operators", nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_operators() {
  PyObject* torch = PyImport_ImportModule("torch");
  if (!torch) return nullptr;
  PyObject* module = PyModule_Create(&definition);
  if (module && !fill(module, torch)) Py_CLEAR(module);
  Py_DECREF(torch);
  return module;
}
