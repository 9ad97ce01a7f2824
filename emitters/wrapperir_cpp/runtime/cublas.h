// The used part of the interfaces of cuBLAS and cuBLASLt, and of PyTorch's settings of them.
// The functions are null where PyTorch's libraries do not bring them.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define WRAPPERIR_WEAK __attribute__((weak))

namespace wrapperir {

enum class CublasType : int { f32 = 0, f64 = 1, f16 = 2, bf16 = 14 };
enum class CublasCompute : int { f32 = 68, f64 = 70, fast_tf32 = 77 };
enum class CublasTranspose : int { no = 0, yes = 1 };
constexpr int cublas_default_algorithm = 99;  // CUBLAS_GEMM_DEFAULT_TENSOR_OP
constexpr int math_default = 0;
constexpr int math_tf32 = 3;
constexpr int math_disallow_reduced_reduction = 16;

enum class LtDescription : int { transpose_a = 3, transpose_b = 4, epilogue = 7, bias = 8 };
enum class LtPreference : int {
  workspace_bytes = 1, reduction_mask = 3,
  alignment_a = 5, alignment_b = 6, alignment_c = 7, alignment_d = 8,
};
constexpr uint32_t lt_epilogue_bias = 4;
constexpr uint32_t lt_reduce_in_compute_type = 2;  // split sums are added in the compute type

struct LtHeuristic {
  uint64_t algorithm[8];
  size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};
static_assert(sizeof(LtHeuristic) == 96, "as cublasLtMatmulHeuristicResult_t");

}  // namespace wrapperir

extern "C" {
WRAPPERIR_WEAK const char* cublasGetStatusString(int);
WRAPPERIR_WEAK int cublasSetMathMode(void*, int);
WRAPPERIR_WEAK int cublasGetMathMode(void*, int*);
WRAPPERIR_WEAK int cublasSgemm_v2(
    void*, wrapperir::CublasTranspose, wrapperir::CublasTranspose, int, int, int, const float*,
    const void*, int, const void*, int, const float*, void*, int);
WRAPPERIR_WEAK int cublasDgemm_v2(
    void*, wrapperir::CublasTranspose, wrapperir::CublasTranspose, int, int, int,
    const double*, const void*, int, const void*, int, const double*, void*, int);
WRAPPERIR_WEAK int cublasGemmEx(
    void*, wrapperir::CublasTranspose, wrapperir::CublasTranspose, int, int, int, const void*,
    const void*, wrapperir::CublasType, int, const void*, wrapperir::CublasType, int,
    const void*, void*, wrapperir::CublasType, int, wrapperir::CublasCompute, int);
WRAPPERIR_WEAK int cublasSgemmStridedBatched(
    void*, wrapperir::CublasTranspose, wrapperir::CublasTranspose, int, int, int, const float*,
    const void*, int, long long, const void*, int, long long, const float*, void*, int,
    long long, int);
WRAPPERIR_WEAK int cublasDgemmStridedBatched(
    void*, wrapperir::CublasTranspose, wrapperir::CublasTranspose, int, int, int,
    const double*, const void*, int, long long, const void*, int, long long, const double*,
    void*, int, long long, int);
WRAPPERIR_WEAK int cublasGemmStridedBatchedEx(
    void*, wrapperir::CublasTranspose, wrapperir::CublasTranspose, int, int, int, const void*,
    const void*, wrapperir::CublasType, int, long long, const void*, wrapperir::CublasType,
    int, long long, const void*, void*, wrapperir::CublasType, int, long long, int,
    wrapperir::CublasCompute, int);
WRAPPERIR_WEAK int cublasLtMatmulDescCreate(
    void**, wrapperir::CublasCompute, wrapperir::CublasType);
WRAPPERIR_WEAK int cublasLtMatmulDescDestroy(void*);
WRAPPERIR_WEAK int cublasLtMatmulDescSetAttribute(
    void*, wrapperir::LtDescription, const void*, size_t);
WRAPPERIR_WEAK int cublasLtMatrixLayoutCreate(
    void**, wrapperir::CublasType, uint64_t, uint64_t, int64_t);
WRAPPERIR_WEAK int cublasLtMatrixLayoutDestroy(void*);
WRAPPERIR_WEAK int cublasLtMatmulPreferenceCreate(void**);
WRAPPERIR_WEAK int cublasLtMatmulPreferenceDestroy(void*);
WRAPPERIR_WEAK int cublasLtMatmulPreferenceSetAttribute(
    void*, wrapperir::LtPreference, const void*, size_t);
WRAPPERIR_WEAK int cublasLtMatmulAlgoGetHeuristic(
    void*, void*, void*, void*, void*, void*, void*, int, wrapperir::LtHeuristic*, int*);
WRAPPERIR_WEAK int cublasLtMatmul(
    void*, void*, const void*, const void*, void*, const void*, void*, const void*,
    const void*, void*, void*, void*, const void*, void*, size_t, void*);

// Set the stream, workspace and math mode of this thread's handle for the current device.
WRAPPERIR_WEAK int32_t torch_get_current_cuda_blas_handle(void**);

// PyTorch's settings have no C functions. These are its C++ functions, under the names that
// compilers give them: at::globalContext(), at::Context's methods, and functions of at::cuda.
WRAPPERIR_WEAK void* _ZN2at13globalContextEv();
WRAPPERIR_WEAK int8_t _ZN2at7Context20blasPreferredBackendEv(void*);
WRAPPERIR_WEAK bool _ZNK2at7Context23deterministicAlgorithmsEv(const void*);
WRAPPERIR_WEAK uint8_t _ZNK2at7Context24allowFP16ReductionCuBLASEv(const void*);
WRAPPERIR_WEAK uint8_t _ZNK2at7Context24allowBF16ReductionCuBLASEv(const void*);
WRAPPERIR_WEAK bool _ZNK2at7Context27allowFP16AccumulationCuBLASEv(const void*);
WRAPPERIR_WEAK uint64_t _ZNK2at7Context24_SMCarveout_EXPERIMENTALEv(const void*);
WRAPPERIR_WEAK void* _ZN2at4cuda7tunable16getTuningContextEv();
WRAPPERIR_WEAK bool _ZNK2at4cuda7tunable13TuningContext18IsTunableOpEnabledEv(const void*);
WRAPPERIR_WEAK void* _ZN2at4cuda22getCUDABlasLtWorkspaceEv();
WRAPPERIR_WEAK size_t _ZN2at4cuda26getCUDABlasLtWorkspaceSizeEv();
}

#undef WRAPPERIR_WEAK
