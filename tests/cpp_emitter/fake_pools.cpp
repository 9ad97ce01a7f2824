// graph_pools.so without a GPU: what captures allocate is the host's, and calls are logged.
#include <stdint.h>

void note(const char* format, ...);  // of fake_cuda.cpp

extern "C" const char* wrapperir_begin_pool(int32_t device, uint64_t) {
  note("begin pool of %d", device);
  return nullptr;
}
extern "C" const char* wrapperir_end_pool(int32_t device, uint64_t) {
  note("end pool of %d", device);
  return nullptr;
}
extern "C" const char* wrapperir_release_pool(int32_t device, uint64_t) {
  note("release pool of %d", device);
  return nullptr;
}
