// Launches of C++ kernels on the simulated accelerator, for emitted programs.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

#include "privateuse1.h"

namespace sim {

void enqueue(int64_t stream, std::function<void()> work);
void* in_kernels(void* address);
template <typename T>
T seen(T number) { return number; }
inline void* seen(char* address) { return in_kernels(address); }

// Run a kernel on a stream; addresses among the arguments are the host's of the device.
template <typename... Parameters, typename... Arguments>
void launch(
    void* stream, const char* name, void (*kernel)(Parameters...), Arguments... arguments) {
  enqueue(wrapperir::stream_id(stream), [=] {
    try {
      kernel(seen(arguments)...);
    } catch (int check) {
      throw std::runtime_error("check " + std::to_string(check) + " of " + name + " failed");
    }
  });
}

}  // namespace sim
