// Regions of an emitted program that are recorded as CUDA graphs and replayed.
//
// A Region is called with its tensors, then with its numbers.  A call that it has a recording for
// is replayed here; for others it calls a Python function, which runs the block or records it.
#include "tensors.h"

#include <dlfcn.h>
#include <stddef.h>
#include <structmember.h>

#include <exception>
#include <list>
#include <memory>

#include "recording.h"

namespace {

using wrapperir::GraphError;
using wrapperir::Operand;
using wrapperir::Recording;

AOTITorchError (*current_stream)(int32_t, void**);

struct Place {
  uint64_t bytes;  // from the first element to the end of the last
  bool is_written;
  bool is_copied;  // the graph copies the operand to memory of its own
};

struct Entry {
  std::vector<uint64_t> key;
  std::unique_ptr<Recording> recording;
  std::vector<Place> places;  // by operand
  PyObject* make_results = nullptr;  // makes tensors, which are the last operands; or None
  PyObject* held = nullptr;  // the graph, and what lives as long as the recording

  ~Entry() {
    recording.reset();
    Py_XDECREF(make_results);
    Py_XDECREF(held);
  }
};

struct Region {
  PyObject_HEAD
  vectorcallfunc call;
  PyObject* plain;  // runs the block
  PyObject* slow;  // takes the arguments, the key, the stream and the operands to be copied
  Py_ssize_t tensors;
  Py_ssize_t numbers;
  int32_t device;
  Py_ssize_t most;
  std::list<std::shared_ptr<Entry>>* entries;  // the last used one first
};

enum class NumberKind : uint64_t { integer, boolean, real };

PyObject* fail(const GraphError& error) {
  return PyErr_Format(PyExc_RuntimeError, "%s", error.message.c_str());
}

// Add the address of a tensor's first element; false for an object without one.
bool read_address(PyObject* object, std::vector<uint64_t>& addresses) {
  void* data = nullptr;
  if (!is_plain(object) || aoti_torch_get_data_ptr(handle_of(object), &data)) return false;
  addresses.push_back(reinterpret_cast<uint64_t>(data));
  return true;
}

// The bits of a number; false for an object that is none, or too large.
bool read_number(PyObject* object, uint64_t& bits, NumberKind& kind) {
  if (PyFloat_Check(object)) {
    const double value = PyFloat_AS_DOUBLE(object);
    memcpy(&bits, &value, sizeof bits);
    kind = NumberKind::real;
    return true;
  }
  if (!PyLong_Check(object)) return false;
  kind = PyBool_Check(object) ? NumberKind::boolean : NumberKind::integer;
  int overflow = 0;
  bits = static_cast<uint64_t>(PyLong_AsLongLongAndOverflow(object, &overflow));
  return !overflow;
}

// The key of a call: the stream, the numbers, and how addresses are aligned, by which libraries
// pick kernels.
bool read_key(
    const Region& region, PyObject* const* given, void* stream, std::vector<uint64_t>& key,
    std::vector<uint64_t>& addresses) {
  constexpr uint64_t most_aligned = 512;
  key.push_back(reinterpret_cast<uint64_t>(stream));
  uint64_t kinds = 0;
  for (Py_ssize_t i = 0; i < region.numbers; ++i) {
    uint64_t bits = 0;
    NumberKind kind;
    if (!read_number(given[region.tensors + i], bits, kind)) return false;
    key.push_back(bits);
    kinds = kinds << 2 | static_cast<uint64_t>(kind);
    if (i % 32 == 31 || i + 1 == region.numbers) key.push_back(std::exchange(kinds, 0));
  }
  uint64_t alignments = 0;
  for (Py_ssize_t i = 0; i < region.tensors; ++i) {
    if (!read_address(given[i], addresses)) return false;
    const uint64_t bits = addresses.back() | most_aligned;
    alignments = alignments << 4 | static_cast<uint64_t>(__builtin_ctzll(bits));
    if (i % 16 == 15 || i + 1 == region.tensors) key.push_back(std::exchange(alignments, 0));
  }
  return true;
}

PyObject* call_slow(
    Region& region, PyObject* const* given, const std::vector<uint64_t>& key,
    const std::vector<size_t>& to_copy) {
  const Py_ssize_t total = region.tensors + region.numbers;
  PyObject* arguments = PyTuple_New(total);
  PyObject* copied = PyTuple_New(static_cast<Py_ssize_t>(to_copy.size()));
  PyObject* packed = PyBytes_FromStringAndSize(
      reinterpret_cast<const char*>(key.data()),
      static_cast<Py_ssize_t>(key.size() * sizeof(uint64_t)));
  PyObject* result = nullptr;
  if (arguments && copied && packed) {
    for (Py_ssize_t i = 0; i < total; ++i)
      PyTuple_SET_ITEM(arguments, i, Py_NewRef(given[i]));
    for (size_t i = 0; i < to_copy.size(); ++i)
      PyTuple_SET_ITEM(copied, static_cast<Py_ssize_t>(i), PyLong_FromSize_t(to_copy[i]));
    result = PyObject_CallFunction(
        region.slow, "OOOK", arguments, packed, copied,
        static_cast<unsigned long long>(key.front()));
  }
  Py_XDECREF(arguments);
  Py_XDECREF(copied);
  Py_XDECREF(packed);
  return result;
}

// Replay a recording; `addresses` are those of the arguments.  Python runs before the operands
// are moved, so nothing comes between that and the launch.
PyObject* replay(Entry& entry, std::vector<uint64_t>& addresses, void* stream) {
  PyObject* results =
      entry.make_results == Py_None ? Py_NewRef(Py_None) : PyObject_CallNoArgs(entry.make_results);
  if (!results) return nullptr;
  for (Py_ssize_t i = 0; results != Py_None && i < PyTuple_GET_SIZE(results); ++i)
    read_address(PyTuple_GET_ITEM(results, i), addresses);
  Recording& recording = *entry.recording;
  try {
    for (size_t i = 0; i < addresses.size(); ++i) recording.move(i, addresses[i]);
    recording.launch(stream);
  } catch (const GraphError& error) {
    Py_DECREF(results);
    return fail(error);
  }
  return results;
}

// Whether copies would separate operands that share memory that the block writes.
bool separates_operands(const Entry& entry, const std::vector<uint64_t>& addresses) {
  for (size_t i = 0; i < addresses.size(); ++i) {
    const Place& copied = entry.places[i];
    if (!copied.is_copied) continue;
    for (size_t j = 0; j < addresses.size(); ++j) {
      const Place& other = entry.places[j];
      if (j != i && (copied.is_written || other.is_written) &&
          addresses[i] < addresses[j] + other.bytes && addresses[j] < addresses[i] + copied.bytes)
        return true;
    }
  }
  return false;
}

// The operands that moved and cannot, or that cost more to move than to copy.
std::vector<size_t> operands_to_copy(
    const Entry& entry, const std::vector<uint64_t>& addresses) {
  constexpr size_t many_nodes = 8;  // to change these takes longer than to copy an operand
  constexpr uint64_t often = 16;
  std::vector<size_t> found;
  const Recording& recording = *entry.recording;
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (entry.places[i].is_copied || addresses[i] == recording.address(i)) continue;
    const size_t nodes = recording.nodes_of(i);
    if (!recording.is_movable() || (nodes >= many_nodes && recording.changes(i) >= nodes * often))
      found.push_back(i);
  }
  return found;
}

