// First fit in a given order: the algorithm of first_fit.py, step for step, so that both
// give the same offsets.  The caller ensures that no sum of sizes overflows.

#include <algorithm>
#include <cstdint>
#include <new>
#include <vector>

namespace {

using std::int64_t;

struct Range {
  int64_t start, end;
};

// Disjoint ranges of bytes, none touching another, in ascending order.
class Ranges {
 public:
  void add(int64_t start, int64_t end) {
    auto first = std::lower_bound(ranges_.begin(), ranges_.end(), start,
                                  [](const Range& r, int64_t x) { return r.end < x; });
    auto last = std::upper_bound(first, ranges_.end(), end,
                                 [](int64_t x, const Range& r) { return x < r.start; });
    if (first == last) {
      ranges_.insert(first, {start, end});
      return;
    }
    *first = {std::min(start, first->start), std::max(end, (last - 1)->end)};
    ranges_.erase(first + 1, last);
  }

  // Where the first range that overlaps [start, end) ends, or -1.
  int64_t end_of_block(int64_t start, int64_t end) const {
    auto at = std::upper_bound(ranges_.begin(), ranges_.end(), start,
                               [](int64_t x, const Range& r) { return x < r.end; });
    return at != ranges_.end() && at->start < end ? at->end : -1;
  }

  int64_t top() const { return ranges_.empty() ? 0 : ranges_.back().end; }

 private:
  std::vector<Range> ranges_;
};

// The ranges of bytes that are occupied over time, in a segment tree of sections.
struct OccupiedTree {
  explicit OccupiedTree(int64_t sections) {
    while (leaves < sections + 2) leaves *= 2;
    within.resize(2 * leaves);
    across.resize(2 * leaves);
  }

  // The nodes that make up sections first to stop, and their ancestors.
  void nodes(int64_t first, int64_t stop, std::vector<int64_t>& inside,
             std::vector<int64_t>& around) const {
    inside.clear();
    around.clear();
    int64_t left = first + leaves, right = stop + 1 + leaves;
    bool from_left = false, from_right = false;
    while ((left ^ right) != 1) {
      if (!(left & 1)) inside.push_back(left ^ 1), from_left = true;
      if (right & 1) inside.push_back(right ^ 1), from_right = true;
      left >>= 1;
      right >>= 1;
      if (from_left) around.push_back(left);
      if (from_right) around.push_back(right);
    }
    while (left > 1) around.push_back(left >>= 1);
  }

  int64_t leaves = 2;
  std::vector<Ranges> within, across;
};

int64_t align(int64_t offset, int64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

int64_t first_fit(int64_t count, int64_t sections, const int64_t* first,
                  const int64_t* stop, const int64_t* sizes, const int64_t* alignments,
                  const int64_t* order, int64_t below, int64_t* probes, int64_t* offsets) {
  OccupiedTree tree(sections);
  std::vector<int64_t> inside, around;
  std::vector<const Ranges*> occupied;
  int64_t height = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t index = order[i], size = sizes[index];
    tree.nodes(first[index], stop[index], inside, around);
    occupied.clear();
    for (int64_t node : inside) occupied.push_back(&tree.within[node]);
    for (int64_t node : around) occupied.push_back(&tree.across[node]);
    int64_t offset = 0;
    for (size_t at = 0, clear = 0; clear < occupied.size();) {
      if (*probes == 0) {
        int64_t top = 0;
        for (const Ranges* ranges : occupied) top = std::max(top, ranges->top());
        offset = align(top, alignments[index]);
        break;
      }
      --*probes;
      const int64_t end = occupied[at]->end_of_block(offset, offset + size);
      if (end < 0) {
        ++clear;
        if (++at == occupied.size()) at = 0;
      } else {
        offset = align(end, alignments[index]);
        clear = 0;
      }
    }
    height = std::max(height, offset + size);
    if (height >= below) return -1;
    offsets[index] = offset;
    for (int64_t node : inside) {
      tree.across[node].add(offset, offset + size);
      tree.within[node].add(offset, offset + size);
    }
    for (int64_t node : around) tree.within[node].add(offset, offset + size);
  }
  return height;
}

}  // namespace

// Sets offsets, counts probes down, and returns the height; -1 if the height would not be
// below that many bytes, -2 if there is too little memory.
extern "C" int64_t wrapperir_first_fit(int64_t count, int64_t sections,
                                       const int64_t* first, const int64_t* stop,
                                       const int64_t* sizes,
                                       const int64_t* alignments, const int64_t* order,
                                       int64_t below, int64_t* probes, int64_t* offsets) {
  try {
    return first_fit(count, sections, first, stop, sizes, alignments, order, below, probes,
                     offsets);
  } catch (const std::bad_alloc&) {
    return -2;
  }
}
