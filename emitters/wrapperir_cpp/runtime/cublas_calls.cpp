// Calls of cuBLAS with PyTorch's handle, workspaces and settings.
#include "cublas_calls.h"

#include <unordered_map>

namespace wrapperir {

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

namespace {

// Later releases give cuBLAS other workspaces, and add matrices in another way.
constexpr bool is_known_release =
    WRAPPERIR_TORCH_MAJOR == 2 && WRAPPERIR_TORCH_MINOR >= 10 && WRAPPERIR_TORCH_MINOR <= 13;

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

// The largest power of two up to 256 that divides an address.
uint16_t alignment_of(const void* data) {
  return 1 << __builtin_ctzll(reinterpret_cast<uintptr_t>(data) | 256);
}

bool is_all_found() {
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

}  // namespace

void ProductCall::run_gemm(const Gemm& g, double alpha, double beta) {
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

bool ProductCall::run_with_bias(const Gemm& g, double alpha, const char* bias) {
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

void ProductCall::check_status(int status) {
  if (__builtin_expect(status != 0, 0))
    fail(
        line_, "cuBLAS failed: %s (%d)",
        cublasGetStatusString ? cublasGetStatusString(status) : "an unknown error", status);
}

void ProductCall::take() {
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

int ProductCall::run_one(const Gemm& g, double alpha, double beta) {
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

int ProductCall::run_batch(const Gemm& g, double alpha, double beta) {
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

LtPlan& ProductCall::plan_of(const Gemm& g, const char* bias) {
  constexpr size_t most_plans = 1024;
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

CublasCompute ProductCall::compute() const {
  if (dtype_ == DType::f64) return CublasCompute::f64;
  const bool is_fast = dtype_ == DType::f32 && p_.taken_math_mode_ == math_tf32;
  return is_fast ? CublasCompute::fast_tf32 : CublasCompute::f32;
}

template <typename T>
void ProductCall::describe(LtPlan& plan, LtDescription what, const T& value) {
  check_status(cublasLtMatmulDescSetAttribute(plan.description, what, &value, sizeof(value)));
}

void ProductCall::make_layout(
    void*& layout, const GemmOperand& of, int64_t rows, int64_t columns) {
  if (of.is_transposed) {
    const int64_t kept = rows;
    rows = columns;
    columns = kept;
  }
  check_status(
      cublasLtMatrixLayoutCreate(&layout, cublas_type(dtype_), rows, columns, of.step));
}

void ProductCall::make_plan(LtPlan& plan, const LtKey& key, const Gemm& g) {
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

}  // namespace wrapperir
