// Times host programs from C++; bench/host/cpp_harness.py compiles, loads and calls it.
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/inductor/aoti_torch/generated/c_shim_cpu.h>
#include <torch/csrc/inductor/aoti_torch/utils.h>

#include <ATen/ATen.h>
#include <dlfcn.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "wrapperir.h"

extern "C" void sgemm_(
    const char*, const char*, const int*, const int*, const int*, const float*,
    const float*, const int*, const float*, const int*, const float*, float*, const int*);

namespace {

using Tensors = std::vector<at::Tensor>;

constexpr int kSide = 8;
constexpr int64_t kSizes[] = {kSide, kSide};
constexpr int64_t kStrides[] = {kSide, 1};

std::string last_error;

AtenTensorHandle handle_of(at::Tensor& tensor) {
  return torch::aot_inductor::tensor_pointer_to_tensor_handle(&tensor);
}

void check(AOTITorchError error) {
  if (error != 0) throw std::runtime_error("a function of PyTorch's stable interface failed");
}

AtenTensorHandle new_matrix() {
  AtenTensorHandle made;
  check(aoti_torch_empty_strided(2, kSizes, kStrides, aoti_torch_dtype_float32(), 0, -1, &made));
  return made;
}

// out = a · b by BLAS, all in rows: to it they are transposed.
void multiply(const float* a, const float* b, float* out) {
  const float one = 1, zero = 0;
  sgemm_("n", "n", &kSide, &kSide, &kSide, &one, b, &kSide, a, &kSide, &zero, out, &kSide);
}

// What is timed.
struct Subject {
  virtual ~Subject() = default;
  virtual void call() = 0;
};

// A program of matrices: a call has the same inputs each time, and drops the output.
struct Program : Subject {
  explicit Program(Tensors inputs) : inputs(std::move(inputs)) {}
  void call() override { run(); }
  virtual at::Tensor run() = 0;

  Tensors inputs;
};

struct Loader : Program {
  Loader(const char* package, Tensors inputs)
      : Program(std::move(inputs)), loader(package) {}
  at::Tensor run() override { return std::move(loader.run(inputs)[0]); }

  torch::inductor::AOTIModelPackageLoader loader;
};

// A library of ours, through its C interface. It takes its inputs, so each call makes
// handles of them, as AOTIModelPackageLoader::run does.
struct Library : Program {
  Library(const char* library, const char* directory, Tensors given)
      : Program(std::move(given)), values(inputs.size()) {
    void* loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!loaded) throw std::runtime_error(dlerror());
    find(loaded, "wrapperir_run", run_program);
    find(loaded, "wrapperir_close", close);
    find(loaded, "wrapperir_error", error);
    decltype(&wrapperir_open) open;
    find(loaded, "wrapperir_open", open);
    require(open(directory, &program));
  }
  ~Library() override { close(program); }
  void call() override { aoti_torch_delete_tensor_object(result()); }
  at::Tensor run() override {
    std::unique_ptr<at::Tensor> owned(
        torch::aot_inductor::tensor_handle_to_tensor_pointer(result()));
    return *owned;
  }

  AtenTensorHandle result() {
    for (size_t i = 0; i < inputs.size(); ++i) {
      values[i].kind = WRAPPERIR_TENSOR;
      check(aoti_torch_new_tensor_handle(handle_of(inputs[i]), &values[i].as.tensor));
    }
    wrapperir_value made;
    require(run_program(program, values.data(), values.size(), &made, 1));
    return made.as.tensor;
  }
  template <typename Function>
  static void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (!function) throw std::runtime_error(dlerror());
  }
  void require(int status) {
    if (status != 0) throw std::runtime_error(error());
  }

  std::vector<wrapperir_value> values;
  wrapperir_program* program = nullptr;
  decltype(&wrapperir_run) run_program;
  decltype(&wrapperir_close) close;
  decltype(&wrapperir_error) error;
};

// A kernel and the numbers of the places that it works on, up to three; a kernel that has
// fewer parameters does not look at the registers of the others.
struct Step {
  void (*kernel)(void*, void*, void*);
  int64_t places[3];
};

// Nothing but kernels and products of matrices; the result is at the place `last`. With `fresh`, that place is a new
// tensor in each call.
struct BareLoop : Program {
  BareLoop(
      const Step* first_step, int64_t step_count, void* const* first_place,
      int64_t place_count, int64_t last, bool fresh)
      : Program({}),
        steps(first_step, first_step + step_count),
        places(first_place, first_place + place_count),
        last(last),
        fresh(fresh) {}
  void call() override {
    AtenTensorHandle output = nullptr;
    if (fresh) {
      output = new_matrix();
      check(aoti_torch_get_data_ptr(output, &places[last]));
    }
    loop();
    if (output) aoti_torch_delete_tensor_object(output);
  }
  at::Tensor run() override {
    at::Tensor output = at::empty(kSizes);
    if (fresh) places[last] = output.data_ptr();
    loop();
    return fresh ? output : at::from_blob(places[last], kSizes);
  }
  void loop() {
    void* const* at = places.data();
    for (const Step& step : steps) {
      step.kernel(at[step.places[0]], at[step.places[1]], at[step.places[2]]);
    }
  }

