// Timing the choices of a multi-kernel: the same on any device.
#pragma once

#include "choices.h"

namespace wrapperir {

// Addresses of copies are those of the originals modulo this: alike in their alignment, and
// in where they fall into pages and caches.
constexpr uintptr_t alike_modulo = 64 * 1024;

// Where choices are timed.
class TrialDevice {
 public:
  virtual ~TrialDevice() = default;
  // Memory at an address that is alike to `address`; it goes with the device.
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

// Whether a tensor has no elements: such a call tells nothing of later ones with some.
bool is_any_empty(const Argument* given, int32_t count);

// As time_choices().
int32_t time_choices_on(
    TrialDevice& device, Fastest& of, const Argument* given, int32_t count,
    const Launch& launch);

}  // namespace wrapperir
