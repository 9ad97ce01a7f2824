// Timing the choices of a multi-kernel: the same on any device.
#pragma once

#include "choices.h"

namespace wrapperir {

// Where choices are timed.
class TrialDevice {
 public:
  virtual ~TrialDevice() = default;
  // Memory at an address like `address`, as far as alignment goes; it goes with the device.
  virtual char* allocate_like(const char* address, int64_t bytes) = 0;
  virtual void copy(char* to, const char* from, int64_t bytes) = 0;
  // Have a choice ready to be timed: load it, and wait for what is running.
  virtual void prepare(const Launch& launch, int32_t choice, char* const* addresses) = 0;
  // The microseconds of a launch: the mean of `repeats`.
  virtual double time(
      const Launch& launch, int32_t choice, char* const* addresses, int repeats) = 0;
  // As many launches as are timed at once where it is allowed and they are short.
  virtual int most_repeats() const = 0;
};

// As time_choices().
int32_t time_choices_on(
    TrialDevice& device, Fastest& of, const Argument* given, int32_t count,
    const Launch& launch);

}  // namespace wrapperir
