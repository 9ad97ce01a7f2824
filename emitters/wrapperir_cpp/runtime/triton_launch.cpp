// Launches of Triton kernels: loading their code, and Triton's own way of passing arguments.
#include <stdio.h>

#include <cmath>
#include <mutex>
#include <string>
#include <vector>

#include "cuda.h"
#include "cuda_driver.h"
#include "own_folder.h"
#include "triton_descriptors.h"

namespace wrapperir {

struct LoadedKernel {
  CUfunction function;
  const TritonBinary* binary;
};

namespace {

constexpr uint32_t shared_without_asking = 48 * 1024;
constexpr uint32_t largest_portable_cluster = 8;
constexpr int64_t most_programs_along[] = {2147483647, 65535, 65535};

std::mutex loading;

std::string read_file(const std::string& path, int line) {
  FILE* file = fopen(path.c_str(), "rb");
  if (!file) fail(line, "a kernel's code cannot be read: %s", path.c_str());
  std::string content;
  char part[65536];
  size_t count = 0;
  while ((count = fread(part, 1, sizeof(part), file)) > 0) content.append(part, count);
  fclose(file);
  return content;
}

int32_t capability_of(int32_t index, int line) {
  const Driver& driver = cuda_driver(line);
  CUdevice device = 0;
  int major = 0;
  int minor = 0;
  const char* what = "asking for the compute capability";
  check_cuda(driver.cuDeviceGet(&device, index), line, what);
  check_cuda(driver.cuDeviceGetAttribute(&major, capability_major, device), line, what);
  check_cuda(driver.cuDeviceGetAttribute(&minor, capability_minor, device), line, what);
  return major * 10 + minor;
}

const TritonBinary& choose(
    const TritonKernel& kernel, bool is_aligned, int32_t capability, int line) {
  const TritonBinary* best = nullptr;
  std::string known;
  for (int32_t i = 0; i < kernel.count; ++i) {
    const TritonBinary& binary = kernel.binaries[i];
    if (binary.is_aligned != is_aligned) continue;
    known += (known.empty() ? "" : ", ") + std::to_string(binary.capability / 10) + "." +
             std::to_string(binary.capability % 10);
    bool runs = binary.is_exact ? binary.capability == capability
                                : binary.capability / 10 == capability / 10 &&
                                      binary.capability <= capability;
    if (runs && (!best || binary.capability > best->capability)) best = &binary;
  }
  if (!best)
    fail(
        line, "%s is not compiled for compute capability %d.%d: it is for %s", kernel.name,
        capability / 10, capability % 10, known.empty() ? "none" : known.c_str());
  return *best;
}

LoadedKernel* load(TritonKernel& kernel, bool is_aligned, int32_t index, int line) {
  std::lock_guard<std::mutex> lock(loading);
  LoadedKernel*& kept = kernel.loaded[index][is_aligned];
  if (kept) return kept;
  const Driver& driver = cuda_driver(line);
  const TritonBinary& binary =
      choose(kernel, is_aligned, capability_of(index, line), line);
  const std::string code = read_file(own_folder() + "/" + binary.file, line);
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  check_cuda(driver.cuModuleLoadData(&module, code.data()), line, "loading a kernel");
  check_cuda(
      driver.cuModuleGetFunction(&function, module, binary.function), line,
      "finding a kernel");
  if (binary.shared_bytes > shared_without_asking) {
    CUdevice device = 0;
    int most = 0;
    check_cuda(driver.cuDeviceGet(&device, index), line, "asking for the device");
    check_cuda(
        driver.cuDeviceGetAttribute(&most, most_shared_bytes, device), line,
        "asking for the shared memory");
    if (binary.shared_bytes > static_cast<uint32_t>(most))
      fail(
          line, "%s needs %u bytes of shared memory, and the device has %d", kernel.name,
          binary.shared_bytes, most);
    check_cuda(
        driver.cuFuncSetAttribute(
            function, function_dynamic_shared_bytes,
            static_cast<int>(binary.shared_bytes)),
        line, "setting the shared memory");
  }
  if (binary.cluster > largest_portable_cluster)
    check_cuda(
        driver.cuFuncSetAttribute(function, function_any_cluster, 1), line,
        "setting the cluster");
  auto loaded = new LoadedKernel{function, &binary};
  __atomic_store_n(&kept, loaded, __ATOMIC_RELEASE);
  return loaded;
}

// With attributes there is another function of the driver's, which costs more.
CUresult launch_with_attributes(
    const LoadedKernel& kernel, const unsigned* grid, CUstream stream, void** parameters,
    int line) {
  const TritonBinary& binary = *kernel.binary;
  LaunchAttribute attributes[4] = {};
  unsigned count = 0;
  if (binary.is_dependent) {
    attributes[count].id = LaunchAttribute::dependent;
    attributes[count++].value = 1;
  }
  if (binary.is_cooperative) {
    attributes[count].id = LaunchAttribute::cooperative;
    attributes[count++].value = 1;
  }
  if (binary.cluster > 1) {
    attributes[count].id = LaunchAttribute::cluster;
    attributes[count].extents[0] = binary.cluster;
    attributes[count].extents[1] = attributes[count].extents[2] = 1;
    ++count;
    attributes[count].id = LaunchAttribute::cluster_policy;
    attributes[count++].value = 1;  // spread
  }
  const Driver& driver = cuda_driver(line);
  if (!driver.cuLaunchKernelEx) fail(line, "the CUDA driver is too old for a kernel");
  LaunchConfig config = {
      {grid[0], grid[1], grid[2]},
      {binary.threads, 1, 1},
      binary.shared_bytes,
      stream,
      attributes,
      count};
  return driver.cuLaunchKernelEx(&config, kernel.function, parameters, nullptr);
}

// The variant to launch: 1 where the addresses that it depends on are multiples of 16.
int variant_of(const TritonKernel& kernel, void** parameters) {
  if (!kernel.checked) return 0;
  uintptr_t all = 0;
  for (uint64_t left = kernel.checked; left; left &= left - 1)
    all |= *static_cast<uintptr_t*>(parameters[__builtin_ctzll(left)]);
  return all % 16 == 0;
}

}  // namespace

void launch_packed(
    int line, TritonKernel& kernel, DeviceCall& call, int stream, const Grid& grid,
    void** parameters, int count) {
  const int64_t extents[] = {grid.x, grid.y, grid.z};
  for (int64_t extent : extents)
    if (extent <= 0) return;
  const int variant = variant_of(kernel, parameters);
  const int32_t index = call.index();
  LoadedKernel* loaded = __atomic_load_n(&kernel.loaded[index][variant], __ATOMIC_ACQUIRE);
  if (!loaded) loaded = load(kernel, variant, index, line);
  const TritonBinary& binary = *loaded->binary;
  unsigned programs[3];
  for (int i = 0; i < 3; ++i) {
    const int64_t factor = i ? 1 : binary.cluster;
    if (extents[i] > most_programs_along[i] / factor)
      fail(
          line, "%s has %lld programs along %c, more than the %lld that there may be",
          kernel.name, static_cast<long long>(extents[i]), "xyz"[i],
          static_cast<long long>(most_programs_along[i] / factor));
    programs[i] = static_cast<unsigned>(extents[i] * factor);
  }
  std::vector<void*> expanded;
  std::vector<DescriptorParts> parts;
  if (kernel.descriptors) {
    expand_descriptors(kernel, binary, parameters, count, parts, expanded, line);
    parameters = expanded.data();
    count = static_cast<int>(expanded.size()) - 2;
  }
  void* scratch = nullptr;
  if (binary.scratch_bytes) {
    uint64_t bytes = binary.scratch_bytes;
    for (unsigned extent : programs)
      if (__builtin_mul_overflow(bytes, uint64_t{extent}, &bytes))
        fail(line, "%s needs too much memory for its programs", kernel.name);
    scratch = call.scratch(bytes, stream, line);
    *static_cast<void**>(parameters[count]) = scratch;
  }
  const CUstream on = call.stream(stream);
  const bool is_plain = binary.cluster == 1 && !binary.is_cooperative && !binary.is_dependent;
  const CUresult error =
      is_plain ? cuda_driver(line).cuLaunchKernel(
                     loaded->function, programs[0], programs[1], programs[2], binary.threads,
                     1, 1, binary.shared_bytes, on, parameters, nullptr)
               : launch_with_attributes(*loaded, programs, on, parameters, line);
  if (scratch) call.drop_scratch(scratch, stream);
  check_cuda(error, line, kernel.name);
}

uint16_t half_bits(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double size = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  // What rounds up to the next power of two carries into the exponent.
  const int exponent = size < 0x1p-14 ? -14 : std::ilogb(size);
  const int units = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  return static_cast<uint16_t>(sign | (((exponent + 14) << 10) + units));
}

uint16_t bfloat16_bits(double value) {
  const float narrowed = static_cast<float>(value);
  uint32_t bits = 0;
  memcpy(&bits, &narrowed, sizeof(bits));
  return static_cast<uint16_t>(bits >> 16);
}

}  // namespace wrapperir
