// Finds the CUDA driver.
#include "cuda_driver.h"

#include <dlfcn.h>

#include "runtime.h"

namespace wrapperir {
namespace {

template <typename F>
bool find(void* library, const char* name, F*& function) {
  function = reinterpret_cast<F*>(dlsym(library, name));
  return function;
}

Driver find_driver(int line) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) fail(line, "there is no CUDA driver: %s", dlerror());
  Driver driver;
  const char* missing = nullptr;
#define FIND(name, ...) find(library, #name, driver.name);
#define NEED(name, ...) \
  if (!find(library, #name, driver.name)) missing = #name;
  WRAPPERIR_DRIVER(NEED)
  WRAPPERIR_NEW_DRIVER(FIND)
  if (missing) fail(line, "the CUDA driver has no %s", missing);
  return driver;
}

}  // namespace

const Driver& cuda_driver(int line) {
  static const Driver driver = find_driver(line);
  return driver;
}

void fail_in_cuda(CUresult error, int line, const char* what) {
  const Driver& driver = cuda_driver(line);
  const char* name = nullptr;
  const char* text = nullptr;
  driver.cuGetErrorName(error, &name);
  driver.cuGetErrorString(error, &text);
  fail(
      line, "%s failed: %s (%s, %d)", what, text ? text : "the driver does not say why",
      name ? name : "an unknown error", error);
}

void ensure_context(int32_t index, int line) {
  const Driver& driver = cuda_driver(line);
  CUcontext context = nullptr;
  check_cuda(driver.cuCtxGetCurrent(&context), line, "asking for the context");
  if (context) return;
  CUdevice device = 0;
  check_cuda(driver.cuDeviceGet(&device, index), line, "asking for the device");
  check_cuda(driver.cuDevicePrimaryCtxRetain(&context, device), line, "making the context");
  check_cuda(driver.cuCtxSetCurrent(context), line, "setting the context");
}

}  // namespace wrapperir