// The key of a call and the addresses of its operands. Their memory is kept for the next call; a
// call in a call has its own. The interpreter lock guards what is kept.
struct CallWords {
  std::vector<uint64_t> key, addresses;

  CallWords() {
    key.swap(kept_key);
    addresses.swap(kept_addresses);
    key.clear();
    addresses.clear();
  }
  ~CallWords() {
    key.swap(kept_key);
    addresses.swap(kept_addresses);
  }
  CallWords(const CallWords&) = delete;
  CallWords& operator=(const CallWords&) = delete;

 private:
  static inline std::vector<uint64_t> kept_key, kept_addresses;
};

PyObject* call(PyObject* self, PyObject* const* given, size_t flags, PyObject* names) {
  Region& region = *reinterpret_cast<Region*>(self);
  const Py_ssize_t count = PyVectorcall_NARGS(flags);
  if (count != region.tensors + region.numbers || (names && PyTuple_GET_SIZE(names)))
    return PyErr_Format(
        PyExc_TypeError, "a region takes %zd tensors and %zd numbers by position",
        region.tensors, region.numbers);
  void* stream = nullptr;
  if (current_stream(region.device, &stream))
    return PyErr_Format(PyExc_RuntimeError, "device %d has no current stream", region.device);
  CallWords words;
  auto& [key, addresses] = words;
  try {
    wrapperir::enter_context(region.device);
    int is_captured = 0;
    wrapperir::check_graph(
        wrapperir::graph_driver()->cuStreamIsCapturing(stream, &is_captured),
        "asking for a capture");
    if (is_captured || !read_key(region, given, stream, key, addresses))
      return PyObject_Vectorcall(region.plain, given, count, nullptr);
    auto& entries = *region.entries;
    for (auto entry = entries.begin(); entry != entries.end(); ++entry) {
      if ((*entry)->key != key) continue;
      const std::shared_ptr<Entry> found = *entry;  // Python may drop it
      if (separates_operands(*found, addresses))
        return PyObject_Vectorcall(region.plain, given, count, nullptr);
      const std::vector<size_t> to_copy = operands_to_copy(*found, addresses);
      if (!to_copy.empty()) return call_slow(region, given, key, to_copy);
      entries.splice(entries.begin(), entries, entry);
      return replay(*found, addresses, stream);
    }
  } catch (const GraphError& error) {
    return fail(error);
  }
  return call_slow(region, given, key, {});
}

