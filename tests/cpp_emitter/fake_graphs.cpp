// Graphs of the driver that is made up (fake_cuda.cpp): work that a stream is given while it
// captures becomes nodes, which keep their own copies of what they are given.
#include <stdio.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "../../wrapperir/kernels/emitted/recording.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

// What fake_cuda.cpp shares.
void note(const char* format, ...);
std::string name_of(void* stream);
bool has_context();
std::string kernel_of(void* function);
void run_kernel(const std::string& name, void** parameters, int64_t programs);

namespace {

using wrapperir::CopyNode;
using wrapperir::FillNode;
using wrapperir::KernelNode;
constexpr int invalid_value = 1, no_context = 201, invalid_handle = 400, not_captured = 901,
              unjoined = 904, isolated = 907;

std::recursive_mutex lock;
bool is_running = true;

// A kernel; its parameters lie one behind the other, as they are aligned.
struct Function {
  std::string name;
  std::vector<size_t> sizes;
  bool is_kernel;  // a CUkernel

  std::vector<size_t> offsets() const {
    std::vector<size_t> found;
    size_t end = 0;
    for (size_t size : sizes) {
      const size_t unit = size >= 8 ? 8 : size % 4 ? size % 2 ? 1 : 2 : 4;  // for pointers
      end = (end + unit - 1) / unit * unit;
      found.push_back(end);
      end += size;
    }
    return found;
  }
};
std::map<void*, Function> functions;

// A kernel of the test library, with the two addresses that Triton's kernels take at the end.
const Function* find(void* function) {
  auto found = functions.find(function);
  if (found != functions.end()) return &found->second;
  const std::string name = kernel_of(function);
  if (name.empty()) return nullptr;
  std::vector<size_t> sizes(name == "relu_inplace" ? 1 : name == "row_sum" ? 2 : 3, 8);
  sizes.push_back(4);
  if (name == "row_sum") sizes.push_back(4);
  sizes.insert(sizes.end(), {8, 8});
  return &(functions[function] = {name, sizes, false});
}

struct Graph;

struct Node {
  Graph* graph = nullptr;
  int type = 5;
  KernelNode launch{};
  std::vector<std::string> values;
  std::string packed;
  std::vector<void*> pointers;
  size_t packed_bytes = 0;
  void* extra[5] = {};
  CopyNode copied{};
  FillNode filled{};
  std::set<Node*> needed;  // the nodes that must have run

  // Keep copies of a launch's arguments; false if they do not fit its function.
  bool take(const KernelNode& given) {
    const Function* function = find(given.function ? given.function : given.kernel);
    if (!function || (given.parameters && given.extra)) return false;
    launch = given;
    values.clear();
    packed.clear();
    if (given.extra) {
      const void* begin = nullptr;
      for (void** entry = given.extra; *entry; entry += 2) {
        if (*entry == reinterpret_cast<void*>(1)) begin = entry[1];
        if (*entry == reinterpret_cast<void*>(2)) packed_bytes = *static_cast<size_t*>(entry[1]);
      }
      packed.assign(static_cast<const char*>(begin), packed_bytes);
    } else {
      for (size_t i = 0; i < function->sizes.size(); ++i)
        values.emplace_back(static_cast<const char*>(given.parameters[i]), function->sizes[i]);
    }
    return true;
  }

  // The launch, with pointers into what this node keeps.
  KernelNode shown() {
    KernelNode result = launch;
    result.parameters = result.extra = nullptr;
    if (launch.extra) {
      extra[0] = reinterpret_cast<void*>(1);
      extra[1] = packed.data();
      extra[2] = reinterpret_cast<void*>(2);
      extra[3] = &packed_bytes;
      result.extra = extra;
    } else {
      pointers.clear();
      for (std::string& value : values) pointers.push_back(value.data());
      result.parameters = pointers.data();
    }
    return result;
  }

  void run() {
    if (!is_running) return;
    if (type == 0 && !launch.extra)
      run_kernel(
          find(launch.function ? launch.function : launch.kernel)->name, shown().parameters,
          launch.grid[0]);
    if (type == 1)
      memcpy(
          reinterpret_cast<void*>(copied.target.device),
          reinterpret_cast<void*>(copied.source.device), copied.width);
    if (type == 2)
      memset(
          reinterpret_cast<void*>(filled.target), static_cast<int>(filled.value),
          filled.width * filled.item_bytes);
  }

