// Matrix products by cuBLAS. What is computed how follows what PyTorch's operators do, so that
// the results have the same bits: `mm`, `bmm` and most of `addmm` are a call of GEMM; `addmm`
// with a vector adds it in cublasLtMatmul.
#include "cuda_products.h"

#include <limits.h>
#include <stdlib.h>

#include <unordered_map>

#include "cublas.h"
#include "cuda_driver.h"

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

// Later releases give cuBLAS other workspaces, and add matrices in another way.
constexpr bool is_known_release =
    WRAPPERIR_TORCH_MAJOR == 2 && WRAPPERIR_TORCH_MINOR >= 10 && WRAPPERIR_TORCH_MINOR <= 13;
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

CublasType cublas_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return CublasType::f64;
    case DType::f16: return CublasType::f16;
    case DType::bf16: return CublasType::bf16;
    default: return CublasType::f32;
  }
}

CublasTranspose transpose(const GemmOperand& operand) {
  return operand.is_transposed ? CublasTranspose::yes : CublasTranspose::no;
}

// What the choice of an algorithm of cublasLtMatmul depends on.
struct LtKey {
  uint64_t workspace_bytes;
  uint16_t alignments[4];  // of a, b, c and the bias
  int32_t m, n, k, a_step, b_step, c_step;
  int8_t device, is_a_transposed, is_b_transposed, type, compute, reduction, unused[2];

  bool operator==(const LtKey& other) const { return !memcmp(this, &other, sizeof other); }
};
static_assert(sizeof(LtKey) == 48, "without padding");

struct LtHash {
  size_t operator()(const LtKey& key) const {
    uint64_t words[6], hash = 0;
    memcpy(words, &key, sizeof key);
    for (uint64_t word : words) hash = (hash ^ word) * 0x9e3779b97f4a7c15 ^ hash >> 29;
    return hash;
  }
};

// The largest power of two up to 256 that divides an address.
uint16_t alignment_of(const void* data) {
  return 1 << __builtin_ctzll(reinterpret_cast<uintptr_t>(data) | 256);
}

// The descriptors and the algorithm of a product with a bias.
struct LtPlan {
  void* description = nullptr;
  void* layouts[3] = {nullptr, nullptr, nullptr};
  LtHeuristic found = {};
  bool is_found = false;

  LtPlan() = default;
  LtPlan(const LtPlan&) = delete;
  LtPlan& operator=(const LtPlan&) = delete;
  ~LtPlan() {
    if (description) cublasLtMatmulDescDestroy(description);
    for (void* layout : layouts)
      if (layout) cublasLtMatrixLayoutDestroy(layout);
  }
};