constexpr const char* graph_name = "graphs.graph";

void destroy_graph(PyObject* graph) {
  wrapperir::graph_driver()->cuGraphDestroy(PyCapsule_GetPointer(graph, graph_name));
}

void* stream_of(PyObject* number) { return PyLong_AsVoidPtr(number); }

// begin(stream): capture the work that this thread gives a stream.
PyObject* begin(PyObject*, PyObject* number) {
  constexpr int thread_local_mode = 1;
  void* stream = stream_of(number);
  if (PyErr_Occurred()) return nullptr;
  const int error =
      wrapperir::graph_driver()->cuStreamBeginCapture_v2(stream, thread_local_mode);
  if (error) return fail(wrapperir::GraphError{wrapperir::described(error, "a capture")});
  Py_RETURN_NONE;
}

// end(stream): the captured graph.
PyObject* end(PyObject*, PyObject* number) {
  void *stream = stream_of(number), *graph = nullptr;
  if (PyErr_Occurred()) return nullptr;
  const int error = wrapperir::graph_driver()->cuStreamEndCapture(stream, &graph);
  if (error || !graph)
    return fail(wrapperir::GraphError{wrapperir::described(error, "ending a capture")});
  return PyCapsule_New(graph, graph_name, destroy_graph);
}

// abandon(stream): end a capture that failed.
PyObject* abandon(PyObject*, PyObject* number) {
  void *stream = stream_of(number), *graph = nullptr;
  if (PyErr_Occurred()) return nullptr;
  const auto* driver = wrapperir::graph_driver();
  if (!driver->cuStreamEndCapture(stream, &graph) && graph) driver->cuGraphDestroy(graph);
  Py_RETURN_NONE;
}

// Replace the recording of a key; the one used longest ago goes.
void keep(Region& region, const std::shared_ptr<Entry>& made) {
  auto& entries = *region.entries;
  std::list<std::shared_ptr<Entry>> dropped;  // Python runs when they go
  for (auto entry = entries.begin(); entry != entries.end();) {
    const auto old = entry++;
    if ((*old)->key == made->key) dropped.splice(dropped.end(), entries, old);
  }
  entries.push_front(made);
  while (static_cast<Py_ssize_t>(entries.size()) > region.most)
    dropped.splice(dropped.end(), entries, std::prev(entries.end()));
}

// add(key, graph, again, displaced, operands, is_last, make_results, held) -> whether all
// operands may move.  The graphs are objects of end(), `operands` are tuples of an Operand's
// numbers, then of its Place's.  Unless this is the last attempt, only a recording whose operands
// may move is kept.
PyObject* add(PyObject* self, PyObject* given) {
  Region& region = *reinterpret_cast<Region*>(self);
  Py_buffer key;
  PyObject *graphs[3], *operands, *make_results, *held;
  int is_last = 0;
  if (!PyArg_ParseTuple(
          given, "y*OOOO!pOO", &key, &graphs[0], &graphs[1], &graphs[2], &PyTuple_Type,
          &operands, &is_last, &make_results, &held))
    return nullptr;
  const auto made = std::make_shared<Entry>();
  Entry& entry = *made;
  const auto* words = static_cast<const uint64_t*>(key.buf);
  entry.key.assign(words, words + key.len / static_cast<Py_ssize_t>(sizeof(uint64_t)));
  PyBuffer_Release(&key);
  void* captured[3];
  for (int i = 0; i < 3; ++i) {
    captured[i] = PyCapsule_GetPointer(graphs[i], graph_name);
    if (!captured[i]) return nullptr;
  }
  std::vector<Operand> read;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(operands); ++i) {
    unsigned long long address, begin, bytes, moved, own_bytes;
    int is_written = 0, is_copied = 0;
    if (!PyArg_ParseTuple(
            PyTuple_GET_ITEM(operands, i), "KKKKKpp", &address, &begin, &bytes, &moved, &own_bytes,
            &is_written, &is_copied))
      return nullptr;
    const bool is_result = i >= region.tensors;
    read.push_back({address, begin, own_bytes ? bytes : 0, moved, is_result || is_copied});
    entry.places.push_back({own_bytes, is_written != 0, is_copied != 0});
  }
  try {
    entry.recording =
        std::make_unique<Recording>(
            captured[0], captured[1], captured[2], read,
            read.size() - static_cast<size_t>(region.tensors));
  } catch (const GraphError& error) {
    return fail(error);
  } catch (const std::exception& error) {
    return fail({error.what()});
  }
  const bool is_movable = entry.recording->is_movable();
  if (!is_movable && !is_last) Py_RETURN_FALSE;
  entry.make_results = Py_NewRef(make_results);
  entry.held = PyTuple_Pack(2, graphs[0], held);
  if (!entry.held) return nullptr;
  keep(region, made);
  return PyBool_FromLong(is_movable);
}

