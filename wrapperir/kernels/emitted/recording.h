// A recorded CUDA graph, and how it is replayed with operands at other addresses.
//
// The same work is captured three times, the last time with each operand at another address.
// Words of a node's parameters that differ between the first two captures are not initialised, or
// point to memory of the host.  Of the others, a word that the third capture changes by exactly
// the distance of one operand is a pointer into that operand, or to its end, and is rewritten
// when the operand moves.  If it changes anything else, only those operands can move that nothing
// but the recording's own copies reads or writes.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "driver_functions.h"

namespace wrapperir {

// The driver; null if there is none, or it is older than CUDA 12.4.
inline const Driver* graph_driver() {
  static Driver driver;
  static const bool found = !find_driver(driver) && has_graphs(driver);
  return found ? &driver : nullptr;
}

// An error of the driver, or a graph that cannot be replayed.
struct GraphError {
  std::string message;
};

inline std::string described(int error, const char* what) {
  const char* name = nullptr;
  graph_driver()->cuGetErrorName(error, &name);
  return std::string(what) + " failed: " + (name ? name : std::to_string(error));
}

inline void check_graph(int error, const char* what) {
  if (error) throw GraphError{described(error, what)};
}

inline void enter_context(int device) {
  check_graph(ensure_context(*graph_driver(), device), "making a context to replay a graph");
}

// A node's parameters as words, and where they came from.
struct GraphNode {
  enum Type { kernel = 0, copy = 1, fill = 2, empty = 5, wait = 6, record = 7 };
  void* handle = nullptr;
  int type = empty;
  KernelNode launch{};
  CopyNode copied{};
  FillNode filled{};
  std::vector<uint64_t> words;  // a kernel's arguments, or the addresses of a copy or fill
  std::vector<void*> parameters;  // where each argument begins
  size_t packed_bytes = 0;  // of arguments that are given as one buffer
  void* packed[5] = {};
};

// An operand in both captures: the address of its first element, and its storage.
struct Operand {
  uint64_t address;
  uint64_t begin;
  uint64_t bytes;  // of the storage; 0 if no node has the operand
  uint64_t displaced;  // the first element's address in the other capture
  bool is_copied;  // the graph copies it to or from its own memory, and has no other use of it
};

class Recording {
 public:
  // `graph` must outlive this object.  `again` and `displaced` are captures of the same work, the
  // latter with each operand at its displaced address.  The last operands are targets: the work
  // ends with copies of `results` to them.  Throws if a copy of an operand is not found.
  Recording(
      void* graph, void* again, void* displaced, const std::vector<Operand>& operands,
      size_t results)
      : driver_(*graph_driver()),
        graph_(graph),
        sites_(operands.size()),
        nodes_of_(operands.size()),
        changes_(operands.size()) {
    nodes_ = read(graph);
    is_marked_.resize(nodes_.size());
    is_changed_.resize(nodes_.size());
    for (const Operand& operand : operands) addresses_.push_back(operand.address);
    set_addresses_ = addresses_;
    compare(read(again), read(displaced), operands);
    check_graph(driver_.cuCtxGetCurrent(&context_), "asking for the context");
    spread_copies(results);
    check_graph(
        driver_.cuGraphInstantiateWithFlags(&instance_, graph_, 0), "instantiating a graph");
  }
  ~Recording() {
    if (instance_) driver_.cuGraphExecDestroy(instance_);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // Whether all operands may move, not just those that are copied: each difference of the
  // captures was explained.
  bool is_movable() const { return is_movable_; }
  // Nodes whose parameters point into an operand.
  size_t nodes_of(size_t operand) const { return nodes_of_[operand]; }
  // Nodes that launches have changed for an operand.
  uint64_t changes(size_t operand) const { return changes_[operand]; }
  // Where the next launch finds an operand, if its nodes point into it.
  uint64_t address(size_t operand) const { return addresses_[operand]; }

  // Have the next launch find an operand at another address.
  void move(size_t operand, uint64_t address) {
    const uint64_t distance = address - addresses_[operand];
    if (!distance || sites_[operand].empty()) return;
    for (const Site& site : sites_[operand]) nodes_[site.node].words[site.word] += distance;
    addresses_[operand] = address;
  }

  // Launch the graph with the operands where they were moved to.  Changes are for this launch and
  // later ones: a launch before it may still run.
  void launch(void* stream) {
    set_operands();
    constexpr uint64_t launches = 16;  // slower ones that a new instance is worth
    if (settled_ && settled_ >= launches * nodes_.size()) renew_instance();
    check_graph(driver_.cuGraphLaunch(instance_, stream), "replaying a graph");
  }

 private:
  struct Site {
    uint32_t node, word;
  };

  // Have the copies of results at the end wait for the work before them and not for each other,
  // in a few branches.  Where the driver refuses, the order stays as it is.
  void spread_copies(size_t results) const {
    constexpr size_t branches = 4;
    const std::unordered_set<uint64_t> targets(
        addresses_.end() - static_cast<ptrdiff_t>(results), addresses_.end());
    size_t first = nodes_.size();
    while (first && nodes_[first - 1].type == GraphNode::copy &&
           targets.count(nodes_[first - 1].words[1]))
      --first;
    void* before = nullptr;
    for (size_t i = first; i < nodes_.size(); ++i) {
      void* const handle = nodes_[i].handle;
      void* needed[2] = {};
      size_t count = 2;
      if (driver_.cuGraphNodeGetDependencies(handle, needed, &count) || count > 1) return;
      if (i == first) {
        before = needed[0];
        continue;
      }
      if (needed[0] != nodes_[i - 1].handle) return;
      void* const earlier = i < first + branches ? before : nodes_[i - branches].handle;
      // First added, then removed: there is an order even if the second fails.
      if (earlier && driver_.cuGraphAddDependencies(graph_, &earlier, &handle, 1)) return;
      if (driver_.cuGraphRemoveDependencies(graph_, needed, &handle, 1)) return;
    }
  }

  // Give the instance the operands' addresses.
  void set_operands() {
    // If the driver fails to change the instance, it is changed as a whole the next time.
    const bool is_known = std::exchange(is_known_, false);
    stale_.clear();
    for (size_t i = 0; i < addresses_.size(); ++i) {
      if (is_known && set_addresses_[i] == addresses_[i]) continue;
      for (const Site& site : sites_[i]) {
        if (!is_marked_[site.node]) stale_.push_back(site.node);
        is_marked_[site.node] = true;
      }
      changes_[i] += nodes_of_[i];
    }
    settled_ += changed_;
    for (const uint32_t node : stale_) {
      is_marked_[node] = false;
      if (is_changed_[node]) --settled_;
      else ++changed_;
      is_changed_[node] = true;
    }
    for (const uint32_t node : stale_) change(nodes_[node]);
    set_addresses_ = addresses_;
    is_known_ = true;
  }

  // Make the instance anew: nodes that were changed start later than those of a new instance.
  // Where the driver refuses, the old one stays.
  void renew_instance() {
    settled_ = 0;
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (is_changed_[i] && set_in_graph(nodes_[i])) return;
    void* made = nullptr;
    if (driver_.cuGraphInstantiateWithFlags(&made, graph_, 0)) return;
    driver_.cuGraphExecDestroy(std::exchange(instance_, made));  // after a launch that still runs
    is_changed_.assign(nodes_.size(), false);
    changed_ = 0;
  }

  std::vector<GraphNode> read(void* graph) const {
    size_t count = 0;
    check_graph(driver_.cuGraphGetNodes(graph, nullptr, &count), "reading a graph");
    std::vector<void*> handles(count);
    if (count)
      check_graph(driver_.cuGraphGetNodes(graph, handles.data(), &count), "reading a graph");
    std::vector<GraphNode> nodes(count);
    for (size_t i = 0; i < count; ++i) {
      nodes[i].handle = handles[i];
      read_node(nodes[i]);
    }
    return nodes;
  }

  void read_node(GraphNode& node) const {
    check_graph(driver_.cuGraphNodeGetType(node.handle, &node.type), "reading a node");
    switch (node.type) {
      case GraphNode::kernel:
        check_graph(
            driver_.cuGraphKernelNodeGetParams_v2(node.handle, &node.launch), "reading a launch");
        read_arguments(node);
        break;
      case GraphNode::copy:
        check_graph(
            driver_.cuGraphMemcpyNodeGetParams(node.handle, &node.copied), "reading a copy");
        for (const CopySide* side : {&node.copied.source, &node.copied.target}) {
          constexpr int device = 2, unified = 4;
          if (side->memory != device && side->memory != unified)
            throw GraphError{"it copies memory of the host, or an array"};
        }
        node.words = {node.copied.source.device, node.copied.target.device};
        break;
      case GraphNode::fill:
        check_graph(
            driver_.cuGraphMemsetNodeGetParams(node.handle, &node.filled), "reading a fill");
        node.words = {node.filled.target};
        break;
      case GraphNode::empty:
      case GraphNode::wait:  // NCCL has these for what works beside the graph
      case GraphNode::record:
        break;
      default:
        throw GraphError{"it has a node of type " + std::to_string(node.type)};
    }
  }

  void read_arguments(GraphNode& node) const {
    KernelNode& launch = node.launch;
    if (launch.extra) {
      read_packed(node);
      return;
    }
    if (!launch.parameters) return;
    std::vector<std::pair<size_t, size_t>> places;  // first word, bytes
    size_t words = 0;
    for (size_t i = 0;; ++i) {
      size_t offset = 0, bytes = 0;
      const int error = launch.function
          ? driver_.cuFuncGetParamInfo(launch.function, i, &offset, &bytes)
          : driver_.cuKernelGetParamInfo(launch.kernel, i, &offset, &bytes);
      constexpr int invalid_value = 1;
      if (error == invalid_value) break;  // there are no more
      check_graph(error, "reading a launch's arguments");
      places.emplace_back(words, bytes);
      words += (bytes + 7) / 8;
    }
    node.words.assign(words, 0);
    for (size_t i = 0; i < places.size(); ++i) {
      uint64_t* begin = node.words.data() + places[i].first;
      memcpy(begin, launch.parameters[i], places[i].second);
      node.parameters.push_back(begin);
    }
    launch.parameters = node.parameters.data();
  }

  // Arguments in one buffer: pairs of a key and a value, up to a null.
  static void read_packed(GraphNode& node) {
    constexpr size_t buffer = 1, size = 2;
    const void* begin = nullptr;
    for (void** entry = node.launch.extra; *entry; entry += 2) {
      const auto key = reinterpret_cast<size_t>(*entry);
      if (key == buffer) begin = entry[1];
      if (key == size) node.packed_bytes = *static_cast<size_t*>(entry[1]);
    }
    node.words.assign((node.packed_bytes + 7) / 8, 0);
    if (begin) memcpy(node.words.data(), begin, node.packed_bytes);
    node.packed[0] = reinterpret_cast<void*>(buffer);
    node.packed[1] = node.words.data();
    node.packed[2] = reinterpret_cast<void*>(size);
  }

  void compare(
      const std::vector<GraphNode>& again, const std::vector<GraphNode>& displaced,
      const std::vector<Operand>& operands) {
    std::unordered_multimap<uint64_t, size_t> by_distance;
    for (size_t i = 0; i < operands.size(); ++i)
      by_distance.emplace(operands[i].displaced - operands[i].address, i);
    is_movable_ = again.size() == nodes_.size() && displaced.size() == nodes_.size();
    const size_t count = is_movable_ ? nodes_.size() : 0;
    for (uint32_t i = 0; i < count; ++i) {
      if (!is_alike(nodes_[i], again[i]) || !is_alike(nodes_[i], displaced[i])) {
        is_movable_ = false;
        continue;
      }
      const std::vector<uint64_t>&words = nodes_[i].words, &others = displaced[i].words;
      for (uint32_t word = 0; word < words.size(); ++word) {
        if (words[word] == others[word] || words[word] != again[i].words[word]) continue;
        size_t operand = operands.size(), explanations = 0;
        const auto found = by_distance.equal_range(others[word] - words[word]);
        for (auto entry = found.first; entry != found.second; ++entry) {
          const Operand& pointed = operands[entry->second];
          if (words[word] - pointed.begin > pointed.bytes) continue;
          operand = entry->second;
          ++explanations;
        }
        if (explanations != 1 || !can_change(nodes_[i])) {
          is_movable_ = false;
          continue;
        }
        std::vector<Site>& sites = sites_[operand];
        nodes_of_[operand] += sites.empty() || sites.back().node != i;
        sites.push_back({i, word});
      }
    }
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!operands[i].is_copied && !is_movable_) sites_[i].clear();
      if (operands[i].is_copied && operands[i].bytes && sites_[i].empty())
        throw GraphError{"a copy of an operand is not found in it"};
    }
  }

