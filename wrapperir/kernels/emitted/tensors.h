// The at::Tensor behind a Python tensor, without PyTorch's C++ headers.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>

#include <initializer_list>

// Functions of PyTorch's stable C interface. Its header takes longer to read than all else here.
typedef struct AtenTensorOpaque* AtenTensorHandle;
typedef struct AtenRecordFunctionOpaque* AtenRecordFunctionHandle;
typedef int32_t AOTITorchError;
extern "C" {
int32_t aoti_torch_device_type_cpu();
int32_t aoti_torch_device_type_cuda();
int32_t aoti_torch_dtype_uint8();
size_t aoti_torch_dtype_element_size(int32_t);
AOTITorchError aoti_torch_delete_tensor_object(AtenTensorHandle);
AOTITorchError aoti_torch_get_data_ptr(AtenTensorHandle, void**);
AOTITorchError aoti_torch_get_dim(AtenTensorHandle, int64_t*);
AOTITorchError aoti_torch_get_sizes(AtenTensorHandle, int64_t**);
AOTITorchError aoti_torch_get_strides(AtenTensorHandle, int64_t**);
AOTITorchError aoti_torch_get_dtype(AtenTensorHandle, int32_t*);
AOTITorchError aoti_torch_get_device_type(AtenTensorHandle, int32_t*);
AOTITorchError aoti_torch_empty_strided(
    int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t, AtenTensorHandle*);
AOTITorchError aoti_torch_get_current_device_index(int32_t*);
AOTITorchError aoti_record_function_start(
    const char*, struct IValueMapOpaque*, struct C10IValueOpaque* const*, uint64_t,
    AtenRecordFunctionHandle*);
AOTITorchError aoti_record_function_end(AtenRecordFunctionHandle);
}

// at::hasThreadLocalCallbacks, which has no stable C function; null in a PyTorch without it.
extern "C" __attribute__((weak)) bool wrapperir_has_callbacks()
    __asm__("_ZN2at23hasThreadLocalCallbacksEv");

namespace {

// Whether a profiler records the operators of this thread.
bool is_recorded() { return wrapperir_has_callbacks && wrapperir_has_callbacks(); }

PyTypeObject* tensor_class;
PyTypeObject* parameter_class;
// Bytes from a Python tensor to its at::Tensor: older versions of PyTorch keep a flag between.
Py_ssize_t handle_offset;

// Whether this is a tensor and not one of a subclass, which may behave as it likes.
bool is_plain(PyObject* object) {
  return Py_TYPE(object) == tensor_class || Py_TYPE(object) == parameter_class;
}

AtenTensorHandle handle_of(PyObject* object) {
  return reinterpret_cast<AtenTensorHandle>(reinterpret_cast<char*>(object) + handle_offset);
}

// Find the classes of tensors and their layout; a Python error where they are not known.
bool find_tensors(PyObject* torch) {
  PyObject* nn = PyImport_ImportModule("torch.nn");
  PyObject* tensors = PyObject_GetAttrString(torch, "Tensor");
  PyObject* parameters = nn ? PyObject_GetAttrString(nn, "Parameter") : nullptr;
  Py_XDECREF(nn);
  if (!tensors || !parameters || !PyType_Check(tensors) || !PyType_Check(parameters))
    return false;
  tensor_class = reinterpret_cast<PyTypeObject*>(tensors);
  parameter_class = reinterpret_cast<PyTypeObject*>(parameters);
  PyObject* tensor = PyObject_CallMethod(torch, "empty", "i", 0);
  PyObject* address = tensor ? PyObject_GetAttrString(tensor, "_cdata") : nullptr;
  void* wanted = address ? PyLong_AsVoidPtr(address) : nullptr;
  for (Py_ssize_t extra : {Py_ssize_t{0}, Py_ssize_t{sizeof(void*)}}) {
    const Py_ssize_t offset = sizeof(PyObject) + extra;
    if (handle_offset || !wanted || offset + Py_ssize_t{sizeof(void*)} > tensor_class->tp_basicsize)
      continue;
    if (*reinterpret_cast<void**>(reinterpret_cast<char*>(tensor) + offset) == wanted)
      handle_offset = offset;
  }
  Py_XDECREF(address);
  Py_XDECREF(tensor);
  if (!handle_offset && !PyErr_Occurred())
    PyErr_SetString(PyExc_ImportError, "tensors have another layout");
  return handle_offset;
}

}  // namespace