// Region(plain, slow, tensors, numbers, device, most)
PyObject* make(PyTypeObject* type, PyObject* given, PyObject*) {
  PyObject *plain, *slow;
  Py_ssize_t tensors, numbers, most;
  int device;
  if (!PyArg_ParseTuple(given, "OOnnin", &plain, &slow, &tensors, &numbers, &device, &most))
    return nullptr;
  auto* self = reinterpret_cast<Region*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->call = call;
  self->plain = Py_NewRef(plain);
  self->slow = Py_NewRef(slow);
  self->tensors = tensors;
  self->numbers = numbers;
  self->device = device;
  self->most = most;
  self->entries = new std::list<std::shared_ptr<Entry>>;
  return reinterpret_cast<PyObject*>(self);
}

int clear(PyObject* object) {
  auto* self = reinterpret_cast<Region*>(object);
  Py_CLEAR(self->plain);
  Py_CLEAR(self->slow);
  const auto dropped = std::exchange(*self->entries, {});  // Python runs when they go
  return 0;
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  auto* self = reinterpret_cast<Region*>(object);
  Py_VISIT(self->plain);
  Py_VISIT(self->slow);
  for (const auto& entry : *self->entries) {
    Py_VISIT(entry->make_results);
    Py_VISIT(entry->held);
  }
  return 0;
}

void drop(PyObject* object) {
  PyObject_GC_UnTrack(object);
  clear(object);
  delete reinterpret_cast<Region*>(object)->entries;
  Py_TYPE(object)->tp_free(object);
}

PyObject* drop_recordings(PyObject* self, PyObject*) {
  const auto dropped = std::exchange(*reinterpret_cast<Region*>(self)->entries, {});
  Py_RETURN_NONE;
}

PyObject* count(PyObject* self, PyObject*) {
  return PyLong_FromSize_t(reinterpret_cast<Region*>(self)->entries->size());
}

PyMethodDef functions[] = {
    {"begin", begin, METH_O, nullptr},
    {"end", end, METH_O, nullptr},
    {"abandon", abandon, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyMethodDef methods[] = {
    {"add", add, METH_VARARGS, nullptr},
    {"count", count, METH_NOARGS, nullptr},
    {"drop_recordings", drop_recordings, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef members[] = {
    {"plain", T_OBJECT_EX, offsetof(Region, plain), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyTypeObject region_type = {PyVarObject_HEAD_INIT(nullptr, 0) "graphs.Region"};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "graphs", nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};

bool find_stream() {
  void* torch = dlopen("libtorch_cuda.so", RTLD_NOLOAD | RTLD_LAZY);
  current_stream = reinterpret_cast<decltype(current_stream)>(
      dlsym(torch ? torch : RTLD_DEFAULT, "aoti_torch_get_current_cuda_stream"));
  if (current_stream && wrapperir::graph_driver()) return true;
  PyErr_SetString(PyExc_ImportError, "there is no CUDA driver of 12.4, or PyTorch lacks CUDA");
  return false;
}

}  // namespace

PyMODINIT_FUNC PyInit_graphs() {
  region_type.tp_basicsize = sizeof(Region);
  region_type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC;
  region_type.tp_vectorcall_offset = offsetof(Region, call);
  region_type.tp_call = PyVectorcall_Call;
  region_type.tp_new = make;
  region_type.tp_dealloc = drop;
  region_type.tp_traverse = traverse;
  region_type.tp_clear = clear;
  region_type.tp_methods = methods;
  region_type.tp_members = members;
  PyObject* torch = PyImport_ImportModule("torch");
  const bool ready =
      torch && find_tensors(torch) && find_stream() && !PyType_Ready(&region_type);
  Py_XDECREF(torch);
  PyObject* module = ready ? PyModule_Create(&definition) : nullptr;
  if (module && PyModule_AddObjectRef(module, "Region", reinterpret_cast<PyObject*>(&region_type)))
    Py_CLEAR(module);
  return module;
}
