// Choices of multi-kernels: by the nearest hint, or the fastest of a timing.
#pragma once

#include "description.h"

namespace wrapperir {

// The sizes that a choice is for; a size of 0 counts as a half.
template <int N>
struct Hint {
  int32_t choice;
  double sizes[N];
};

// The choice of the first hint at the least distance. The distance is the sum of
// |log2(size / hint)|, compared by its power of two: a product in binary64, from the left, as in
// wrapperir.ir.selection.
template <int N, int Count>
int32_t nearest_of(const Hint<N> (&hints)[Count], const int64_t (&sizes)[N]) {
  double given[N];
  for (int i = 0; i < N; ++i) given[i] = sizes[i] ? static_cast<double>(sizes[i]) : 0.5;
  int32_t best = hints[0].choice;
  double least = __builtin_inf();
  for (const Hint<N>& hint : hints) {
    double ratio = 1;
    for (int i = 0; i < N; ++i) {
      const double size = given[i], hinted = hint.sizes[i];
      ratio *= size > hinted ? size / hinted : hinted / size;
    }
    if (ratio < least) {
      least = ratio;
      best = hint.choice;
    }
  }
  return best;
}

// The same for one call. `recent` holds the last sizes of the call, then their choice plus one,
// which is 0 before the first call.
template <int N, int Count>
inline int32_t nearest(
    const Hint<N> (&hints)[Count], const int64_t (&sizes)[N], int64_t* recent) {
  bool is_same = recent[N];
  for (int i = 0; i < N; ++i) is_same &= recent[i] == sizes[i];
  if (__builtin_expect(!is_same, 0)) {
    for (int i = 0; i < N; ++i) recent[i] = sizes[i];
    recent[N] = nearest_of(hints, sizes) + 1;
  }
  return static_cast<int32_t>(recent[N] - 1);
}

// A kernel's access to an argument.
enum class Use : int32_t { read, write, read_write };

// A tensor that a kernel is timed with: the bytes from its first to its last element.
struct Argument {
  char* address;
  int64_t bytes;
  Use use;
};
int64_t spanned_bytes(const Ints& sizes, const Ints& strides, int64_t item_bytes);

// Launches a choice, with tensors at other addresses.
struct Launch {
  void* state;
  void (*run)(void* state, int32_t choice, char* const* addresses);
};
template <typename F>
inline Launch as_launch(F& function) {
  return {&function, [](void* state, int32_t choice, char* const* addresses) {
            (*static_cast<F*>(state))(choice, addresses);
          }};
}

// Time all choices on the CPU, and keep the fastest. Tensors that they may write are copied,
// again before each run if they also read them. Returns the choice to run now: the first if the
// choice stays open, as a tensor is empty, another thread is timing, or all choices failed.
int32_t time_choices(Fastest& of, const Argument* given, int32_t count, const Launch& launch);
template <int N, typename F>
inline int32_t time_choices(Fastest& of, const Argument (&given)[N], F& run_choice) {
  return time_choices(of, given, N, as_launch(run_choice));
}

// The fastest choice; `time` is called if it is not known.
template <typename Call>
inline int32_t choice_of(Fastest& of, int32_t (*time)(Call&), Call& c) {
  const int32_t choice = __atomic_load_n(&of.choice, __ATOMIC_RELAXED);
  return __builtin_expect(choice < 0, 0) ? time(c) : choice;
}

// Copies have the addresses of the originals modulo this: the same alignment, and the same place
// in pages and caches.
constexpr uintptr_t alike_modulo = 64 * 1024;

// A device on which choices are timed.
class TrialDevice {
 public:
  virtual ~TrialDevice() = default;
  // Memory at an address like `address`; it is freed with the device.
  virtual char* allocate_like(const char* address, int64_t bytes) = 0;
  virtual void copy(char* to, const char* from, int64_t bytes) = 0;
  // Load a choice, and wait for running work.
  virtual void prepare(const Launch& launch, int32_t choice, char* const* addresses) = 0;
  // The microseconds of a launch: the mean of `repeats`.
  virtual double time(
      const Launch& launch, int32_t choice, char* const* addresses, int repeats) = 0;
  // The most launches that are timed at once, if they are short.
  virtual int most_repeats() const = 0;
};

// Whether a tensor has no elements, so that times of the call say nothing of others.
bool is_any_empty(const Argument* given, int32_t count);

// As time_choices().
int32_t time_choices_on(
    TrialDevice& device, Fastest& of, const Argument* given, int32_t count,
    const Launch& launch);

}  // namespace wrapperir
