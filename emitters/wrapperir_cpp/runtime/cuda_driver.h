// Calls of the CUDA driver, whose errors are failures of a line.
#pragma once

#include "driver_functions.h"

namespace wrapperir {

// The driver; throws Failure if there is none.
const Driver& cuda_driver(int line);
// Throw Failure with the driver's message for an error.
[[noreturn]] void fail_in_cuda(CUresult error, int line, const char* what);

inline void check_cuda(CUresult error, int line, const char* what) {
  if (__builtin_expect(error != 0, 0)) fail_in_cuda(error, line, what);
}

// Make a device's context current in this thread, unless it has one.
void ensure_context(int32_t index, int line);

}  // namespace wrapperir
