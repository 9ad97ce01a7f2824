// Loads a package with PyTorch's C++ loader and runs it: prints its outputs, and whether
// Python is in the process.
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <ATen/ops/from_blob.h>

#include <cstdio>
#include <fstream>
#include <numeric>
#include <string>

int main(int, char** arguments) {
  torch::inductor::AOTIModelPackageLoader loader(arguments[1]);
  alignas(64) float values[24];
  std::iota(values, values + 24, 0.0f);
  int64_t five = 5;
  at::Tensor x = at::from_blob(values, {3, 8}, at::kFloat);
  auto outputs = loader.run({x, at::from_blob(&five, {}, at::kLong)});
  const float* numbers = outputs[0].const_data_ptr<float>();
  for (int64_t i = 0; i < outputs[0].numel(); ++i) std::printf("%a ", numbers[i]);
  std::printf("\n%ld\n", static_cast<long>(*outputs[1].const_data_ptr<int64_t>()));
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("libpython") != std::string::npos) std::printf("%s\n", line.c_str());
}
