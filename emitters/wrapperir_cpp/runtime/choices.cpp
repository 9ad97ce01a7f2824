// Times the choices of multi-kernels.
#include "choices.h"

#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "program.h"

namespace wrapperir {
namespace {

using Clock = std::chrono::steady_clock;

// In microseconds; the budget counts after the first run of each choice.
constexpr double budget = 100e3;
constexpr double long_enough = 20;  // time of a launch that is timed alone
constexpr double long_run = 10e3;   // one run shows that it is much slower than others
constexpr double too_long = 2e6;    // not run again, even if only the start was slow
constexpr double much_faster = 10;
constexpr double surely_faster = 1.5;  // after sure_rounds
constexpr int sure_rounds = 5;
constexpr int most_rounds = 50;

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

class OnCpu : public TrialDevice {
 public:
  ~OnCpu() override {
    for (void* memory : allocated_) free(memory);
  }
  char* allocate_like(const char* address, int64_t bytes) override {
    const size_t step = reinterpret_cast<uintptr_t>(address) % alike_modulo;
    void* memory = nullptr;
    if (posix_memalign(&memory, alike_modulo, step + bytes)) throw Failure();
    allocated_.push_back(memory);
    return static_cast<char*>(memory) + step;
  }
  void copy(char* to, const char* from, int64_t bytes) override { memcpy(to, from, bytes); }
  void prepare(const Launch&, int32_t, char* const*) override {}
  double time(
      const Launch& launch, int32_t choice, char* const* addresses, int repeats) override {
    const auto begin = Clock::now();
    for (int i = 0; i < repeats; ++i) launch.run(launch.state, choice, addresses);
    return microseconds_since(begin) / repeats;
  }
  int most_repeats() const override { return 256; }

 private:
  std::vector<void*> allocated_;
};

// Rounds of trials of all choices that may still be the fastest.
class Trials {
 public:
  Trials(
      TrialDevice& device, int32_t choices, const Argument* given, int32_t count,
      const Launch& launch)
      : device_(device), launch_(launch), given_(given, given + count), runs_(choices) {
    for (const Argument& argument : given_) {
      const bool is_copied = argument.use != Use::read && argument.bytes > 0;
      char* address = argument.address;
      if (is_copied) {
        address = device.allocate_like(argument.address, argument.bytes);
        device.copy(address, argument.address, argument.bytes);
      }
      has_state_ |= is_copied && argument.use == Use::read_write;
      addresses_.push_back(address);
    }
  }

  // The fastest choice; -1 if all fail.
  int32_t decide() {
    for (int32_t i = 0; i < size(); ++i) try_first(i);
    try_slow_again();
    drop_slower(much_faster, long_run);
    const auto begin = Clock::now();
    for (int round = 0; round < most_rounds && is_open(); ++round) {
      for (int32_t i = 0; i < size(); ++i)
        if (runs_[i].is_open) try_again(i);
      if (round >= sure_rounds) drop_slower(surely_faster, 0);
      if (microseconds_since(begin) > budget) break;
    }
    return best();
  }

 private:
  struct Run {
    bool is_open = true;
    bool has_time = false;
    double time = 0;
    int repeats = 1;
  };

  int32_t size() const { return static_cast<int32_t>(runs_.size()); }

  int32_t best() const {
    int32_t best = -1;
    for (int32_t i = 0; i < size(); ++i)
      if (runs_[i].has_time && (best < 0 || runs_[i].time < runs_[best].time)) best = i;
    return best;
  }

  bool is_open() const {
    return std::count_if(runs_.begin(), runs_.end(), [](auto& r) { return r.is_open; }) > 1;
  }

  void restore() {
    for (size_t i = 0; i < given_.size(); ++i)
      if (addresses_[i] != given_[i].address && given_[i].use == Use::read_write)
        device_.copy(addresses_[i], given_[i].address, given_[i].bytes);
  }

  void set_time(Run& run, double time) const {
    run.time = time;
    run.has_time = true;
    if (has_state_) return;
    const double wanted = long_enough / std::max(time, 0.01);
    run.repeats = std::clamp(static_cast<int>(wanted), 1, device_.most_repeats());
  }

  // The first run may take longer; its time counts if it is the only one.
  void try_first(int32_t i) {
    try {
      restore();
      device_.prepare(launch_, i, addresses_.data());
      restore();
      Run& run = runs_[i];
      set_time(run, device_.time(launch_, i, addresses_.data(), 1));
    } catch (...) {
      runs_[i] = {false};
    }
  }

  // The set-up in a first run may take long.
  void try_slow_again() {
    const double limit = slow_limit(much_faster, long_run);
    for (int32_t i = 0; i < size(); ++i)
      if (runs_[i].time > limit && runs_[i].time < too_long) try_again(i);
  }

  void try_again(int32_t i) {
    Run& run = runs_[i];
    try {
      if (has_state_) restore();
      const double time = device_.time(launch_, i, addresses_.data(), run.repeats);
      set_time(run, std::min(run.time, time));
    } catch (...) {
      run = {false};
    }
  }

  // A multiple of the fastest time, or a longer minimum.
  double slow_limit(double factor, double at_least) const {
    const int32_t fastest = best();
    return fastest < 0 ? at_least : std::max(runs_[fastest].time * factor, at_least);
  }

  void drop_slower(double factor, double at_least) {
    const double limit = slow_limit(factor, at_least);
    for (Run& run : runs_)
      if (run.time > limit) run.is_open = false;
  }

  TrialDevice& device_;
  const Launch& launch_;
  std::vector<Argument> given_;
  std::vector<char*> addresses_;
  std::vector<Run> runs_;
  bool has_state_ = false;
};

}  // namespace

int64_t spanned_bytes(const Ints& sizes, const Ints& strides, int64_t item_bytes) {
  int64_t last = 0;
  for (int64_t i = 0; i < sizes.count; ++i) {
    if (sizes.data[i] <= 0) return 0;
    last += (sizes.data[i] - 1) * strides.data[i];
  }
  return (last + 1) * item_bytes;
}

bool is_any_empty(const Argument* given, int32_t count) {
  return std::any_of(given, given + count, [](auto& of) { return of.bytes == 0; });
}

int32_t time_choices_on(
    TrialDevice& device, Fastest& of, const Argument* given, int32_t count,
    const Launch& launch) {
  int32_t open = choice_is_open;
  if (!__atomic_compare_exchange_n(
          &of.choice, &open, choice_is_timed, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    return std::max(open, 0);
  const std::string message = error_message();
  int32_t found = 0;
  try {
    found = Trials(device, of.count, given, count, launch).decide();
  } catch (...) {
    // Memory for the copies could not be allocated: the first choice is kept.
  }
  set_error_message(message.c_str());
  __atomic_store_n(&of.choice, found < 0 ? choice_is_open : found, __ATOMIC_RELAXED);
  return std::max(found, 0);
}

int32_t time_choices(
    Fastest& of, const Argument* given, int32_t count, const Launch& launch) {
  if (is_any_empty(given, count)) return 0;
  OnCpu device;
  return time_choices_on(device, of, given, count, launch);
}

}  // namespace wrapperir