  // Whether the driver changes the addresses of a node: copies and fills of rows stay.
  static bool can_change(const GraphNode& node) {
    return node.type == GraphNode::kernel ||
        (node.copied.height <= 1 && node.copied.depth <= 1 && node.filled.height <= 1);
  }

  static bool is_alike(const GraphNode& one, const GraphNode& other) {
    if (one.type != other.type || one.words.size() != other.words.size()) return false;
    if (one.type == GraphNode::kernel) {
      const KernelNode &a = one.launch, &b = other.launch;
      return a.function == b.function && a.kernel == b.kernel && !a.extra == !b.extra &&
          !memcmp(a.grid, b.grid, sizeof a.grid) && !memcmp(a.block, b.block, sizeof a.block) &&
          a.shared_bytes == b.shared_bytes;
    }
    if (one.type == GraphNode::copy) {
      CopyNode a = one.copied, b = other.copied;
      for (CopyNode* node : {&a, &b}) {
        node->source.device = node->target.device = 0;
        node->source.host = node->target.host = nullptr;
      }
      return !memcmp(&a, &b, sizeof a);
    }
    FillNode a = one.filled, b = other.filled;
    a.target = b.target = 0;
    return one.type != GraphNode::fill || !memcmp(&a, &b, sizeof a);
  }

