// Local search for a plan within a given height; the same algorithm as ejection_search.py,
// step for step, where it is explained.  The caller sees to it that no sum overflows.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

namespace {

using std::int64_t;
using std::uint64_t;
using std::vector;
using Clock = std::chrono::steady_clock;
using Pair = std::pair<int64_t, int64_t>;

constexpr int64_t kOut = -1;
constexpr int kMoves = 2;

int64_t align(int64_t offset, int64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

struct Problem {
  int64_t count;
  const int64_t *first, *stop, *sizes, *alignments;
  int64_t capacity;
};

class EjectionSearch {
 public:
  EjectionSearch(const Problem& problem, int64_t* offsets, uint64_t seed)
      : p_(problem), offsets_(offsets), penalties_(problem.count, 1), random_(seed) {}

  bool run(int64_t most, Clock::time_point deadline) {
    vector<int64_t> out;
    for (int64_t i = 0; i < p_.count; ++i)
      if (offsets_[i] + p_.sizes[i] > p_.capacity) out.push_back(i);
    std::stable_sort(out.begin(), out.end(),
                     [&](int64_t i, int64_t j) { return p_.sizes[i] < p_.sizes[j]; });
    for (int64_t i : out) offsets_[i] = kOut;
    while (!out.empty()) {
      if (steps_ >= most || Clock::now() >= deadline) return false;
      ++steps_;
      const int64_t index = out.back();
      out.pop_back();
      put_in(index, out);
    }
    return true;
  }

  int64_t steps() const { return steps_; }

 private:
  void put_in(int64_t index, vector<int64_t>& out) {
    find_near(index, near_);
    const int64_t offset = least_missed(index), top = offset + p_.sizes[index];
    const size_t before = out.size();
    for (int64_t i : near_) {
      if (offsets_[i] >= top || offset >= offsets_[i] + p_.sizes[i]) continue;
      offsets_[i] = kOut;
      out.push_back(i);
    }
    offsets_[index] = offset;
    if (out.size() == before) return;
    ++penalties_[index];
    for (int i = 0; i < kMoves; ++i) {
      const int64_t other = near_[draw(near_.size())];
      if (offsets_[other] != kOut) move(other);
    }
  }

  void find_near(int64_t index, vector<int64_t>& near) const {
    const int64_t begin = p_.first[index], end = p_.stop[index];
    near.clear();
    // Buffers come in order of their first section.
    for (int64_t i = 0; i < p_.count && p_.first[i] < end; ++i)
      if (begin < p_.stop[i] && offsets_[i] != kOut) near.push_back(i);
  }

  int64_t least_missed(int64_t index) {
    const int64_t size = p_.sizes[index], alignment = p_.alignments[index];
    const int64_t highest = (p_.capacity - size) / alignment * alignment;
    starts_.clear();
    stops_.clear();
    places_.assign({0, highest});
    for (int64_t i : near_) {
      const int64_t start = offsets_[i], stop = start + p_.sizes[i];
      starts_.push_back({start, penalties_[i]});
      stops_.push_back({stop, penalties_[i]});
      if (start >= size) places_.push_back((start - size) / alignment * alignment);
      const int64_t above = align(stop, alignment);
      if (above <= highest) places_.push_back(above);
    }
    std::sort(starts_.begin(), starts_.end());
    std::sort(stops_.begin(), stops_.end());
    std::sort(places_.begin(), places_.end());
    places_.erase(std::unique(places_.begin(), places_.end()), places_.end());
    size_t begun = 0, ended = 0;
    int64_t missed = 0, least = -1, best = 0, equal = 0;
    for (int64_t place : places_) {
      for (; begun < starts_.size() && starts_[begun].first < place + size; ++begun)
        missed += starts_[begun].second;
      for (; ended < stops_.size() && stops_[ended].first <= place; ++ended)
        missed -= stops_[ended].second;
      if (least < 0 || missed < least) {
        least = missed;
        best = place;
        equal = 1;
      } else if (missed == least && missed) {
        if (!draw(++equal)) best = place;
      }
    }
    return best;
  }

  void move(int64_t index) {
    const int64_t size = p_.sizes[index], alignment = p_.alignments[index];
    offsets_[index] = kOut;
    find_near(index, around_);
    starts_.clear();
    for (int64_t i : around_) starts_.push_back({offsets_[i], offsets_[i] + p_.sizes[i]});
    std::sort(starts_.begin(), starts_.end());
    starts_.push_back({p_.capacity, p_.capacity});
    int64_t place = 0, gaps = 0;
    for (const auto& [start, stop] : starts_) {
      if (place + size <= start && !draw(++gaps)) offsets_[index] = place;
      place = std::max(place, align(stop, alignment));
    }
  }

  int64_t draw(uint64_t count) {
    random_ += 0x9e3779b97f4a7c15u;
    uint64_t bits = (random_ ^ (random_ >> 30)) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    return (bits ^ (bits >> 31)) % count;
  }

  const Problem p_;
  int64_t* const offsets_;
  vector<int64_t> penalties_;
  uint64_t random_;
  int64_t steps_ = 0;
  vector<int64_t> near_, around_, places_;
  vector<Pair> starts_, stops_;
};

}  // namespace

// Makes the plan in offsets one of at most capacity bytes, and says in how many steps.
// Returns 1 if it could, -1 if steps or time ran out, -2 if there is too little memory;
// then offsets are no plan.
extern "C" int64_t wrapperir_ejection_search(int64_t count, const int64_t* first,
                                             const int64_t* stop, const int64_t* sizes,
                                             const int64_t* alignments, int64_t capacity,
                                             int64_t seed, int64_t most, double seconds,
                                             int64_t* steps, int64_t* offsets) {
  try {
    const auto budget = std::chrono::duration<double>(seconds);
    const auto deadline =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(budget);
    EjectionSearch search({count, first, stop, sizes, alignments, capacity}, offsets, seed);
    const bool found = search.run(most, deadline);
    *steps = search.steps();
    return found ? 1 : -1;
  } catch (const std::bad_alloc&) {
    return -2;
  }
}
