// Matrix products: which call of cuBLAS computes each. The rules are those of PyTorch's operators,
// so that the results have the same bits: `mm`, `bmm` and most of `addmm` are a call of GEMM;
// `addmm` with a vector adds it in cublasLtMatmul.
#include "cuda_products.h"

#include <limits.h>
#include <stdlib.h>

#include "cublas_calls.h"

// Defined by PyTorch with CUDA.
extern "C" {
__attribute__((weak)) AOTITorchError aoti_torch_cuda_mm_out(
    AtenTensorHandle, AtenTensorHandle, AtenTensorHandle);
__attribute__((weak)) AOTITorchError aoti_torch_cuda_bmm_out(
    AtenTensorHandle, AtenTensorHandle, AtenTensorHandle);
__attribute__((weak)) AOTITorchError aoti_torch_cuda_addmm_out(
    AtenTensorHandle, AtenTensorHandle, AtenTensorHandle, AtenTensorHandle, double, double);
__attribute__((weak)) AOTITorchError aoti_torch_cuda_baddbmm_out(
    AtenTensorHandle, AtenTensorHandle, AtenTensorHandle, AtenTensorHandle, double, double);
}

namespace wrapperir {
namespace {

bool is_empty(const ProductOperand& of) {
  for (int64_t i = 0; i < of.sizes.count; ++i)
    if (of.sizes.data[i] == 0) return true;
  return false;
}

// Whether elements follow each other in the order of rows; dimensions of size 1 are ignored.
bool is_contiguous(const ProductOperand& of) {
  int64_t step = 1;
  for (int64_t i = of.sizes.count; i-- > 0;) {
    if (of.sizes.data[i] != 1 && of.strides.data[i] != step) return false;
    step *= of.sizes.data[i];
  }
  return true;
}

int64_t at_least_1(int64_t size) { return size > 1 ? size : 1; }

enum class Order { rows, columns, neither };

// The order of a matrix without a batch. PyTorch copies one in neither order.
Order order_of(const ProductOperand& of) {
  const int64_t rows = of.sizes.data[0], columns = of.sizes.data[1];
  const int64_t row_step = of.strides.data[0], column_step = of.strides.data[1];
  if (is_contiguous(of)) return Order::rows;
  const bool is_dense =
      (rows == 1 || row_step == 1) && (columns == 1 || column_step == rows);
  if (is_dense || (row_step == 1 && column_step >= at_least_1(rows))) return Order::columns;
  return column_step == 1 && row_step >= at_least_1(columns) ? Order::rows : Order::neither;
}

// The order of a batch's result.
Order result_order_of(const ProductOperand& of) {
  const int64_t *sizes = of.sizes.data, *steps = of.strides.data;
  if (steps[1] == 1 && (sizes[2] == 1 || steps[2] >= at_least_1(sizes[1])))
    return Order::columns;
  if (steps[2] == 1 && (sizes[1] == 1 || steps[1] >= at_least_1(sizes[2])))
    return Order::rows;
  return Order::neither;
}

// A factor of a batch of products; `is_swapped` if the result is in the order of rows.
bool set_batch_factor(GemmOperand& to, const ProductOperand& from, bool is_swapped) {
  const int fast = is_swapped ? 2 : 1, slow = is_swapped ? 1 : 2;
  const int64_t *sizes = from.sizes.data, *steps = from.strides.data;
  to.data = from.data;
  to.batch_step = steps[0];
  to.is_transposed = false;
  to.step = steps[slow];
  if (steps[fast] == 1 && steps[slow] >= at_least_1(sizes[fast])) return true;
  to.is_transposed = true;
  to.step = steps[fast];
  if (steps[slow] == 1 && steps[fast] >= at_least_1(sizes[slow])) return true;
  to.is_transposed = !is_swapped;
  to.step = steps[1];
  return is_contiguous(from) && steps[1] != 0 && steps[2] != 0;
}

bool set_factor(GemmOperand& to, const ProductOperand& from, bool is_swapped) {
  const Order order = order_of(from);
  if (order == Order::neither) return false;
  to.data = from.data;
  to.batch_step = 0;
  to.is_transposed = (order == Order::rows) != is_swapped;
  to.step = from.strides.data[order == Order::rows ? 0 : 1];
  return true;
}

// The step between columns is not used where there is one; cuBLAS wants a valid number.
void correct_steps(Gemm& g) {
  if (g.n == 1) g.c_step = g.m;
  if (g.a.is_transposed ? g.m == 1 : g.k == 1) g.a.step = g.a.is_transposed ? g.k : g.m;
  if (g.b.is_transposed ? g.k == 1 : g.n == 1) g.b.step = g.b.is_transposed ? g.n : g.k;
}

bool has_right_sizes(
    const ProductOperand& out, const ProductOperand& left, const ProductOperand& right) {
  const int64_t rank = out.sizes.count, rows = rank - 2, columns = rank - 1;
  const int64_t *of_out = out.sizes.data, *of_left = left.sizes.data;
  const int64_t* of_right = right.sizes.data;
  return left.sizes.count == rank && right.sizes.count == rank &&
      of_left[rows] == of_out[rows] && of_left[columns] == of_right[rows] &&
      of_right[columns] == of_out[columns] &&
      (rank == 2 || (of_left[0] == of_out[0] && of_right[0] == of_out[0]));
}

// Set the arguments of the product, or return false if PyTorch copies an operand first.
bool set_gemm(
    Gemm& g, const ProductOperand& out, const ProductOperand& left,
    const ProductOperand& right) {
  if (!has_right_sizes(out, left, right)) return false;
  const int64_t rank = out.sizes.count, rows = rank - 2, columns = rank - 1;
  const Order order = rank == 2 ? order_of(out) : result_order_of(out);
  if (order == Order::neither) return false;
  const bool is_swapped = order == Order::rows;
  const auto set = rank == 2 ? set_factor : set_batch_factor;
  if (!set(g.a, is_swapped ? right : left, is_swapped)) return false;
  if (!set(g.b, is_swapped ? left : right, is_swapped)) return false;
  g.c = out.data;
  g.c_step = out.strides.data[is_swapped ? rows : columns];
  g.c_batch_step = rank == 2 ? 0 : out.strides.data[0];
  g.m = out.sizes.data[is_swapped ? columns : rows];
  g.n = out.sizes.data[is_swapped ? rows : columns];
  g.k = left.sizes.data[columns];
  g.batches = rank == 2 ? 1 : out.sizes.data[0];
  correct_steps(g);
  for (int64_t number : {g.m, g.n, g.k, g.a.step, g.b.step, g.c_step, g.batches})
    if (number < 1 || number > INT_MAX) return false;
  return true;
}

// Whether PyTorch uses the bias epilogue also for a product of one row.
constexpr bool is_one_row_biased = WRAPPERIR_TORCH_MINOR <= 11;

// How `source` gets into a product.
enum class Adding { not_at_all, in_place, by_copy, in_epilogue, by_pytorch };

bool has_same_layout(const ProductOperand& left, const ProductOperand& right) {
  if (left.sizes.count != right.sizes.count) return false;
  for (int64_t i = 0; i < left.sizes.count; ++i) {
    if (left.sizes.data[i] != right.sizes.data[i]) return false;
    if (left.sizes.data[i] != 1 && left.strides.data[i] != right.strides.data[i]) return false;
  }
  return true;
}

Adding adding_of(
    const ProductOperand& out, const ProductOperand& left, const ProductOperand& source,
    double beta) {
  if (!source.data || beta == 0) return Adding::not_at_all;
  if (source.data == out.data && has_same_layout(source, out)) return Adding::in_place;
  if (!is_contiguous(out) || !is_contiguous(source)) return Adding::by_pytorch;
  if (out.sizes.count == 3)
    return has_same_layout(source, out) ? Adding::by_copy : Adding::by_pytorch;
  const int64_t rows = out.sizes.data[0], columns = out.sizes.data[1];
  if (columns == 1 || left.sizes.data[1] == 1) return Adding::by_pytorch;
  const bool is_row = source.sizes.count == 1 && source.sizes.data[0] == columns;
  if (is_row && beta == 1) {
    static const char* const set = getenv("DISABLE_ADDMM_CUDA_LT");
    const bool is_disabled = set && strcmp(set, "1") == 0;
    if (is_disabled || (rows == 1 && !is_one_row_biased)) return Adding::by_pytorch;
    return Adding::in_epilogue;
  }
  const bool is_alike = has_same_layout(source, out) || (is_row && rows == 1);
  return is_alike ? Adding::by_copy : Adding::by_pytorch;
}

void multiply_in_pytorch(
    int line, int32_t index, DType dtype, const ProductOperand& out, const ProductOperand& left,
    const ProductOperand& right, const ProductOperand& source, double alpha, double beta) {
  // PyTorch tells a result that is its own source by the tensor.
  const bool is_in_place = source.data == out.data && has_same_layout(source, out);
  Tensor tensors[4];
  const ProductOperand* operands[] = {&out, &left, &right, &source};
  for (int i = 0; i < 4; ++i)
    if (i < 3 || (source.data && !is_in_place))
      view_memory(
          tensors[i], operands[i]->data, dtype, operands[i]->sizes, operands[i]->strides, line,
          Device::cuda, index);
  const AtenTensorHandle of_out = tensors[0].get(), of_left = tensors[1].get();
  const AtenTensorHandle of_right = tensors[2].get();
  const AtenTensorHandle of_source = is_in_place ? of_out : tensors[3].get();
  const bool is_batch = out.sizes.count == 3;
  if (!of_source) {
    const auto function = is_batch ? aoti_torch_cuda_bmm_out : aoti_torch_cuda_mm_out;
    check(function(of_out, of_left, of_right), line);
  } else {
    const auto function = is_batch ? aoti_torch_cuda_baddbmm_out : aoti_torch_cuda_addmm_out;
    check(function(of_out, of_source, of_left, of_right, beta, alpha), line);
  }
}

}  // namespace

void multiply(
    int line, Products& products, DeviceCall& call, int stream, DType dtype,
    const ProductOperand& out, const ProductOperand& left, const ProductOperand& right,
    const ProductOperand& source, double alpha, double beta) {
  if (is_empty(out)) return;
  Gemm g;
  const Adding adding = adding_of(out, left, source, beta);
  if (adding != Adding::by_pytorch && set_gemm(g, out, left, right)) {
    void* const on = call.stream(stream);
    ProductCall product(line, products, call, on, dtype);
    if (product.prepare()) {
      if (adding == Adding::in_epilogue) {
        if (product.run_with_bias(g, alpha, source.data)) return;
      } else {
        if (adding == Adding::by_copy) {
          const int64_t bytes = g.m * g.n * g.batches * item_bytes(dtype);
          call.functions().copy(out.data, source.data, bytes, on, line);
        }
        product.run_gemm(g, alpha, adding == Adding::not_at_all ? 0 : beta);
        return;
      }
    }
  }
  multiply_in_pytorch(line, call.index(), dtype, out, left, right, source, alpha, beta);
  products.forget();
}

}  // namespace wrapperir