  std::vector<Step> steps;
  std::vector<void*> places;
  int64_t last;
  bool fresh;
};

// One thing that host programs do.
struct Piece : Subject {
  explicit Piece(std::function<void()> work) : work(std::move(work)) {}
  void call() override { work(); }

  std::function<void()> work;
};

std::function<void()> piece(const std::string& name) {
  at::Tensor a = at::rand({kSide, kSide}) / 4, b = a + 0, c = a + 0, d = a + 0;
  if (name == "nothing") return [] {};
  if (name == "aoti_torch_empty_strided + delete") {
    return [] { check(aoti_torch_delete_tensor_object(new_matrix())); };
  }
  if (name == "aoti_torch__alloc_from_pool + delete") {
    return [a]() mutable {
      AtenTensorHandle made;
      check(aoti_torch__alloc_from_pool(
          handle_of(a), 0, aoti_torch_dtype_float32(), 2, kSizes, kStrides, &made));
      check(aoti_torch_delete_tensor_object(made));
    };
  }
  if (name == "aoti_torch_new_tensor_handle + delete") {
    return [a]() mutable {
      AtenTensorHandle made;
      check(aoti_torch_new_tensor_handle(handle_of(a), &made));
      check(aoti_torch_delete_tensor_object(made));
    };
  }
  if (name == "aoti_torch_get_data_ptr") {
    return [a]() mutable {
      void* data;
      check(aoti_torch_get_data_ptr(handle_of(a), &data));
    };
  }
  if (name == "aoti_torch_cpu_mm_out") {
    return [a, b, c]() mutable {
      check(aoti_torch_cpu_mm_out(handle_of(c), handle_of(a), handle_of(b)));
    };
  }
  if (name == "aoti_torch_cpu_addmm_out") {
    return [a, b, c, d]() mutable {
      check(aoti_torch_cpu_addmm_out(
          handle_of(d), handle_of(c), handle_of(a), handle_of(b), 1, 1));
    };
  }
  if (name == "sgemm_") {
    const float* left = a.data_ptr<float>();
    const float* right = b.data_ptr<float>();
    float* out = c.data_ptr<float>();
    return [a, b, c, left, right, out] { multiply(left, right, out); };
  }
  throw std::runtime_error("no piece is named " + name);
}

Tensors matrices(const float* const* data, int64_t count) {
  Tensors made;
  for (int64_t i = 0; i < count; ++i) {
    made.push_back(at::from_blob(const_cast<float*>(data[i]), kSizes).clone());
  }
  return made;
}

// The subject, or null with the reason in last_error.
template <typename Make>
Subject* guarded(Make make) {
  try {
    return make();
  } catch (const std::exception& error) {
    last_error = error.what();
    return nullptr;
  }
}

}  // namespace

extern "C" {

const char* harness_error() { return last_error.c_str(); }

Subject* harness_loader(const char* package, const float* const* inputs, int64_t count) {
  return guarded([&] { return new Loader(package, matrices(inputs, count)); });
}

Subject* harness_library(
    const char* library, const char* directory, const float* const* inputs, int64_t count) {
  return guarded([&] { return new Library(library, directory, matrices(inputs, count)); });
}

Subject* harness_bare_loop(
    const Step* steps, int64_t step_count, void* const* places, int64_t place_count,
    int64_t last, int fresh) {
  return guarded([&] {
    return new BareLoop(steps, step_count, places, place_count, last, fresh != 0);
  });
}

Subject* harness_piece(const char* name) {
  return guarded([&] { return new Piece(piece(name)); });
}

// A step of a bare loop: the product of two matrices.
void harness_multiply(void* a, void* b, void* out) {
  multiply(static_cast<float*>(a), static_cast<float*>(b), static_cast<float*>(out));
}

// The nanoseconds of one call, over so many; negative if one fails.
double harness_time(Subject* subject, int64_t calls) {
  try {
    auto start = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < calls; ++i) subject->call();
    std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
    return taken.count() / static_cast<double>(calls);
  } catch (const std::exception& error) {
    last_error = error.what();
    return -1;
  }
}

// Copy the output of a program; 0 unless it fails.
int harness_output(Subject* program, float* output) {
  try {
    at::Tensor made = dynamic_cast<Program&>(*program).run();
    std::memcpy(output, made.data_ptr<float>(), sizeof(float) * kSide * kSide);
    return 0;
  } catch (const std::exception& error) {
    last_error = error.what();
    return 1;
  }
}
}
