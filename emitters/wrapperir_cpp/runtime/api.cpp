// The C interface: opening a program with its constants, and errors as messages.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "program.h"

using namespace wrapperir;

extern "C" {
uint64_t aoti_torch_abi_version();
// Defined with kernels: the name of a feature that they use and the processor lacks.
__attribute__((weak)) const char* processor_lacks();
int32_t aoti_torch_layout_strided();
// Since PyTorch 2.11.
__attribute__((weak)) AOTITorchError torch_from_blob(
    void*, int64_t, const int64_t*, const int64_t*, int64_t, int32_t, int32_t, int32_t,
    AtenTensorHandle*, int32_t, const uint8_t*, int64_t, void (*)(void*, void*), void*);
}

namespace {

// PyTorch keeps its interface within a release; its two highest bytes are the release.
void check_machine() {
  uint64_t version = aoti_torch_abi_version();
  int major = static_cast<int>(version >> 56), minor = static_cast<int>(version >> 48 & 0xff);
  if (major != WRAPPERIR_TORCH_MAJOR || minor != WRAPPERIR_TORCH_MINOR)
    fail(
        -1, "the library was built for PyTorch %d.%d, and this is %d.%d",
        WRAPPERIR_TORCH_MAJOR, WRAPPERIR_TORCH_MINOR, major, minor);
  const char* missing = processor_lacks ? processor_lacks() : nullptr;
  if (missing) fail(-1, "the kernels use %s, which this processor lacks", missing);
}

// A file mapped to memory; pages are copied when they are written to.
class Mapping {
 public:
  explicit Mapping(const std::string& path) {
    int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat found;
    const bool is_read = file >= 0 && !fstat(file, &found);
    size_ = is_read ? static_cast<int64_t>(found.st_size) : 0;
    void* base = nullptr;
    if (size_) base = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    const int error = errno;
    if (file >= 0) close(file);
    if (!is_read || base == MAP_FAILED)
      fail(-1, "%s cannot be read: %s", path.c_str(), strerror(error));
    base_ = static_cast<char*>(base);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (base_) munmap(base_, size_);
  }

  char* base() const { return base_; }
  int64_t size() const { return size_; }

 private:
  char* base_ = nullptr;
  int64_t size_ = 0;
};

using SharedMapping = std::shared_ptr<Mapping>;

void drop_mapping(void*, void* held) { delete static_cast<SharedMapping*>(held); }

// A tensor in the mapping. An output may share its memory and outlive the program, so the
// mapping ends with the last such tensor, or never if PyTorch has no torch_from_blob.
Tensor map_constant(const ConstantFact& fact, const SharedMapping& mapping) {
  static char nowhere[64];
  const TensorFact& type = fact.type;
  char* data = fact.bytes ? mapping->base() + fact.begin : nowhere;
  const int32_t dtype = torch_dtype(type.dtype), cpu = torch_device(Device::cpu);
  auto held = new SharedMapping(mapping);
  Tensor made;
  check(
      torch_from_blob
          ? torch_from_blob(
                data, type.ndim, type.sizes, type.strides, 0, dtype, cpu, -1, made.out(),
                aoti_torch_layout_strided(), nullptr, 0, drop_mapping, held)
          : aoti_torch_create_tensor_from_blob(
                data, type.ndim, type.sizes, type.strides, 0, dtype, cpu, 0, made.out()),
      -1);
  return made;
}

// The tensor of a constant: memory of the mapping, or a copy of it on another device.
Tensor make_constant(const ConstantFact& fact, const SharedMapping& mapping) {
  const TensorFact& type = fact.type;
  Tensor made = map_constant(fact, mapping);
  if (type.device == Device::cpu) return made;
  Tensor copy;
  check(
      aoti_torch_empty_strided(
          type.ndim, type.sizes, type.strides, torch_dtype(type.dtype),
          torch_device(type.device), type.index, copy.out()),
      -1);
  check(aoti_torch_copy_(copy.get(), made.get(), 0), -1);
  return copy;
}

void check_constant(const ConstantFact& fact, const Mapping& mapping, const char* path) {
  if (fact.bytes < 0)
    fail(
        -1, "constant %s has no fixed size: open the program with constants of your own",
        fact.key);
  if (fact.begin > mapping.size() || fact.bytes > mapping.size() - fact.begin)
    fail(
        -1, "%s has %lld bytes, too few for constant %s", path,
        shown(mapping.size()), fact.key);
}

// The program takes the handles, even if it cannot be opened.
wrapperir_program* open_with(std::vector<Tensor>& constants) {
  std::vector<AtenTensorHandle> handles;
  handles.reserve(constants.size());
  for (Tensor& constant : constants) handles.push_back(constant.release());
  return new wrapperir_program(wrapperir_description, std::move(handles));
}

std::string find_folder() {
  Dl_info found;
  std::string path = ".";
  if (dladdr(reinterpret_cast<void*>(&find_folder), &found) && found.dli_fname) {
    path = found.dli_fname;
    size_t slash = path.rfind('/');
    path = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  }
  // Links are resolved for the folder only: the library and its files may be links.
  char* whole = realpath(path.c_str(), nullptr);
  if (whole) path = whole;
  free(whole);
  return path;
}

const std::string folder = find_folder();

}  // namespace

