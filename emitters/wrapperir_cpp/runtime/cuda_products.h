// Matrix products on CUDA devices, as direct calls of cuBLAS.
#pragma once

#include "cuda.h"

namespace wrapperir {

// A matrix, or a batch of matrices, in memory.
struct ProductOperand {
  char* data = nullptr;
  const Ints& sizes = no_ints;
  const Ints& strides = no_ints;
};

// cuBLAS in one call of a program, on one device: PyTorch's handle for the current stream, and
// PyTorch's settings when the handle was taken. PyTorch's operators may change the handle's
// state, so it is taken again after each of them.
class Products {
 public:
  void forget() { is_known_ = false; }

 private:
  friend class ProductCall;
  bool is_known_ = false;
  bool is_direct_ = false;  // cuBLAS is found, and PyTorch has no setting that we do not honour
  void* stream_ = nullptr;
  void* handle_ = nullptr;
  int math_mode_ = 0;        // of the handle now
  int taken_math_mode_ = 0;  // that PyTorch gave it, for float32
  // Of products in 16 bits. 0: in any way; 1: in float32; 2: without splits of k.
  uint8_t half_reduction_ = 0, bfloat16_reduction_ = 0;
  void* workspace_ = nullptr;  // of cublasLtMatmul; null until it is needed
  size_t workspace_bytes_ = 0;
};

// Compute `out = alpha * left @ right + beta * source`, for matrices or batches of matrices. A
// source without data is left out. Where PyTorch's operator would copy a matrix, or a setting is
// not honoured here, that operator is called. Otherwise the results have the bits of the operator.
void multiply(
    int line, Products& products, DeviceCall& call, int stream, DType dtype,
    const ProductOperand& out, const ProductOperand& left, const ProductOperand& right,
    const ProductOperand& source = {}, double alpha = 1, double beta = 0);

}  // namespace wrapperir