  // Write a node's words to its parameters.
  static void update(GraphNode& node) {
    if (node.type == GraphNode::copy) {
      node.copied.source.device = node.words[0];
      node.copied.target.device = node.words[1];
    } else if (node.type == GraphNode::fill) {
      node.filled.target = node.words[0];
    } else if (node.launch.extra) {
      node.packed[3] = &node.packed_bytes;
      node.launch.extra = node.packed;
    }
  }

  // Set a node of the instance.
  void change(GraphNode& node) const {
    update(node);
    if (node.type == GraphNode::kernel)
      check_graph(
          driver_.cuGraphExecKernelNodeSetParams_v2(instance_, node.handle, &node.launch),
          "moving a launch's operand");
    else if (node.type == GraphNode::copy)
      check_graph(
          driver_.cuGraphExecMemcpyNodeSetParams(
              instance_, node.handle, &node.copied, context_),
          "moving a copy's operand");
    else
      check_graph(
          driver_.cuGraphExecMemsetNodeSetParams(
              instance_, node.handle, &node.filled, context_),
          "moving a fill's operand");
  }

  // Set a node of the graph; returns an error of the driver.
  int set_in_graph(GraphNode& node) const {
    update(node);
    if (node.type == GraphNode::kernel)
      return driver_.cuGraphKernelNodeSetParams_v2(node.handle, &node.launch);
    if (node.type == GraphNode::copy)
      return driver_.cuGraphMemcpyNodeSetParams(node.handle, &node.copied);
    return driver_.cuGraphMemsetNodeSetParams(node.handle, &node.filled);
  }

  const Driver& driver_;
  void* graph_;
  std::vector<GraphNode> nodes_;  // as the operands' addresses are now
  std::vector<bool> is_marked_;
  std::vector<uint32_t> stale_;  // the nodes of a change; it keeps its memory
  std::vector<bool> is_changed_;  // by node, since the instance was made
  size_t changed_ = 0;
  // Starts of changed nodes that a new instance would have made sooner, since it was made.
  uint64_t settled_ = 0;
  std::vector<std::vector<Site>> sites_;  // by operand, ordered by node
  std::vector<size_t> nodes_of_;
  std::vector<uint64_t> changes_;
  std::vector<uint64_t> addresses_;
  std::vector<uint64_t> set_addresses_;  // those that the instance has
  void* instance_ = nullptr;
  void* context_ = nullptr;
  bool is_known_ = true;  // whether the instance has `set_addresses_`
  bool is_movable_ = false;
};

}  // namespace wrapperir
