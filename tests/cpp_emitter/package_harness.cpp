// Loads a package with PyTorch's C++ loader and runs it: prints its outputs, and whether
// Python is in the process.
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>

#include <cstdio>
#include <fstream>
#include <string>

int main(int, char** arguments) {
  torch::inductor::AOTIModelPackageLoader loader(arguments[1]);
  at::Tensor x = at::arange(24, at::kFloat).view({3, 8});
  auto outputs = loader.run({x, at::full({}, 5, at::kLong)});
  const float* numbers = outputs[0].const_data_ptr<float>();
  for (int64_t i = 0; i < outputs[0].numel(); ++i) std::printf("%a ", numbers[i]);
  std::printf("\n%ld\n", static_cast<long>(*outputs[1].const_data_ptr<int64_t>()));
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("libpython") != std::string::npos) std::printf("%s\n", line.c_str());
}
