// What programs on the made-up device call.
#pragma once

#include <string.h>

#include <tuple>

#include "device.h"

extern "C" void acme_launch(void* stream, void (*run)(void*), void* state, const char* name);

namespace wrapperir {

extern const DeviceFunctions acme_functions;

// Launch a function with arguments; they are kept until it has run.
template <typename F, typename... Arguments>
void acme_run(void* stream, const char* name, F function, Arguments... arguments) {
  using State = std::tuple<F, std::tuple<Arguments...>>;
  auto run = [](void* given) {
    auto* state = static_cast<State*>(given);
    std::apply(std::get<0>(*state), std::get<1>(*state));
    delete state;
  };
  acme_launch(stream, run, new State(function, {arguments...}), name);
}

inline void acme_copy(void* stream, char* to, const char* from, int64_t bytes) {
  auto copy = [](char* a, const char* b, int64_t n) { memcpy(a, b, n); };
  acme_run(stream, "copy", copy, to, from, bytes);
}

}  // namespace wrapperir