constexpr size_t most_plans = 1024;


}  // namespace

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

  void run_gemm(const Gemm& g, double alpha, double beta) {
    const bool is_short = dtype_ == DType::f16 || dtype_ == DType::bf16;
    int mode = p_.taken_math_mode_;
    if (is_short && g.batches == 1)
      mode = reduction() ? math_disallow_reduced_reduction : math_default;
    if (mode != p_.math_mode_) {
      check_status(cublasSetMathMode(p_.handle_, mode));
      p_.math_mode_ = mode;
    }
    check_status(g.batches == 1 ? run_one(g, alpha, beta) : run_batch(g, alpha, beta));
  }

  // Add `bias` to each column of the result; false if cublasLt has no algorithm for it.
  bool run_with_bias(const Gemm& g, double alpha, const char* bias) {
    if (!p_.workspace_) {
      p_.workspace_bytes_ = _ZN2at4cuda26getCUDABlasLtWorkspaceSizeEv();
      p_.workspace_ = _ZN2at4cuda22getCUDABlasLtWorkspaceEv();
    }
    LtPlan& plan = plan_of(g, bias);
    if (!plan.is_found) return false;
    describe(plan, LtDescription::bias, bias);
    const float single[] = {static_cast<float>(alpha), 0};
    const double both[] = {alpha, 0};
    const bool is_double = dtype_ == DType::f64;
    const void* scales[] = {
        is_double ? static_cast<const void*>(both) : single,
        is_double ? static_cast<const void*>(both + 1) : single + 1};
    return !cublasLtMatmul(
        p_.handle_, plan.description, scales[0], g.a.data, plan.layouts[0], g.b.data,
        plan.layouts[1], scales[1], g.c, plan.layouts[2], g.c, plan.layouts[2],
        plan.found.algorithm, p_.workspace_, p_.workspace_bytes_, stream_);
  }

 private:
  void check_status(int status) {
    if (__builtin_expect(status != 0, 0))
      fail(
          line_, "cuBLAS failed: %s (%d)",
          cublasGetStatusString ? cublasGetStatusString(status) : "an unknown error", status);
  }

  void take() {
    p_.is_known_ = true;
    p_.is_direct_ = false;
    p_.stream_ = stream_;
    p_.workspace_ = nullptr;
    static const bool is_found = is_known_release && is_all_found();
    if (!is_found) return;
    void* const context = _ZN2at13globalContextEv();
    constexpr int8_t cublaslt = 2;
    if (_ZN2at7Context20blasPreferredBackendEv(context) >= cublaslt) return;
    if (_ZNK2at7Context23deterministicAlgorithmsEv(context)) return;
    if (_ZNK2at7Context27allowFP16AccumulationCuBLASEv(context)) return;
    // An optional int, whose fifth byte says whether it is set.
    if (_ZNK2at7Context24_SMCarveout_EXPERIMENTALEv(context) >> 32 & 0xff) return;
    if (_ZNK2at4cuda7tunable13TuningContext18IsTunableOpEnabledEv(
            _ZN2at4cuda7tunable16getTuningContextEv()))
      return;
    p_.half_reduction_ = _ZNK2at7Context24allowFP16ReductionCuBLASEv(context);
    p_.bfloat16_reduction_ = _ZNK2at7Context24allowBF16ReductionCuBLASEv(context);
    check(torch_get_current_cuda_blas_handle(&p_.handle_), line_);
    check_status(cublasGetMathMode(p_.handle_, &p_.taken_math_mode_));
    p_.math_mode_ = p_.taken_math_mode_;
    p_.is_direct_ = p_.math_mode_ == math_default || p_.math_mode_ == math_tf32;
  }

  static bool is_all_found() {
    return torch_get_current_cuda_blas_handle && cublasSetMathMode && cublasGetMathMode &&
        cublasSgemm_v2 && cublasDgemm_v2 && cublasGemmEx && cublasSgemmStridedBatched &&
        cublasDgemmStridedBatched && cublasGemmStridedBatchedEx && cublasLtMatmulDescCreate &&
        cublasLtMatmulDescSetAttribute && cublasLtMatrixLayoutCreate &&
        cublasLtMatmulPreferenceCreate && cublasLtMatmulPreferenceSetAttribute &&
        cublasLtMatmulAlgoGetHeuristic && cublasLtMatmul && _ZN2at13globalContextEv &&
        _ZN2at7Context20blasPreferredBackendEv && _ZNK2at7Context23deterministicAlgorithmsEv &&
        _ZNK2at7Context27allowFP16AccumulationCuBLASEv &&
        _ZNK2at7Context24_SMCarveout_EXPERIMENTALEv &&
        _ZNK2at7Context24allowFP16ReductionCuBLASEv &&
        _ZNK2at7Context24allowBF16ReductionCuBLASEv &&
        _ZN2at4cuda7tunable16getTuningContextEv &&
        _ZNK2at4cuda7tunable13TuningContext18IsTunableOpEnabledEv &&
        _ZN2at4cuda22getCUDABlasLtWorkspaceEv && _ZN2at4cuda26getCUDABlasLtWorkspaceSizeEv;
  }

  uint8_t reduction() const {
    return dtype_ == DType::f16    ? p_.half_reduction_
        : dtype_ == DType::bf16 ? p_.bfloat16_reduction_
                                : 0;
  }

  int run_one(const Gemm& g, double alpha, double beta) {
    const CublasTranspose a = transpose(g.a), b = transpose(g.b);
    const int m = g.m, n = g.n, k = g.k, a_step = g.a.step, b_step = g.b.step;
    const int c_step = g.c_step;
    void* const handle = p_.handle_;
    if (dtype_ == DType::f64)
      return cublasDgemm_v2(
          handle, a, b, m, n, k, &alpha, g.a.data, a_step, g.b.data, b_step, &beta, g.c,
          c_step);
    const float scales[] = {static_cast<float>(alpha), static_cast<float>(beta)};
    if (dtype_ == DType::f32)
      return cublasSgemm_v2(
          handle, a, b, m, n, k, &scales[0], g.a.data, a_step, g.b.data, b_step, &scales[1],
          g.c, c_step);
    const CublasType type = cublas_type(dtype_);
    return cublasGemmEx(
        handle, a, b, m, n, k, &scales[0], g.a.data, type, a_step, g.b.data, type, b_step,
        &scales[1], g.c, type, c_step, CublasCompute::f32, cublas_default_algorithm);
  }

  int run_batch(const Gemm& g, double alpha, double beta) {
    const CublasTranspose a = transpose(g.a), b = transpose(g.b);
    const int m = g.m, n = g.n, k = g.k, a_step = g.a.step, b_step = g.b.step;
    const int c_step = g.c_step, batches = g.batches;
    void* const handle = p_.handle_;
    if (dtype_ == DType::f64)
      return cublasDgemmStridedBatched(
          handle, a, b, m, n, k, &alpha, g.a.data, a_step, g.a.batch_step, g.b.data, b_step,
          g.b.batch_step, &beta, g.c, c_step, g.c_batch_step, batches);
    const float scales[] = {static_cast<float>(alpha), static_cast<float>(beta)};
    if (dtype_ == DType::f32)
      return cublasSgemmStridedBatched(
          handle, a, b, m, n, k, &scales[0], g.a.data, a_step, g.a.batch_step, g.b.data,
          b_step, g.b.batch_step, &scales[1], g.c, c_step, g.c_batch_step, batches);
    const CublasType type = cublas_type(dtype_);
    return cublasGemmStridedBatchedEx(
        handle, a, b, m, n, k, &scales[0], g.a.data, type, a_step, g.a.batch_step, g.b.data,
        type, b_step, g.b.batch_step, &scales[1], g.c, type, c_step, g.c_batch_step, batches,
        CublasCompute::f32, cublas_default_algorithm);
  }

  // Each thread has its own plans, since a bias is written into one for each call.
  LtPlan& plan_of(const Gemm& g, const char* bias) {
    static thread_local std::unordered_map<LtKey, LtPlan, LtHash> plans;
    LtKey key = {};
    key.workspace_bytes = p_.workspace_bytes_;
    const void* const addresses[] = {g.a.data, g.b.data, g.c, bias};
    for (int i = 0; i < 4; ++i) key.alignments[i] = alignment_of(addresses[i]);
    key.m = g.m, key.n = g.n, key.k = g.k;
    key.a_step = g.a.step, key.b_step = g.b.step, key.c_step = g.c_step;
    key.device = call_.index();
    key.is_a_transposed = g.a.is_transposed, key.is_b_transposed = g.b.is_transposed;
    key.type = static_cast<int8_t>(dtype_);
    key.compute = static_cast<int8_t>(compute());
    key.reduction = reduction();
    auto found = plans.find(key);
    if (found != plans.end()) return found->second;
    if (plans.size() == most_plans) plans.clear();
    LtPlan& plan = plans[key];
    make_plan(plan, key, g);
    return plan;
  }

  CublasCompute compute() const {
    if (dtype_ == DType::f64) return CublasCompute::f64;
    const bool is_fast = dtype_ == DType::f32 && p_.taken_math_mode_ == math_tf32;
    return is_fast ? CublasCompute::fast_tf32 : CublasCompute::f32;
  }

  template <typename T>
  void describe(LtPlan& plan, LtDescription what, const T& value) {
    check_status(
        cublasLtMatmulDescSetAttribute(plan.description, what, &value, sizeof(value)));
  }

  void make_layout(void*& layout, const GemmOperand& of, int64_t rows, int64_t columns) {
    if (of.is_transposed) {
      const int64_t kept = rows;
      rows = columns;
      columns = kept;
    }
    check_status(
        cublasLtMatrixLayoutCreate(&layout, cublas_type(dtype_), rows, columns, of.step));
  }

  void make_plan(LtPlan& plan, const LtKey& key, const Gemm& g) {
    const CublasType scale = dtype_ == DType::f64 ? CublasType::f64 : CublasType::f32;
    check_status(cublasLtMatmulDescCreate(&plan.description, compute(), scale));
    describe(plan, LtDescription::transpose_a, transpose(g.a));
    describe(plan, LtDescription::transpose_b, transpose(g.b));
    describe(plan, LtDescription::epilogue, lt_epilogue_bias);
    make_layout(plan.layouts[0], g.a, g.m, g.k);
    make_layout(plan.layouts[1], g.b, g.k, g.n);
    make_layout(plan.layouts[2], {g.c, false, g.c_step, 0}, g.m, g.n);
    struct Preference {
      ~Preference() { cublasLtMatmulPreferenceDestroy(made); }
      void* made = nullptr;
    } preference;
    check_status(cublasLtMatmulPreferenceCreate(&preference.made));
    const auto prefer = [&](LtPreference what, auto value) {
      check_status(
          cublasLtMatmulPreferenceSetAttribute(preference.made, what, &value, sizeof(value)));
    };
    if (key.reduction) prefer(LtPreference::reduction_mask, lt_reduce_in_compute_type);
    prefer(LtPreference::workspace_bytes, p_.workspace_bytes_);
    // PyTorch gives the alignment of the bias for that of d.
    constexpr LtPreference of[] = {
        LtPreference::alignment_a, LtPreference::alignment_b, LtPreference::alignment_c,
        LtPreference::alignment_d};
    for (int i = 0; i < 4; ++i) prefer(of[i], uint32_t{key.alignments[i]});
    int count = 0;
    const int status = cublasLtMatmulAlgoGetHeuristic(
        p_.handle_, plan.description, plan.layouts[0], plan.layouts[1], plan.layouts[2],
        plan.layouts[2], preference.made, 1, &plan.found, &count);
    plan.is_found = status == 0 && count > 0;
  }

  const int line_;
  Products& p_;
  DeviceCall& call_;
  void* const stream_;
  const DType dtype_;
};

namespace {

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
