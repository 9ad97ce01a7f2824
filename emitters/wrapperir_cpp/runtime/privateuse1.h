// Devices of PyTorch's type PrivateUse1: those of the backend that this process has registered.
#pragma once

#include "device.h"

namespace wrapperir {

// PyTorch's guard and allocator of the backend, behind its C++ interface.
extern const DeviceFunctions privateuse1_functions;

// PyTorch's number of a stream of these functions.
int64_t stream_id(void* stream);

}  // namespace wrapperir