const std::string& wrapperir::own_folder() { return folder; }

int wrapperir_open(const char* directory, wrapperir_program** program) {
  *program = nullptr;
  return guarded([&] {
    check_machine();
    std::vector<Tensor> constants;
    if (wrapperir_description.constant_count) {
      std::string path = std::string(directory) + "/constants.bin";
      auto mapping = std::make_shared<Mapping>(path);
      in_new_thread([&] {
        for (int64_t i = 0; i < wrapperir_description.constant_count; ++i) {
          const ConstantFact& fact = wrapperir_description.constants[i];
          check_constant(fact, *mapping, path.c_str());
          constants.push_back(make_constant(fact, mapping));
        }
      });
    }
    *program = open_with(constants);
  });
}

int64_t wrapperir_constant_count(void) { return wrapperir_description.constant_count; }

const char* wrapperir_constant_key(int64_t index) {
  return wrapperir_description.constants[index].key;
}

int wrapperir_open_with(
    const wrapperir_tensor* constants, int64_t count, wrapperir_program** program) {
  *program = nullptr;
  return guarded([&] {
    check_machine();
    if (count != wrapperir_description.constant_count)
      fail(
          -1, "%lld constant%s needed, %lld given", shown(wrapperir_description.constant_count),
          wrapperir_description.constant_count == 1 ? "" : "s", shown(count));
    std::vector<Tensor> handles(count);
    for (int64_t i = 0; i < count; ++i)
      check(aoti_torch_new_tensor_handle(constants[i], handles[i].out()), -1);
    *program = open_with(handles);
  });
}

int wrapperir_run(
    wrapperir_program* program, wrapperir_value* inputs, int64_t input_count,
    wrapperir_value* outputs, int64_t output_count) {
  return guarded([&] { program->run(inputs, input_count, outputs, output_count); });
}

int64_t wrapperir_input_count(const wrapperir_program* program) {
  return program->description.input_count;
}

int64_t wrapperir_output_count(const wrapperir_program* program) {
  return program->description.output_count;
}

int64_t wrapperir_input_kind(const wrapperir_program* program, int64_t index) {
  return program->description.inputs[index].kind;
}

int wrapperir_refuse_input(
    const wrapperir_program* program, int64_t index, const char* needed) {
  return guarded([&] { refuse_input(program->description.inputs[index], needed); });
}

int wrapperir_input_is_mutated(const wrapperir_program* program, int64_t index) {
  return program->description.inputs[index].is_mutated;
}

int64_t wrapperir_timed_count(void) { return wrapperir_description.timed_count; }

const char* wrapperir_timed_name(int64_t index) {
  return wrapperir_description.timed[index]->name;
}

const char* wrapperir_timed_choice(int64_t index) {
  const Fastest& timed = *wrapperir_description.timed[index];
  const int32_t choice = __atomic_load_n(&timed.choice, __ATOMIC_RELAXED);
  return choice < 0 ? nullptr : timed.kernels[choice];
}

int wrapperir_drop_recordings(wrapperir_program* program) {
  return guarded([&] { program->drop_recordings(); });
}

int wrapperir_close(wrapperir_program* program) {
  return guarded([&] { delete program; });
}

const char* wrapperir_error(void) { return error_message(); }