  std::string text() {
    std::string result = std::to_string(type);
    char digits[48];
    for (const std::string& value : values) {
      result += " ";
      for (unsigned char byte : value) result += (snprintf(digits, 4, "%02x", byte), digits);
    }
    if (type == 0 && launch.extra) result += " packed ";
    for (unsigned char byte : packed) result += (snprintf(digits, 4, "%02x", byte), digits);
    for (uint64_t value : {copied.source.device, copied.target.device, filled.target})
      result += (snprintf(digits, sizeof digits, " %lx", static_cast<unsigned long>(value)), digits);
    return result + "\n";
  }
};

struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;
  void* origin = nullptr;
  std::map<void*, std::set<Node*>> last;  // by stream, the nodes that its next one needs
};
struct Exec {
  int number;
  std::map<void*, Node> nodes;  // by the graph's nodes
  std::vector<void*> order;
};

std::set<Graph*> graphs;
std::set<Exec*> execs;
std::map<void*, Graph*> captures;
struct Event {
  Graph* graph;
  void* stream;
  std::set<Node*> last;
};
std::map<void*, Event> events;  // those of captures
std::map<Graph*, std::set<void*>> forked;  // streams that work on for which no other waits
std::map<std::string, std::pair<int, int>> failures;  // the calls before, and the error
int made_execs = 0;
std::string replayed;
std::string instantiated;

int failing(const char* name) {
  auto found = failures.find(name);
  if (found == failures.end() || found->second.first--) return 0;
  const int error = found->second.second;
  failures.erase(found);
  return error;
}

#define BEGIN \
  std::lock_guard<std::recursive_mutex> held(lock); \
  if (int error = failing(__func__)) return error;

// Give a stream a node: it is captured, or run.
int give(Node&& node, void* stream) {
  auto found = captures.find(stream);
  if (found == captures.end()) {
    node.run();
    return 0;
  }
  Graph& graph = *found->second;
  node.graph = &graph;
  node.needed = graph.last[stream];
  graph.nodes.push_back(std::make_unique<Node>(std::move(node)));
  graph.last[stream] = {graph.nodes.back().get()};
  if (stream != graph.origin) forked[&graph].insert(stream);
  return 0;
}

Node* node_of(void* handle) {
  for (Graph* graph : graphs)
    for (const auto& node : graph->nodes)
      if (node.get() == handle) return node.get();
  return nullptr;
}

// Nodes in an order that they need, each as early as it can be, the last ones first: what has
// no reason to wait does not.
std::vector<Node*> ordered(Graph& graph) {
  std::vector<Node*> done, left;
  for (const auto& node : graph.nodes) left.push_back(node.get());
  while (!left.empty()) {
    const auto ready = std::find_if(left.rbegin(), left.rend(), [&](Node* node) {
      return std::none_of(node->needed.begin(), node->needed.end(), [&](Node* needed) {
        return std::find(left.begin(), left.end(), needed) != left.end();
      });
    });
    done.push_back(*ready);
    left.erase(std::next(ready).base());
  }
  return done;
}

// The node of an instance that is changed; null if its graph is gone.
Node* changed(void* exec, void* handle) {
  if (!execs.count(static_cast<Exec*>(exec)) || !node_of(handle)) return nullptr;
  auto& nodes = static_cast<Exec*>(exec)->nodes;
  auto found = nodes.find(handle);
  if (found == nodes.end()) return nullptr;
  note("set exec%d", static_cast<Exec*>(exec)->number);
  return &found->second;
}

}  // namespace

bool capture_launch(
    void* function, const unsigned* sizes, unsigned shared, void* stream, void** parameters) {
  std::lock_guard<std::recursive_mutex> held(lock);
  if (!captures.count(stream)) return false;
  KernelNode launch{};
  launch.function = function;
  std::copy(sizes, sizes + 3, launch.grid);
  std::copy(sizes + 3, sizes + 6, launch.block);
  launch.shared_bytes = shared;
  launch.parameters = parameters;
  Node node;
  node.type = 0;
  return node.take(launch) && !give(std::move(node), stream);
}

