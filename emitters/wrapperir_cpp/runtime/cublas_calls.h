// Calls of cuBLAS with PyTorch's handle, workspaces and settings.
#pragma once

#include "cublas.h"
#include "cuda_products.h"

namespace wrapperir {

// One operand of a GEMM: a matrix whose columns, or rows if transposed, are `step` apart.
struct GemmOperand {
  const char* data;
  bool is_transposed;
  int64_t step;
  int64_t batch_step;
};

// The arguments of a GEMM: c[m, n] = a[m, k] @ b[k, n], by columns.
struct Gemm {
  GemmOperand a, b;
  char* c;
  int64_t c_step, c_batch_step;
  int64_t m, n, k;
  int64_t batches;
};

struct LtKey;
struct LtPlan;

// One product with cuBLAS.
class ProductCall {
 public:
  ProductCall(int line, Products& products, DeviceCall& call, void* stream, DType dtype)
      : line_(line), p_(products), call_(call), stream_(stream), dtype_(dtype) {}

  // Take the handle, unless it is known; say whether the product may be given to cuBLAS.
  bool prepare() {
    if (!p_.is_known_ || p_.stream_ != stream_) take();
    return p_.is_direct_ && reduction() < 2;
  }
  void run_gemm(const Gemm& g, double alpha, double beta);
  // Add `bias` to each column of the result; false if cublasLt has no algorithm for it.
  bool run_with_bias(const Gemm& g, double alpha, const char* bias);

 private:
  void check_status(int status);
  void take();
  uint8_t reduction() const {
    return dtype_ == DType::f16    ? p_.half_reduction_
        : dtype_ == DType::bf16 ? p_.bfloat16_reduction_
                                : 0;
  }
  int run_one(const Gemm& g, double alpha, double beta);
  int run_batch(const Gemm& g, double alpha, double beta);
  // Each thread has its own plans, since a bias is written into one for each call.
  LtPlan& plan_of(const Gemm& g, const char* bias);
  CublasCompute compute() const;
  template <typename T>
  void describe(LtPlan& plan, LtDescription what, const T& value);
  void make_layout(void*& layout, const GemmOperand& of, int64_t rows, int64_t columns);
  void make_plan(LtPlan& plan, const LtKey& key, const Gemm& g);

  const int line_;
  Products& p_;
  DeviceCall& call_;
  void* const stream_;
  const DType dtype_;
};

}  // namespace wrapperir
