// Launches of Triton kernels: loading their code, and passing arguments as Triton does. The
// driver encodes descriptors, or they are passed in parts.
#include <stdio.h>

#include <cmath>
#include <mutex>
#include <string>
#include <vector>

#include "cuda.h"
#include "cuda_driver.h"
#include "descriptor_parts.h"
#include "program.h"
#include "special_launches.h"

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

// The variant to launch: 1 if all checked addresses are multiples of 16.
int variant_of(const TritonKernel& kernel, void** parameters) {
  if (!kernel.checked) return 0;
  uintptr_t all = 0;
  for (uint64_t left = kernel.checked; left; left &= left - 1)
    all |= *static_cast<uintptr_t*>(parameters[__builtin_ctzll(left)]);
  return all % 16 == 0;
}

// Replace descriptors by their parts, among `count` parameters and two for scratch memory.
void expand_descriptors(
    const TritonKernel& kernel, const TritonBinary& binary, void** parameters, int count,
    std::vector<DescriptorParts>& parts, std::vector<void*>& expanded, int line) {
  parts.resize(__builtin_popcountll(kernel.descriptors));
  size_t number = 0;
  for (int i = 0; i < count + 2; ++i) {
    if (i >= count || !(kernel.descriptors >> i & 1)) {
      expanded.push_back(parameters[i]);
      continue;
    }
    const auto& given = *static_cast<const Descriptor*>(parameters[i]);
    const TensorMap* map = binary.maps ? &binary.maps[number] : nullptr;
    const std::string problem = descriptor_problem(given);
    if (!problem.empty()) fail(line, "%s: %s", kernel.name, problem.c_str());
    const Driver& driver = cuda_driver(line);
    if (map && !driver.cuTensorMapEncodeTiled)
      fail(line, "the CUDA driver is too old for tensor descriptors");
    check_cuda(
        expand_descriptor(driver, given, map, binary.flags, parts[number++], expanded), line,
        "encoding a tensor descriptor");
  }
}

}  // namespace

Descriptor describe(
    char* base, int64_t item_bytes, const Ints& sizes, const Ints& strides) {
  Descriptor made = {base, item_bytes, sizes.count, {}, {}};
  for (int64_t i = 0; i < sizes.count; ++i) {
    made.sizes[i] = sizes.data[i];
    made.strides[i] = strides.data[i];
  }
  return made;
}

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
          line, "%s has %lld programs along %c, and at most %lld are possible",
          kernel.name, shown(extents[i]), "xyz"[i],
          shown(most_programs_along[i] / factor));
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
  const LaunchKind kind = {binary.cluster, binary.is_cooperative, binary.is_dependent};
  const Driver& driver = cuda_driver(line);
  if (!kind.is_plain() && !driver.cuLaunchKernelEx)
    fail(line, "the CUDA driver is too old for a kernel");
  const CUresult error =
      kind.is_plain() ? driver.cuLaunchKernel(
                            loaded->function, programs[0], programs[1], programs[2],
                            binary.threads, 1, 1, binary.shared_bytes, on, parameters, nullptr)
                      : launch_with_attributes(
                            driver, kind, loaded->function, programs, binary.threads,
                            binary.shared_bytes, on, parameters);
  if (scratch) call.drop_scratch(scratch, stream);
  check_cuda(error, line, kernel.name);
}

uint16_t half_bits(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double size = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  // Rounding up to the next power of two carries into the exponent.
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