bool capture_copy(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  std::lock_guard<std::recursive_mutex> held(lock);
  if (!captures.count(stream)) return false;
  Node node;
  node.type = 1;
  node.copied.source.device = from;
  node.copied.target.device = to;
  node.copied.source.memory = node.copied.target.memory = 2;
  node.copied.width = bytes;
  node.copied.height = node.copied.depth = 1;
  return !give(std::move(node), stream);
}

bool is_capturing(void* stream) {
  std::lock_guard<std::recursive_mutex> held(lock);
  return captures.count(stream);
}

void capture_event(void* event, void* stream) {
  std::lock_guard<std::recursive_mutex> held(lock);
  events.erase(event);
  if (!captures.count(stream)) return;
  Graph* graph = captures[stream];
  events[event] = {graph, stream, graph->last[stream]};
}

// A stream that waits for an event of a capture is captured, too.
int capture_wait(void* stream, void* event) {
  std::lock_guard<std::recursive_mutex> held(lock);
  auto found = events.find(event);
  if (found == events.end()) return captures.count(stream) ? isolated : 0;
  if (!captures.count(stream)) {
    captures[stream] = found->second.graph;
    forked[found->second.graph].insert(stream);
  }
  if (captures[stream] != found->second.graph) return isolated;
  forked[found->second.graph].erase(found->second.stream);
  const std::set<Node*>& needed = found->second.last;
  captures[stream]->last[stream].insert(needed.begin(), needed.end());
  return 0;
}

// What the tests ask for.

EXPORT void fake_number_instances_from_zero() { made_execs = 0; }
EXPORT void fake_run_graphs(bool value) { is_running = value; }
EXPORT int fake_live_graphs() {
  std::lock_guard<std::recursive_mutex> held(lock);
  return static_cast<int>(graphs.size() + execs.size() + captures.size());
}
EXPORT void fake_fail_graphs(const char* name, int after, int error) {
  failures[name] = {after, error};
}
EXPORT const char* fake_replayed() { return replayed.c_str(); }
// The nodes of the instance that was made since the last call of this; empty if there is none.
EXPORT const char* fake_instantiated() {
  static std::string shown;
  shown.clear();
  shown.swap(instantiated);
  return shown.c_str();
}
EXPORT void* fake_function(const char* name, int count, const size_t* sizes, bool is_kernel) {
  std::lock_guard<std::recursive_mutex> held(lock);
  void* made = malloc(1);
  functions[made] = {name, {sizes, sizes + count}, is_kernel};
  return made;
}
// The arguments lie one behind the other in `values`, with nothing between.
EXPORT int fake_launch(
    void* function, unsigned programs, const char* values, bool is_packed, void* stream) {
  std::lock_guard<std::recursive_mutex> held(lock);
  const Function& found = functions.at(function);
  KernelNode launch{};
  (found.is_kernel ? launch.kernel : launch.function) = function;
  launch.grid[0] = programs;
  std::vector<void*> parameters;
  std::string packed(4096, '\0');
  size_t bytes = 0;
  const std::vector<size_t> offsets = found.offsets();
  for (size_t i = 0; i < offsets.size(); ++i) {
    parameters.push_back(const_cast<char*>(values));
    packed.replace(offsets[i], found.sizes[i], values, found.sizes[i]);
    bytes = offsets[i] + found.sizes[i];
    values += found.sizes[i];
  }
  void* extra[] = {
      reinterpret_cast<void*>(1), packed.data(), reinterpret_cast<void*>(2), &bytes, nullptr};
  launch.parameters = is_packed ? nullptr : parameters.data();
  launch.extra = is_packed ? extra : nullptr;
  Node node;
  node.type = 0;
  return node.take(launch) ? give(std::move(node), stream) : invalid_value;
}
EXPORT int fake_copy(
    uint64_t to, uint64_t from, size_t bytes, size_t rows, int memory, void* stream) {
  Node node;
  node.type = 1;
  node.copied.source.device = from;
  node.copied.target.device = to;
  node.copied.source.memory = memory;
  node.copied.target.memory = 2;
  node.copied.width = bytes;
  node.copied.height = rows;
  node.copied.depth = 1;
  return give(std::move(node), stream);
}
EXPORT int fake_fill(uint64_t to, unsigned value, size_t bytes, size_t rows, void* stream) {
  Node node;
  node.type = 2;
  node.filled = {to, bytes, value, 1, bytes, rows};
  return give(std::move(node), stream);
}
EXPORT int fake_node(int type, void* stream) {
  Node node;
  node.type = type;
  return give(std::move(node), stream);
}

