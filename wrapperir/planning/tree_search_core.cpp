// Exact search for a plan within a given height: the algorithm of tree_search.py, which
// explains it, step for step.  The caller ensures that no sum of sizes overflows.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <new>
#include <unordered_set>
#include <utility>
#include <vector>

namespace {

using std::int64_t;
using std::uint64_t;
using std::vector;
using Clock = std::chrono::steady_clock;

using Urgency = std::array<int64_t, 3>;

enum class Rule { kCandidates, kSlack, kMisfits, kOrder };

enum Outcome : int64_t { kFound = 1, kInfeasible = 0, kUndecided = -1, kNoMemory = -2 };

constexpr size_t kMostFailures = 1 << 20;
constexpr int64_t kSlackShare = 128;

struct Problem {
  int64_t count, sections;
  const int64_t *first, *stop, *sizes, *alignments, *ranks;
  int64_t orders, capacity;
};

// 128 bits identify the state of a part: a million states collide with probability 2^-88.
struct Key {
  uint64_t a, b;
  bool operator==(const Key& other) const { return a == other.a && b == other.b; }
};

struct KeyHash {
  size_t operator()(const Key& key) const { return key.a; }
};

uint64_t mix(uint64_t x) {  // the finaliser of splitmix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

int64_t align(int64_t offset, int64_t alignment) {
  return alignment == 1 ? offset : (offset + alignment - 1) / alignment * alignment;
}

// Rows of different lengths in one array.
struct Table {
  vector<int32_t> values;
  vector<size_t> begin{0};
  void end_row() { begin.push_back(values.size()); }
  int32_t* row(int64_t i) { return values.data() + begin[i]; }
  int32_t* row_end(int64_t i) { return values.data() + begin[i + 1]; }
};

struct Part {
  vector<int32_t> buffers;
  size_t start;
  vector<Key> states;
  int32_t chosen = -1;
  size_t before = 0;
  vector<vector<int32_t>> rest;
};

struct Change {
  int64_t* where;
  int64_t value;
};

class TreeSearch {
 public:
  TreeSearch(const Problem& problem, int64_t most, Clock::time_point deadline)
      : p_(problem),
        most_(most),
        deadline_(deadline),
        lowest_(problem.count, 0),
        supported_(problem.count, 1),
        placed_(problem.count, 0),
        slack_(problem.sections, 0),
        candidates_(problem.sections, 0),
        misfits_(problem.sections, 1),
        placed_in_(problem.sections, 0),
        marks_(problem.sections, 0) {
    for (int32_t s = 0; s < p_.sections; ++s) {
      for (int32_t i = 0; i < p_.count; ++i)
        if (p_.first[i] <= s && s < p_.stop[i]) held_.values.push_back(i);
      held_.end_row();
    }
    for (int32_t i = 0; i < p_.count; ++i) {
      for (int32_t j = 0; j < p_.count; ++j) {
        if (i == j || p_.first[j] >= p_.stop[i] || p_.first[i] >= p_.stop[j]) continue;
        near_.values.push_back(j);
        if (p_.first[i] == p_.first[j] && p_.stop[i] == p_.stop[j] &&
            p_.sizes[i] == p_.sizes[j] && p_.alignments[i] == p_.alignments[j])
          twins_.values.push_back(j);
      }
      near_.end_row();
      twins_.end_row();
    }
  }

  Outcome run() {
    clear_marks();
    mark(0, p_.sections);
    if (!fit()) return kInfeasible;
    vector<int32_t> all(p_.count);
    for (int32_t i = 0; i < p_.count; ++i) all[i] = i;
    vector<vector<int32_t>> todo = parts(all, -1);
    for (; !todo.empty(); todo.pop_back()) {
      const Outcome outcome = take_turns(todo.back());
      if (outcome != kFound) return outcome;
    }
    return kFound;
  }

  const vector<int64_t>& offsets() const { return lowest_; }
  int64_t steps() const { return steps_; }

 private:
  bool late() const { return Clock::now() >= deadline_; }

  Outcome take_turns(const vector<int32_t>& part) {
    const size_t start = changes_.size();
    for (int64_t limit = 2 * part.size();; limit *= 2) {
      for (int64_t order = 0; order < p_.orders; ++order) {
        rank_ = p_.ranks + order * p_.count;
        for (Rule rule : {Rule::kCandidates, Rule::kSlack, Rule::kMisfits, Rule::kOrder}) {
          rule_ = rule;
          const int64_t stop = limit < most_ - steps_ ? steps_ + limit : most_;
          const Outcome outcome = search(part, stop);
          if (outcome != kUndecided) return outcome;
          if (steps_ >= most_ || late()) return outcome;
          undo(start);
        }
      }
    }
  }

  Outcome search(const vector<int32_t>& buffers, int64_t most) {
    vector<Part> stack;
    stack.push_back({buffers, changes_.size(), {}, -1, 0, {}});
    while (!stack.empty()) {
      Part& part = stack.back();
      if (!part.rest.empty()) {
        Part next{std::move(part.rest.back()), changes_.size(), {}, -1, 0, {}};
        part.rest.pop_back();
        stack.push_back(std::move(next));
        continue;
      }
      if (part.chosen >= 0) {
        stack.pop_back();  // the rest is placed
        continue;
      }
      Outcome outcome = branch(part, most);
      if (outcome == kUndecided) return outcome;
      while (outcome == kInfeasible) {
        undo(stack.back().start);
        for (const Key& key : stack.back().states)
          if (failures_.size() < kMostFailures) failures_.insert(key);
        stack.pop_back();
        if (stack.empty()) return outcome;
        if (pass_over(stack.back())) break;
      }
    }
    return kFound;
  }

  Outcome branch(Part& part, int64_t most) {
    while (steps_ < most && !late()) {
      ++steps_;
      const Key key = key_of(part.buffers);
      if (failures_.count(key)) return kInfeasible;
      part.states.push_back(key);
      const int32_t index = choose(part.buffers);
      if (!supported_[index]) {
        if (!raise(index)) return kInfeasible;
        continue;
      }
      part.chosen = index;
      part.before = changes_.size();
      if (place(index)) {
        part.rest = parts(part.buffers, index);
        return kFound;
      }
      if (!pass_over(part)) return kInfeasible;
    }
    return kUndecided;
  }

  Key key_of(const vector<int32_t>& buffers) const {
    Key key{0, 0};
    for (int32_t i : buffers) {
      const uint64_t own = mix(2 * uint64_t(i) + supported_[i] + 0x9e3779b97f4a7c15u);
      const uint64_t state = mix(own + uint64_t(lowest_[i]) * 0x9e3779b97f4a7c15u);
      key.a ^= state;
      key.b += state * 0xd6e8feb86659fd93u;
    }
    return key;
  }

  int32_t choose(const vector<int32_t>& buffers) const {
    int64_t bottom = INT64_MAX;
    for (int32_t i : buffers) bottom = std::min(bottom, lowest_[i]);
    int32_t best = -1;
    Urgency least{};
    for (int32_t i : buffers) {
      if (lowest_[i] != bottom) continue;
      if (!supported_[i]) return i;
      const Urgency own = urgency(i);
      if (best >= 0 && least <= own) continue;
      best = i;
      least = own;
    }
    return best;
  }

  Urgency urgency(int32_t index) const {
    Urgency least{0, 0, rank_[index]};
    if (rule_ == Rule::kOrder) return least;
    for (int64_t s = p_.first[index]; s < p_.stop[index]; ++s) {
      Urgency own{slack_[s], candidates_[s], rank_[index]};
      if (rule_ == Rule::kCandidates) {
        own = {2 * candidates_[s] + (slack_[s] > 0), slack_[s], own[2]};
      } else if (rule_ == Rule::kMisfits) {
        own = {(slack_[s] + p_.capacity / kSlackShare + 1) / misfits_[s], 0, own[2]};
      }
      if (s == p_.first[index] || own < least) least = own;
    }
    return least;
  }

  bool place(int32_t index) {
    change(placed_[index], 1);
    const int64_t top = lowest_[index] + p_.sizes[index];
    for (int64_t s = p_.first[index]; s < p_.stop[index]; ++s) {
      int32_t* const open = held_.row(s) + placed_in_[s];
      std::swap(*open, *std::find(open, held_.row_end(s), index));
      change(placed_in_[s], placed_in_[s] + 1);
    }
    clear_marks();
    mark(p_.first[index], p_.stop[index]);
    for (auto at = near_.row(index); at != near_.row_end(index); ++at) {
      const int32_t other = *at;
      if (placed_[other]) continue;
      const int64_t offset = align(top, p_.alignments[other]);
      if (lowest_[other] < offset) {
        change(lowest_[other], offset);
        change(supported_[other], 1);
        mark(p_.first[other], p_.stop[other]);
      } else if (lowest_[other] == offset) {
        change(supported_[other], 1);
      }
    }
    return fit();
  }

  bool pass_over(Part& part) {
    undo(part.before);
    const int32_t index = part.chosen;
    part.chosen = -1;
    part.rest.clear();
    const int64_t bottom = lowest_[index];
    if (!raise(index)) return false;
    for (auto twin = twins_.row(index); twin != twins_.row_end(index); ++twin)
      if (!placed_[*twin] && lowest_[*twin] == bottom && !raise(*twin)) return false;
    return true;
  }

  bool raise(int32_t index) {
    int64_t top = INT64_MAX;
    for (auto at = near_.row(index); at != near_.row_end(index); ++at)
      if (!placed_[*at]) top = std::min(top, lowest_[*at] + p_.sizes[*at]);
    if (top == INT64_MAX) return false;
    change(lowest_[index], align(top, p_.alignments[index]));
    change(supported_[index], 0);
    clear_marks();
    mark(p_.first[index], p_.stop[index]);
    return fit();
  }

  // Whether the unplaced buffers may fit, each marked section by itself.
  bool fit() {
    for (int32_t section : marked_) {
      int32_t* const begin = held_.row(section) + placed_in_[section];
      int32_t* const end = held_.row_end(section);
      // Few buffers have moved since the last time, so insertion sort is fast.
      for (int32_t* at = begin; at != end; ++at) {
        const int32_t index = *at;
        int32_t* hole = at;
        for (; hole != begin && lowest_[hole[-1]] > lowest_[index]; --hole)
          *hole = hole[-1];
        *hole = index;
      }
      int64_t top = 0;
      for (const int32_t* at = begin; at != end; ++at)
        top = std::max(top, lowest_[*at]) + p_.sizes[*at];
      if (top > p_.capacity) {
        ++misfits_[section];
        return false;
      }
      int64_t candidates = 0;
      for (const int32_t* at = begin; at != end && lowest_[*at] == lowest_[*begin]; ++at)
        ++candidates;
      change(slack_[section], p_.capacity - top);
      change(candidates_[section], candidates);
    }
    return true;
  }

  // All but one of the buffers, cut where none is alive.  The last part is searched next.
  vector<vector<int32_t>> parts(const vector<int32_t>& buffers, int32_t without) const {
    vector<vector<int32_t>> found;
    int64_t end = -1;
    for (int32_t i : buffers) {
      if (i == without) continue;
      if (p_.first[i] >= end) found.emplace_back();
      found.back().push_back(i);
      end = std::max(end, p_.stop[i]);
    }
    std::reverse(found.begin(), found.end());
    return found;
  }

  void clear_marks() {
    ++mark_;
    marked_.clear();
  }

  void mark(int64_t first, int64_t stop) {
    for (int64_t s = first; s < stop; ++s) {
      if (marks_[s] == mark_) continue;
      marks_[s] = mark_;
      marked_.push_back(s);
    }
  }

  void change(int64_t& where, int64_t value) {
    if (where == value) return;
    changes_.push_back({&where, where});
    where = value;
  }

  void undo(size_t count) {
    for (; changes_.size() > count; changes_.pop_back())
      *changes_.back().where = changes_.back().value;
  }

  const Problem p_;
  const int64_t most_;
  const Clock::time_point deadline_;
  int64_t steps_ = 0;
  Table held_;  // the buffers of each section, placed ones first
  Table near_, twins_;
  vector<int64_t> lowest_, supported_, placed_, slack_, candidates_, misfits_, placed_in_;
  vector<Change> changes_;
  std::unordered_set<Key, KeyHash> failures_;
  const int64_t* rank_ = nullptr;
  Rule rule_ = Rule::kOrder;
  vector<int64_t> marks_;
  int64_t mark_ = 0;
  vector<int32_t> marked_;
};

}  // namespace

// Sets steps, and offsets if a plan is found.  Returns 1 if a plan is found, 0 if there is
// none, -1 if steps or time ran out, -2 if there is too little memory.
extern "C" int64_t wrapperir_tree_search(int64_t count, int64_t sections,
                                         const int64_t* first, const int64_t* stop,
                                         const int64_t* sizes, const int64_t* alignments,
                                         const int64_t* ranks, int64_t orders,
                                         int64_t capacity, int64_t most, double seconds,
                                         int64_t* steps, int64_t* offsets) {
  try {
    const auto budget = std::chrono::duration<double>(seconds);
    const auto deadline =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(budget);
    TreeSearch search({count, sections, first, stop, sizes, alignments, ranks, orders,
                       capacity}, most, deadline);
    const Outcome outcome = search.run();
    *steps = search.steps();
    if (outcome == kFound)
      std::copy(search.offsets().begin(), search.offsets().end(), offsets);
    return outcome;
  } catch (const std::bad_alloc&) {
    return kNoMemory;
  }
}
