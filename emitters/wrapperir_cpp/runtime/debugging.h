// Addresses that debuggers find by the names of values; programs with debug information.
#pragma once

#include "runtime.h"

namespace wrapperir {

// An address in a tensor's data, null for a tensor without data.
inline char* wrapperir_data(AtenTensorHandle tensor, int64_t bytes = 0) {
  void* data = nullptr;
  if (tensor) aoti_torch_get_data_ptr(tensor, &data);
  return data ? static_cast<char*>(data) + bytes : nullptr;
}

}  // namespace wrapperir
