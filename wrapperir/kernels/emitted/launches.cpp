// Launches of compiled Triton kernels through the CUDA driver: nothing is looked up by a call.
//
// A Kernel is called with the three extents of the launch grid, then with the arguments in the
// order of the kernel's signature.  Where this file does not know how to launch, Triton does.
#include "arguments.h"

#include <alloca.h>
#include <dlfcn.h>
#include <stddef.h>
#include <structmember.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "descriptor_parts.h"
#include "driver_functions.h"
#include "special_launches.h"

namespace {

constexpr int kDevices = 32;
constexpr int kVariants = 4;  // by bit: checked addresses, checked numbers are multiples of 16
constexpr int kInvalidContext = 201;
constexpr int kSharedWithoutAsking = 48 * 1024;
constexpr long long kMostPrograms[] = {2147483647, 65535, 65535};

wrapperir::Driver driver;
AOTITorchError (*current_stream)(int32_t, void**);

bool find_functions() {
  void* torch = dlopen("libtorch_cuda.so", RTLD_NOLOAD | RTLD_LAZY);
  current_stream = reinterpret_cast<decltype(current_stream)>(
      dlsym(torch ? torch : RTLD_DEFAULT, "aoti_torch_get_current_cuda_stream"));
  if (current_stream && !wrapperir::find_driver(driver)) return true;
  PyErr_SetString(PyExc_ImportError, "there is no CUDA driver, or PyTorch lacks CUDA");
  return false;
}

// Triton's hooks of launches, whose objects are held: an attribute of Triton's settings, and the
// list of functions that its first value calls.
struct Hook {
  PyObject* name;
  PyObject* chain;
  PyObject* calls;
} hooks[2];
PyObject* settings;

bool find_hooks() {
  PyObject* knobs = PyImport_ImportModule("triton.knobs");
  settings = knobs ? PyObject_GetAttrString(knobs, "runtime") : nullptr;
  Py_XDECREF(knobs);
  if (!settings) return false;
  const char* names[] = {"launch_enter_hook", "launch_exit_hook"};
  for (int i = 0; i < 2; ++i) {
    hooks[i].name = PyUnicode_InternFromString(names[i]);
    hooks[i].chain = hooks[i].name ? PyObject_GetAttr(settings, hooks[i].name) : nullptr;
    if (!hooks[i].chain) return false;
    hooks[i].calls = PyObject_GetAttrString(hooks[i].chain, "calls");
    PyErr_Clear();  // an older Triton has one function or None
    if (hooks[i].calls && !PyList_Check(hooks[i].calls)) Py_CLEAR(hooks[i].calls);
    if (!hooks[i].calls && hooks[i].chain != Py_None) Py_CLEAR(hooks[i].chain);
  }
  return true;
}

bool has_hooks() {
  for (const Hook& hook : hooks) {
    PyObject* value = PyObject_GetAttr(settings, hook.name);
    PyErr_Clear();
    Py_XDECREF(value);  // its owner holds it
    if (value != hook.chain || (hook.calls && PyList_GET_SIZE(hook.calls))) return true;
  }
  return false;
}

// A kernel's code in the context of a device; without a function, Triton launches it there.
struct Loaded {
  void* function;
  unsigned threads;
  unsigned shared_bytes;
  std::vector<wrapperir::TensorMap> maps;  // of its descriptors; empty if they are passed in parts
  int flags;  // after the parts of a descriptor
  wrapperir::LaunchKind kind;
  unsigned long long scratch_bytes;  // of global memory for each program
};

struct Kernel {
  PyObject_HEAD
  vectorcallfunc call;
  PyObject* name;
  PyObject* function;  // Triton's
  PyObject* slow;  // launches by Triton; takes the same arguments
  PyObject* load;  // takes a device and a variant; returns the code, or None
  PyObject* names;
  PyObject* types;
  uint64_t addresses;  // positions that are checked, by bit
  uint64_t numbers;
  size_t descriptors;  // how many parameters are descriptors
  std::vector<Parameter>* parameters;
  std::atomic<const Loaded*> loaded[kDevices][kVariants];
};

PyObject* fail(Kernel& kernel, const char* what, int error) {
  const char *name = nullptr, *text = nullptr;
  driver.cuGetErrorName(error, &name);
  driver.cuGetErrorString(error, &text);
  return PyErr_Format(
      PyExc_RuntimeError, "%s %U failed: %s (%s, %d)", what, kernel.name,
      text ? text : "the driver does not say why", name ? name : "an unknown error", error);
}

PyObject* refuse(Kernel& kernel, size_t index, PyObject* given, Fault fault) {
  PyErr_Clear();
  PyObject* name = PyTuple_GET_ITEM(kernel.names, index);
  PyObject* type = PyTuple_GET_ITEM(kernel.types, index);
  if (fault == Fault::value)
    return PyErr_Format(
        PyExc_OverflowError, "%U takes %U as %U, which cannot hold %S", kernel.name, name, type,
        given);
  return PyErr_Format(
      PyExc_TypeError, "%U takes %U as %U, not a %s", kernel.name, name, type,
      Py_TYPE(given)->tp_name);
}

// Make the context of PyTorch's current device current in this thread, which has none.
bool enter_context(Kernel& kernel, int* device) {
  int32_t index = 0;
  if (aoti_torch_get_current_device_index(&index)) {
    PyErr_SetString(PyExc_RuntimeError, "there is no current device");
    return false;
  }
  int error = wrapperir::ensure_context(driver, index);
  if (!error) error = driver.cuCtxGetDevice(device);
  if (error) fail(kernel, "making a context to launch", error);
  return !error;
}

// Code by its key and device: programs of a process share it.  Changed under Python's lock.
std::map<std::pair<std::string, int>, const Loaded*>& all_loaded() {
  static auto* all = new std::map<std::pair<std::string, int>, const Loaded*>;
  return *all;
}

// Read the swizzle, the bytes of an item, the type and the block of each descriptor; false with an
// error where they are something else.
bool read_maps(PyObject* given, std::vector<wrapperir::TensorMap>& maps) {
  for (Py_ssize_t i = 0; given && i < PyTuple_GET_SIZE(given); ++i) {
    wrapperir::TensorMap map = {};
    uint32_t* block = map.block;
    if (!PyArg_ParseTuple(
            PyTuple_GET_ITEM(given, i), "iiiI|IIII", &map.swizzle, &map.item_bytes, &map.type,
            &block[0], &block[1], &block[2], &block[3], &block[4]))
      return false;
    maps.push_back(map);
  }
  return true;
}

// Load the code that Python gives.
const Loaded* load_code(Kernel& kernel, int device, PyObject* given) {
  const char *key = nullptr, *code = nullptr, *symbol = nullptr;
  Py_ssize_t size = 0;
  int threads = 0, shared = 0, most = 0, flags = 0, is_cooperative = 0, is_dependent = 0;
  wrapperir::LaunchKind kind;
  unsigned long long scratch_bytes = 0;
  PyObject* encoded = nullptr;
  std::vector<wrapperir::TensorMap> maps;
  if (!PyArg_ParseTuple(
          given, "sy#sii|O!iIppK", &key, &code, &size, &symbol, &threads, &shared,
          &PyTuple_Type, &encoded, &flags, &kind.cluster, &is_cooperative, &is_dependent,
          &scratch_bytes) ||
      !read_maps(encoded, maps))
    return nullptr;
  const Loaded*& known = all_loaded()[{key, device}];
  if (known) return known;
  kind.is_cooperative = is_cooperative;
  kind.is_dependent = is_dependent;
  if (!kind.is_plain() && !driver.cuLaunchKernelEx)
    return reinterpret_cast<const Loaded*>(PyErr_Format(
        PyExc_RuntimeError, "the CUDA driver is too old for %U", kernel.name));
  void *module = nullptr, *function = nullptr;
  int error = 0;
  const bool asks = shared > kSharedWithoutAsking;
  // The driver may wait for work that waits for Python's lock.
  PyThreadState* state = PyEval_SaveThread();
  if (asks) error = driver.cuDeviceGetAttribute(&most, wrapperir::most_shared_bytes, device);
  const bool fits = error || !asks || shared <= most;
  if (!error && fits) error = driver.cuModuleLoadData(&module, code);
  if (!error && fits) error = driver.cuModuleGetFunction(&function, module, symbol);
  if (!error && fits && asks)
    error = driver.cuFuncSetAttribute(function, wrapperir::function_dynamic_shared_bytes, shared);
  PyEval_RestoreThread(state);
  if (error) {
    fail(kernel, "loading", error);
  } else if (!fits) {
    PyErr_Format(
        PyExc_RuntimeError, "%U needs %d bytes of shared memory, and the device has %d",
        kernel.name, shared, most);
  } else if (!known) {  // or another thread has loaded it meanwhile
    known = new Loaded{
        function, unsigned(threads), unsigned(shared), std::move(maps), flags, kind,
        scratch_bytes};
  }
  return PyErr_Occurred() ? nullptr : known;
}

const Loaded* load(Kernel& kernel, int device, int variant) {
  PyObject* given = PyObject_CallFunction(kernel.load, "ii", device, variant);
  if (!given) return nullptr;
  static const Loaded by_triton = {};
  const Loaded* loaded = given == Py_None ? &by_triton : load_code(kernel, device, given);
  Py_DECREF(given);
  if (loaded) kernel.loaded[device][variant].store(loaded, std::memory_order_release);
  return loaded;
}

// Read the extents of the launch grid; false with an error where they are not possible.
bool read_grid(Kernel& kernel, PyObject* const* given, unsigned* grid) {
  for (int i = 0; i < 3; ++i) {
    int overflow = 0;
    const long long extent =
        PyLong_Check(given[i]) ? PyLong_AsLongLongAndOverflow(given[i], &overflow) : -1;
    if (!PyLong_Check(given[i]))
      return PyErr_Format(
          PyExc_TypeError, "the launch grid of %U has ints, not a %s", kernel.name,
          Py_TYPE(given[i])->tp_name);
    if (overflow > 0 || extent > kMostPrograms[i])
      return PyErr_Format(
          PyExc_RuntimeError, "%U has %S programs along %c, and at most %lld are possible",
          kernel.name, given[i], "xyz"[i], kMostPrograms[i]);
    grid[i] = extent > 0 ? static_cast<unsigned>(extent) : 0;
  }
  return true;
}

PyObject* by_triton(Kernel& kernel, PyObject* const* given, size_t count) {
  return PyObject_Vectorcall(kernel.slow, given, count, nullptr);
}

// Read a tensor behind a descriptor of a rank; false where it is another tensor.
bool read_descriptor(AtenTensorHandle tensor, int64_t rank, wrapperir::Descriptor* result) {
  int64_t dimensions = 0, *sizes = nullptr, *strides = nullptr;
  int32_t dtype = 0;
  if (aoti_torch_get_dim(tensor, &dimensions) || dimensions != rank ||
      aoti_torch_get_sizes(tensor, &sizes) || aoti_torch_get_strides(tensor, &strides) ||
      aoti_torch_get_dtype(tensor, &dtype))
    return false;
  result->item_bytes = static_cast<int64_t>(aoti_torch_dtype_element_size(dtype));
  result->rank = rank;
  for (int64_t i = 0; i < rank; ++i) {
    result->sizes[i] = sizes[i];
    result->strides[i] = strides[i];
  }
  return true;
}

// Replace descriptors, which follow each other in `given`, by what the code takes for each; false
// with an error where that is not possible.
bool expand_descriptors(
    Kernel& kernel, const Loaded& loaded, const std::vector<wrapperir::Descriptor>& given,
    void** passed, std::vector<wrapperir::DescriptorParts>& parts, std::vector<void*>& expanded) {
  if (!loaded.maps.empty() && loaded.maps.size() != given.size()) {
    PyErr_Format(PyExc_ValueError, "%U has other descriptors than its code", kernel.name);
    return false;
  }
  if (!loaded.maps.empty() && !driver.cuTensorMapEncodeTiled) {
    PyErr_Format(
        PyExc_RuntimeError, "%U: the CUDA driver is too old for tensor descriptors", kernel.name);
    return false;
  }
  const size_t count = kernel.parameters->size();
  parts.resize(given.size());
  size_t number = 0;
  for (size_t i = 0; i < count + 2; ++i) {
    if (i >= count || (*kernel.parameters)[i].kind != descriptor) {
      expanded.push_back(passed[i]);
      continue;
    }
    const std::string problem = wrapperir::descriptor_problem(given[number]);
    if (!problem.empty()) {
      PyErr_Format(PyExc_RuntimeError, "%U: %s", kernel.name, problem.c_str());
      return false;
    }
    const int error = wrapperir::expand_descriptor(
        driver, given[number], loaded.maps.empty() ? nullptr : &loaded.maps[number],
        loaded.flags, parts[number], expanded);
    if (error) {
      fail(kernel, "encoding a tensor descriptor of", error);
      return false;
    }
    ++number;
  }
  return true;
}

// Allocate scratch memory for the programs of a launch on the current stream; null with an error
// where there is not enough.
AtenTensorHandle allocate_scratch(
    Kernel& kernel, uint64_t bytes, const unsigned* grid, int device, uint64_t* address) {
  bool is_too_much = false;
  for (int i = 0; i < 3; ++i)
    is_too_much |= __builtin_mul_overflow(bytes, uint64_t{grid[i]}, &bytes);
  const int64_t size = static_cast<int64_t>(bytes), stride = 1;
  AtenTensorHandle made = nullptr;
  void* pointer = nullptr;
  is_too_much |= bytes > uint64_t{INT64_MAX};
  if (is_too_much ||
      aoti_torch_empty_strided(
          1, &size, &stride, aoti_torch_dtype_uint8(), aoti_torch_device_type_cuda(), device,
          &made) ||
      aoti_torch_get_data_ptr(made, &pointer)) {
    if (made) aoti_torch_delete_tensor_object(made);
    PyErr_Format(
        PyExc_RuntimeError, "%U: there is no scratch memory for its programs", kernel.name);
    return nullptr;
  }
  *address = reinterpret_cast<uint64_t>(pointer);
  return made;
}

PyObject* launch(PyObject* self, PyObject* const* given, size_t flags, PyObject* keywords) {
  Kernel& kernel = *reinterpret_cast<Kernel*>(self);
  const std::vector<Parameter>& parameters = *kernel.parameters;
  const size_t total = PyVectorcall_NARGS(flags), count = parameters.size();
  if (total != count + 3 || (keywords && PyTuple_GET_SIZE(keywords)))
    return PyErr_Format(
        PyExc_TypeError, "%U takes 3 extents and %zu arguments by position, not %zu in all",
        kernel.name, count, total);
  if (has_hooks()) return by_triton(kernel, given, total);
  unsigned grid[3];
  if (!read_grid(kernel, given, grid)) return nullptr;
  auto* values = static_cast<uint64_t*>(alloca((count + 2) * sizeof(uint64_t)));
  auto** passed = static_cast<void**>(alloca((count + 2) * sizeof(void*)));
  uint64_t checked[2] = {0, 0};
  std::vector<wrapperir::Descriptor> described;
  if (kernel.descriptors) described.reserve(kernel.descriptors);
  for (size_t i = 0; i < count; ++i) {
    PyObject* object = given[i + 3];
    passed[i] = &values[i];
    values[i] = 0;
    if (parameters[i].kind <= descriptor) {
      int32_t device = 0;
      void* pointer = nullptr;
      if (!is_plain(object)) {
        if (!PyType_IsSubtype(Py_TYPE(object), tensor_class))
          return refuse(kernel, i, object, Fault::type);
        return by_triton(kernel, given, total);
      }
      const AtenTensorHandle tensor = handle_of(object);
      if (aoti_torch_get_device_type(tensor, &device) ||
          device != aoti_torch_device_type_cuda() ||
          aoti_torch_get_data_ptr(tensor, &pointer))
        return by_triton(kernel, given, total);
      values[i] = reinterpret_cast<uint64_t>(pointer);
      if (parameters[i].kind == descriptor) {
        described.push_back({static_cast<char*>(pointer), 0, 0, {}, {}});
        if (!read_descriptor(tensor, parameters[i].low, &described.back()))
          return by_triton(kernel, given, total);
      }
    } else {
      const Fault fault = write_number(parameters[i], object, &values[i]);
      if (fault != Fault::none) return refuse(kernel, i, object, fault);
    }
    if (i < 64) {
      if (kernel.addresses >> i & 1) checked[0] |= values[i];
      if (kernel.numbers >> i & 1) checked[1] |= values[i];
    }
  }
  if (!grid[0] || !grid[1] || !grid[2]) Py_RETURN_NONE;
  for (size_t i = count; i < count + 2; ++i) {  // up to two addresses of scratch memory
    values[i] = 0;
    passed[i] = &values[i];
  }
  const int variant = (kernel.addresses && checked[0] % 16 == 0) |
                      (kernel.numbers && checked[1] % 16 == 0) << 1;
  int device = 0;
  int error = driver.cuCtxGetDevice(&device);
  if (error == kInvalidContext) {
    if (!enter_context(kernel, &device)) return nullptr;
  } else if (error) {
    return fail(kernel, "launching", error);
  }
  if (device >= kDevices) return by_triton(kernel, given, total);
  const Loaded* loaded = kernel.loaded[device][variant].load(std::memory_order_acquire);
  if (!loaded && !(loaded = load(kernel, device, variant))) return nullptr;
  const unsigned cluster = loaded->kind.cluster;
  if (!loaded->function || grid[0] > kMostPrograms[0] / cluster)
    return by_triton(kernel, given, total);
  grid[0] *= cluster;
  std::vector<wrapperir::DescriptorParts> parts;
  std::vector<void*> expanded;
  if (kernel.descriptors) {
    if (!expand_descriptors(kernel, *loaded, described, passed, parts, expanded)) return nullptr;
    passed = expanded.data();
  }
  void* stream = nullptr;
  if (current_stream(device, &stream))
    return PyErr_Format(PyExc_RuntimeError, "device %d has no current stream", device);
  AtenTensorHandle scratch = nullptr;
  if (loaded->scratch_bytes) {
    scratch = allocate_scratch(kernel, loaded->scratch_bytes, grid, device, &values[count]);
    if (!scratch) return nullptr;
  }
  AtenRecordFunctionHandle record = nullptr;
  if (is_recorded()) {
    const char* name = PyUnicode_AsUTF8(kernel.name);
    if (!name) {
      if (scratch) aoti_torch_delete_tensor_object(scratch);
      return nullptr;
    }
    aoti_record_function_start(name, nullptr, nullptr, 0, &record);
  }
  PyThreadState* state = PyEval_SaveThread();
  error = loaded->kind.is_plain()
              ? driver.cuLaunchKernel(
                    loaded->function, grid[0], grid[1], grid[2], loaded->threads, 1, 1,
                    loaded->shared_bytes, stream, passed, nullptr)
              : wrapperir::launch_with_attributes(
                    driver, loaded->kind, loaded->function, grid, loaded->threads,
                    loaded->shared_bytes, stream, passed);
  PyEval_RestoreThread(state);
  if (record) aoti_record_function_end(record);
  if (scratch) aoti_torch_delete_tensor_object(scratch);  // later work of the stream may have it
  if (error) return fail(kernel, "launching", error);
  Py_RETURN_NONE;
}

// Kernel(name, function, slow, load, names, types, addresses, numbers)
PyObject* make(PyTypeObject* type, PyObject* given, PyObject*) {
  PyObject *name, *function, *slow, *load, *names, *types;
  unsigned long long addresses = 0, numbers = 0;
  if (!PyArg_ParseTuple(
          given, "UOOOO!O!KK", &name, &function, &slow, &load, &PyTuple_Type, &names,
          &PyTuple_Type, &types, &addresses, &numbers))
    return nullptr;
  auto* self = reinterpret_cast<Kernel*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->call = launch;
  self->name = Py_NewRef(name);
  self->function = Py_NewRef(function);
  self->slow = Py_NewRef(slow);
  self->load = Py_NewRef(load);
  self->names = Py_NewRef(names);
  self->types = Py_NewRef(types);
  self->addresses = addresses;
  self->numbers = numbers;
  self->parameters = new std::vector<Parameter>;
  self->descriptors = 0;
  bool known = PyTuple_GET_SIZE(names) == PyTuple_GET_SIZE(types);
  for (Py_ssize_t i = 0; known && i < PyTuple_GET_SIZE(types); ++i) {
    const char* spelled = PyUnicode_AsUTF8(PyTuple_GET_ITEM(types, i));
    const auto found = known_types().find(spelled ? spelled : "");
    Parameter parameter = {address, 0, 0};
    if (spelled && !strncmp(spelled, "tensordesc<", 11)) {
      // tensordesc<fp32[4, 8]>: its block has a length for each dimension.
      parameter = {descriptor, 1 + std::count(spelled, spelled + strlen(spelled), ','), 0};
      known = parameter.low <= wrapperir::most_dimensions;
      self->descriptors += 1;
    } else if (!spelled || *spelled != '*') {
      known = found != known_types().end();
      if (known) parameter = found->second;
    }
    self->parameters->push_back(parameter);
  }
  if (known) return reinterpret_cast<PyObject*>(self);
  Py_DECREF(self);
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "an argument has an unknown type");
  return nullptr;
}

