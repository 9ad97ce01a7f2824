// Launches of Triton kernels: loading their code, and passing arguments as Triton does. The
// driver encodes descriptors, or they are passed in parts.
#include <stdio.h>

#include <cmath>
#include <mutex>
#include <string>
#include <vector>

#include "cuda.h"
#include "cuda_driver.h"
#include "program.h"

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

// Launch with attributes, by a slower function of the driver.
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

// The variant to launch: 1 if all checked addresses are multiples of 16.
int variant_of(const TritonKernel& kernel, void** parameters) {
  if (!kernel.checked) return 0;
  uintptr_t all = 0;
  for (uint64_t left = kernel.checked; left; left &= left - 1)
    all |= *static_cast<uintptr_t*>(parameters[__builtin_ctzll(left)]);
  return all % 16 == 0;
}

constexpr int64_t descriptor_alignment = 16;
constexpr int64_t largest_size = (int64_t{1} << 31) - 1;
constexpr int promotion_of_128_bytes = 2;
// Up to this driver, small tensors need a bit of the descriptor cleared.
constexpr int last_driver_with_bit = 13010;
constexpr uint64_t small_tensor_bytes = 128 * 1024;
constexpr uint64_t small_tensor_bit = uint64_t{1} << 21;

void check_descriptor(const Descriptor& given, const char* name, int line) {
  if (reinterpret_cast<uintptr_t>(given.base) % descriptor_alignment)
    fail(line, "%s: the address of a tensor descriptor is not a multiple of 16", name);
  for (int64_t i = 0; i < given.rank; ++i) {
    if (given.sizes[i] < 1 || given.sizes[i] > largest_size)
      fail(line, "%s: a tensor descriptor cannot have a size of %lld", name, shown(given.sizes[i]));
    if (i + 1 < given.rank && given.strides[i] * given.item_bytes % descriptor_alignment)
      fail(
          line, "%s: a stride of a tensor descriptor is not a multiple of 16 bytes: %lld", name,
          shown(given.strides[i]));
  }
  if (given.strides[given.rank - 1] != 1)
    fail(line, "%s: the last stride of a tensor descriptor is not 1", name);
}

void encode(const Descriptor& given, const TensorMap& map, uint64_t* result, int line) {
  const Driver& driver = cuda_driver(line);
  if (!driver.cuTensorMapEncodeTiled)
    fail(line, "the CUDA driver is too old for tensor descriptors");
  // The driver counts dimensions from the last, and strides in bytes.
  const int64_t rank = given.rank;
  uint64_t sizes[most_dimensions];
  uint64_t strides[most_dimensions];
  uint32_t block[most_dimensions];
  uint64_t reach = 0;
  for (int64_t i = 0; i < rank; ++i) {
    sizes[rank - i - 1] = given.sizes[i];
    block[rank - i - 1] = map.block[i];
    const uint64_t step = i + 1 < rank ? given.strides[i] * map.item_bytes : map.item_bytes;
    if (i + 1 < rank) strides[rank - i - 2] = step;
    reach += (given.sizes[i] - 1) * step;
  }
  strides[rank - 1] = sizes[rank - 1] * (rank == 1 ? map.item_bytes : strides[rank - 2]);
  constexpr uint32_t steps[] = {1, 1, 1, 1, 1};
  check_cuda(
      driver.cuTensorMapEncodeTiled(
          result, map.type, static_cast<uint32_t>(rank), given.base, sizes, strides, block,
          steps, 0, map.swizzle, promotion_of_128_bytes, 0),
      line, "encoding a tensor descriptor");
  int version = 0;
  check_cuda(driver.cuDriverGetVersion(&version), line, "asking for the driver's version");
  if (version <= last_driver_with_bit && reach + 1 < small_tensor_bytes)
    result[1] &= ~small_tensor_bit;
}

// The parameters of a launch that stand for one descriptor.
struct DescriptorParts {
  alignas(64) uint64_t map[16];
  char* base;
  int64_t sizes[most_dimensions];
  int64_t strides[most_dimensions];
  int32_t short_sizes[most_dimensions];
  bool flag;
};

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
    DescriptorParts& part = parts[number++];
    check_descriptor(given, kernel.name, line);
    part.flag = false;
    if (map) {
      encode(given, *map, part.map, line);
      expanded.push_back(part.map);
    } else {
      part.base = given.base;
      expanded.push_back(&part.base);
    }
    for (int64_t j = 0; j < given.rank; ++j) {
      part.sizes[j] = given.sizes[j];
      part.strides[j] = given.strides[j];
      part.short_sizes[j] = static_cast<int32_t>(given.sizes[j]);
    }
    if (!map) {
      for (int64_t j = 0; j < given.rank; ++j) expanded.push_back(&part.sizes[j]);
      for (int64_t j = 0; j < given.rank; ++j) expanded.push_back(&part.strides[j]);
      for (int32_t j = 0; j < binary.flags; ++j) expanded.push_back(&part.flag);
    }
    for (int64_t j = 0; j < given.rank; ++j) expanded.push_back(&part.short_sizes[j]);
    for (int64_t j = 0; j < given.rank; ++j) expanded.push_back(&part.strides[j]);
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