// The driver.

EXPORT int cuStreamBeginCapture_v2(void* stream, int) {
  BEGIN if (!has_context()) return no_context;
  if (captures.count(stream)) return invalid_value;
  captures[stream] = new Graph;
  captures[stream]->origin = stream;
  return 0;
}
EXPORT int cuStreamEndCapture(void* stream, void** graph) {
  std::lock_guard<std::recursive_mutex> held(lock);
  auto found = captures.find(stream);
  if (found == captures.end()) return not_captured;
  Graph* made = found->second;
  int error = failing(__func__);
  if (!forked[made].empty()) error = unjoined;
  forked.erase(made);
  for (auto each = captures.begin(); each != captures.end();)
    each = each->second == made ? captures.erase(each) : std::next(each);
  for (auto each = events.begin(); each != events.end();)
    each = each->second.graph == made ? events.erase(each) : std::next(each);
  if (error) {
    delete made;
    *graph = nullptr;
    return error;
  }
  graphs.insert(made);
  *graph = made;
  return 0;
}
EXPORT int cuGraphGetNodes(void* graph, void** nodes, size_t* count) {
  BEGIN if (!graphs.count(static_cast<Graph*>(graph))) return invalid_handle;
  const auto& found = static_cast<Graph*>(graph)->nodes;
  if (nodes)
    for (size_t i = 0; i < std::min(*count, found.size()); ++i) nodes[i] = found[i].get();
  *count = found.size();
  return 0;
}
EXPORT int cuGraphNodeGetType(void* handle, int* type) {
  BEGIN if (!node_of(handle)) return invalid_handle;
  *type = node_of(handle)->type;
  return 0;
}
EXPORT int cuGraphKernelNodeGetParams_v2(void* handle, KernelNode* launch) {
  BEGIN if (!node_of(handle)) return invalid_handle;
  *launch = node_of(handle)->shown();
  return 0;
}
EXPORT int cuGraphMemcpyNodeGetParams(void* handle, CopyNode* copied) {
  BEGIN if (!node_of(handle)) return invalid_handle;
  *copied = node_of(handle)->copied;
  return 0;
}
EXPORT int cuGraphMemsetNodeGetParams(void* handle, FillNode* filled) {
  BEGIN if (!node_of(handle)) return invalid_handle;
  *filled = node_of(handle)->filled;
  return 0;
}
EXPORT int cuGraphKernelNodeSetParams_v2(void* handle, const KernelNode* launch) {
  BEGIN Node* node = node_of(handle);
  if (!node || node->type != 0) return invalid_handle;
  return node->take(*launch) ? 0 : invalid_value;
}
EXPORT int cuGraphMemcpyNodeSetParams(void* handle, const CopyNode* copied) {
  BEGIN if (!node_of(handle)) return invalid_handle;
  node_of(handle)->copied = *copied;
  return 0;
}
EXPORT int cuGraphMemsetNodeSetParams(void* handle, const FillNode* filled) {
  BEGIN if (!node_of(handle)) return invalid_handle;
  node_of(handle)->filled = *filled;
  return 0;
}
static int parameter_of(const Function* function, size_t index, size_t* offset, size_t* bytes) {
  if (!function || index >= function->sizes.size()) return invalid_value;
  *offset = function->offsets()[index];
  *bytes = function->sizes[index];
  return 0;
}
EXPORT int cuFuncGetParamInfo(void* handle, size_t index, size_t* offset, size_t* bytes) {
  BEGIN const Function* function = find(handle);
  if (function && function->is_kernel) return invalid_handle;
  return parameter_of(function, index, offset, bytes);
}
EXPORT int cuKernelGetParamInfo(void* handle, size_t index, size_t* offset, size_t* bytes) {
  BEGIN const Function* function = find(handle);
  if (function && !function->is_kernel) return invalid_handle;
  return parameter_of(function, index, offset, bytes);
}
EXPORT int cuGraphNodeGetDependencies(void* handle, void** needed, size_t* count) {
  BEGIN Node* node = node_of(handle);
  if (!node) return invalid_handle;
  size_t i = 0;
  for (Node* each : node->needed)
    if (i < *count) needed[i++] = each;
  *count = i;
  return 0;
}
EXPORT int cuGraphAddDependencies(
    void* graph, void* const* from, void* const* to, size_t count) {
  BEGIN if (!graphs.count(static_cast<Graph*>(graph))) return invalid_handle;
  for (size_t i = 0; i < count; ++i)
    if (!node_of(from[i]) || !node_of(to[i]) ||
        !node_of(to[i])->needed.insert(node_of(from[i])).second)
      return invalid_value;
  return 0;
}
EXPORT int cuGraphRemoveDependencies(
    void* graph, void* const* from, void* const* to, size_t count) {
  BEGIN if (!graphs.count(static_cast<Graph*>(graph))) return invalid_handle;
  for (size_t i = 0; i < count; ++i)
    if (!node_of(to[i]) || !node_of(to[i])->needed.erase(node_of(from[i])))
      return invalid_value;
  return 0;
}
EXPORT int cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long) {
  BEGIN if (!graphs.count(static_cast<Graph*>(graph))) return invalid_handle;
  auto* made = new Exec{made_execs++, {}, {}};
  instantiated.clear();
  for (Node* node : ordered(*static_cast<Graph*>(graph))) {
    instantiated += node->text();
    made->nodes.emplace(node, *node);
    made->order.push_back(node);
  }
  execs.insert(made);
  *exec = made;
  note("instance exec%d", made->number);
  return 0;
}
EXPORT int cuGraphExecKernelNodeSetParams_v2(void* exec, void* handle, const KernelNode* launch) {
  BEGIN Node* node = changed(exec, handle);
  if (!node || node->type != 0 || node->launch.function != launch->function ||
      node->launch.kernel != launch->kernel)
    return invalid_value;
  return node->take(*launch) ? 0 : invalid_value;
}
EXPORT int cuGraphExecMemcpyNodeSetParams(
    void* exec, void* handle, const CopyNode* copied, void* context) {
  BEGIN Node* node = changed(exec, handle);
  if (!node || node->type != 1 || !context || node->copied.height > 1 || copied->height > 1)
    return invalid_value;
  node->copied = *copied;
  return 0;
}
EXPORT int cuGraphExecMemsetNodeSetParams(
    void* exec, void* handle, const FillNode* filled, void* context) {
  BEGIN Node* node = changed(exec, handle);
  if (!node || node->type != 2 || !context || node->filled.height > 1 || filled->height > 1)
    return invalid_value;
  node->filled = *filled;
  return 0;
}
EXPORT int cuGraphLaunch(void* exec, void* stream) {
  BEGIN if (!has_context()) return no_context;
  if (!execs.count(static_cast<Exec*>(exec))) return invalid_handle;
  auto* found = static_cast<Exec*>(exec);
  note("replay exec%d on %s", found->number, name_of(stream).c_str());
  replayed.clear();
  for (void* handle : found->order) {
    Node& node = found->nodes.at(handle);
    replayed += node.text();
    node.run();
  }
  return 0;
}
EXPORT int cuGraphExecDestroy(void* exec) {
  BEGIN if (!execs.erase(static_cast<Exec*>(exec))) return invalid_handle;
  delete static_cast<Exec*>(exec);
  return 0;
}
EXPORT int cuGraphDestroy(void* graph) {
  BEGIN if (!graphs.erase(static_cast<Graph*>(graph))) return invalid_handle;
  delete static_cast<Graph*>(graph);
  return 0;
}
// How many nodes of the last replay had to wait for another one of a type.
EXPORT int fake_waits(int type) {
  std::lock_guard<std::recursive_mutex> held(lock);
  int found = 0;
  for (Graph* graph : graphs)
    for (const auto& node : graph->nodes)
      for (Node* needed : node->needed) found += node->type == type && needed->type == type;
  return found;
}
EXPORT const char* fake_graph_text(void* graph) {
  static std::string shown;
  shown.clear();
  for (const auto& node : static_cast<Graph*>(graph)->nodes) shown += node->text();
  return shown.c_str();
}