void drop(PyObject* object) {
  auto* self = reinterpret_cast<Kernel*>(object);
  for (PyObject* held :
       {self->name, self->function, self->slow, self->load, self->names, self->types})
    Py_XDECREF(held);
  delete self->parameters;
  Py_TYPE(object)->tp_free(object);
}

PyMemberDef members[] = {
    {"__name__", T_OBJECT_EX, offsetof(Kernel, name), READONLY, nullptr},
    {"function", T_OBJECT_EX, offsetof(Kernel, function), READONLY, nullptr},
    {"slow", T_OBJECT_EX, offsetof(Kernel, slow), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyTypeObject kernel_type = {PyVarObject_HEAD_INIT(nullptr, 0) "launches.Kernel"};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "launches", nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_launches() {
  kernel_type.tp_basicsize = sizeof(Kernel);
  kernel_type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
  kernel_type.tp_vectorcall_offset = offsetof(Kernel, call);
  kernel_type.tp_call = PyVectorcall_Call;
  kernel_type.tp_new = make;
  kernel_type.tp_dealloc = drop;
  kernel_type.tp_members = members;
  PyObject* torch = PyImport_ImportModule("torch");
  bool ready = torch && find_tensors(torch) && find_functions() && find_hooks() &&
      !PyType_Ready(&kernel_type);
  Py_XDECREF(torch);
  // FX names a node's function by its module.
  PyObject* name = ready ? PyUnicode_FromString("launches") : nullptr;
  ready = name && !PyDict_SetItemString(kernel_type.tp_dict, "__module__", name);
  Py_XDECREF(name);
  PyObject* module = ready ? PyModule_Create(&definition) : nullptr;
  if (module && PyModule_AddObjectRef(module, "Kernel", reinterpret_cast<PyObject*>(&kernel_type)))
    Py_CLEAR(module);
  return module;
}
