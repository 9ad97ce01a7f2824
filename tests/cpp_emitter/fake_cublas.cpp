// cuBLAS without a GPU, and PyTorch's part of it: products are computed on the host, and every
// call is written to the log of fake_cuda.cpp.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <map>
#include <string>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

void note(const char* format, ...);
std::string name_of(void* stream);
extern thread_local void *current_stream, *entered_stream;

namespace {

thread_local int mode = 0;
int failing_status = 0;
bool has_algorithms = true;
bool is_tuned = false;
char workspace[64];

template <typename F>
F* real(const char* name) {
  static void* torch = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
  return reinterpret_cast<F*>(dlsym(torch, name));
}

enum Type { f32 = 0, f64 = 1, f16 = 2, bf16 = 14 };
const char* name_of_type(int type) {
  return type == f32 ? "f32" : type == f64 ? "f64" : type == f16 ? "f16" : "bf16";
}

double load(const void* data, int64_t at, int type) {
  switch (type) {
    case f32: return static_cast<const float*>(data)[at];
    case f64: return static_cast<const double*>(data)[at];
    case f16: return static_cast<double>(static_cast<const _Float16*>(data)[at]);
  }
  const uint32_t bits = uint32_t{static_cast<const uint16_t*>(data)[at]} << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

void store(void* data, int64_t at, int type, double value) {
  switch (type) {
    case f32: static_cast<float*>(data)[at] = value; return;
    case f64: static_cast<double*>(data)[at] = value; return;
    case f16: static_cast<_Float16*>(data)[at] = static_cast<_Float16>(value); return;
  }
  const float narrow = static_cast<float>(value);
  uint32_t bits;
  memcpy(&bits, &narrow, sizeof bits);
  static_cast<uint16_t*>(data)[at] = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

using Sgemm = void(
    const char*, const char*, const int*, const int*, const int*, const float*, const void*,
    const int*, const void*, const int*, const float*, void*, const int*);
using Dgemm = void(
    const char*, const char*, const int*, const int*, const int*, const double*, const void*,
    const int*, const void*, const int*, const double*, void*, const int*);

// The bits of floats are those of the host's BLAS.
void multiply(
    int type, int a_op, int b_op, int m, int n, int k, double alpha, const void* a, int lda,
    const void* b, int ldb, double beta, void* c, int ldc) {
  const char* first = a_op ? "T" : "N";
  const char* second = b_op ? "T" : "N";
  const float scales[] = {static_cast<float>(alpha), static_cast<float>(beta)};
  if (type == f32)
    return real<Sgemm>("sgemm_")(
        first, second, &m, &n, &k, &scales[0], a, &lda, b, &ldb, &scales[1], c, &ldc);
  if (type == f64)
    return real<Dgemm>("dgemm_")(
        first, second, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += load(a, a_op ? i * lda + l : l * lda + i, type) *
            load(b, b_op ? l * ldb + j : j * ldb + l, type);
      const double before = beta ? beta * load(c, j * ldc + i, type) : 0;
      store(c, j * ldc + i, type, alpha * sum + before);
    }
}

std::string shape(
    int type, int a_op, int b_op, int m, int n, int k, int lda, int ldb, int ldc) {
  char text[128];
  snprintf(
      text, sizeof text, "%s %c%c %dx%dx%d by %d %d %d", name_of_type(type), "NT"[a_op],
      "NT"[b_op], m, n, k, lda, ldb, ldc);
  return text;
}

int multiply_once(
    const char* name, int type, int a_op, int b_op, int m, int n, int k, double alpha,
    const void* a, int lda, const void* b, int ldb, double beta, void* c, int ldc) {
  note(
      "%s %s times %g plus %g mode %d", name,
      shape(type, a_op, b_op, m, n, k, lda, ldb, ldc).c_str(), alpha, beta, mode);
  if (failing_status) return failing_status;
  multiply(type, a_op, b_op, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  return 0;
}

int multiply_batch(
    const char* name, int type, int a_op, int b_op, int m, int n, int k, double alpha,
    const void* a, int lda, long long a_step, const void* b, int ldb, long long b_step,
    double beta, void* c, int ldc, long long c_step, int batches) {
  note(
      "%s %s times %g plus %g mode %d batches %d by %lld %lld %lld", name,
      shape(type, a_op, b_op, m, n, k, lda, ldb, ldc).c_str(), alpha, beta, mode, batches,
      a_step, b_step, c_step);
  const int bytes = type == f64 ? 8 : type == f32 ? 4 : 2;
  const auto at = [&](const void* data, long long step, int batch) {
    return static_cast<const char*>(data) + batch * step * bytes;
  };
  for (int i = 0; i < batches; ++i)
    multiply(
        type, a_op, b_op, m, n, k, alpha, at(a, a_step, i), lda, at(b, b_step, i), ldb, beta,
        const_cast<char*>(at(c, c_step, i)), ldc);
  return 0;
}

using Attributes = std::map<int, uint64_t>;
struct Layout {
  int type;
  int64_t rows, columns, step;
};
struct Description {
  int compute, scale;
  Attributes attributes;
};

uint64_t word(const void* value, size_t bytes) {
  uint64_t made = 0;
  memcpy(&made, value, bytes);
  return made;
}

}  // namespace

// What the tests ask for.

EXPORT void fake_fail_products(int status) { failing_status = status; }
EXPORT void fake_have_algorithms(bool value) { has_algorithms = value; }
EXPORT void fake_tune_products(bool value) { is_tuned = value; }

// PyTorch.

EXPORT int torch_get_current_cuda_blas_handle(void** handle) {
  const auto context = real<void*()>("_ZN2at13globalContextEv")();
  mode = real<bool(void*)>("_ZNK2at7Context15allowTF32CuBLASEv")(context) ? 3 : 0;
  note("handle for %s", name_of(entered_stream ? entered_stream : current_stream).c_str());
  *handle = &mode;
  return 0;
}
EXPORT void* _ZN2at4cuda7tunable16getTuningContextEv() { return &is_tuned; }
EXPORT bool _ZNK2at4cuda7tunable13TuningContext18IsTunableOpEnabledEv(const bool* tuning) {
  return *tuning;
}
EXPORT void* _ZN2at4cuda22getCUDABlasLtWorkspaceEv() { return workspace; }
EXPORT size_t _ZN2at4cuda26getCUDABlasLtWorkspaceSizeEv() { return sizeof workspace; }

// cuBLAS.

EXPORT const char* cublasGetStatusString(int) { return "a status of the fake"; }
EXPORT int cublasSetMathMode(void*, int value) {
  mode = value;
  return 0;
}
EXPORT int cublasGetMathMode(void*, int* value) {
  *value = mode;
  return 0;
}
EXPORT int cublasSgemm_v2(
    void*, int a_op, int b_op, int m, int n, int k, const float* alpha, const void* a, int lda,
    const void* b, int ldb, const float* beta, void* c, int ldc) {
  return multiply_once(
      "gemm", f32, a_op, b_op, m, n, k, *alpha, a, lda, b, ldb, *beta, c, ldc);
}
EXPORT int cublasDgemm_v2(
    void*, int a_op, int b_op, int m, int n, int k, const double* alpha, const void* a, int lda,
    const void* b, int ldb, const double* beta, void* c, int ldc) {
  return multiply_once(
      "gemm", f64, a_op, b_op, m, n, k, *alpha, a, lda, b, ldb, *beta, c, ldc);
}
EXPORT int cublasGemmEx(
    void*, int a_op, int b_op, int m, int n, int k, const float* alpha, const void* a,
    int a_type, int lda, const void* b, int b_type, int ldb, const float* beta, void* c,
    int c_type, int ldc, int compute, int algorithm) {
  if (a_type != b_type || a_type != c_type || compute != 68 || algorithm != 99)
    note("wrong types or algorithm");
  return multiply_once(
      "gemm", a_type, a_op, b_op, m, n, k, *alpha, a, lda, b, ldb, *beta, c, ldc);
}
EXPORT int cublasSgemmStridedBatched(
    void*, int a_op, int b_op, int m, int n, int k, const float* alpha, const void* a, int lda,
    long long a_step, const void* b, int ldb, long long b_step, const float* beta, void* c,
    int ldc, long long c_step, int batches) {
  return multiply_batch(
      "batch", f32, a_op, b_op, m, n, k, *alpha, a, lda, a_step, b, ldb, b_step, *beta, c, ldc,
      c_step, batches);
}
EXPORT int cublasDgemmStridedBatched(
    void*, int a_op, int b_op, int m, int n, int k, const double* alpha, const void* a, int lda,
    long long a_step, const void* b, int ldb, long long b_step, const double* beta, void* c,
    int ldc, long long c_step, int batches) {
  return multiply_batch(
      "batch", f64, a_op, b_op, m, n, k, *alpha, a, lda, a_step, b, ldb, b_step, *beta, c, ldc,
      c_step, batches);
}
EXPORT int cublasGemmStridedBatchedEx(
    void*, int a_op, int b_op, int m, int n, int k, const float* alpha, const void* a,
    int a_type, int lda, long long a_step, const void* b, int b_type, int ldb,
    long long b_step, const float* beta, void* c, int c_type, int ldc, long long c_step,
    int batches, int compute, int algorithm) {
  if (a_type != b_type || a_type != c_type || compute != 68 || algorithm != 99)
    note("wrong types or algorithm");
  return multiply_batch(
      "batch", a_type, a_op, b_op, m, n, k, *alpha, a, lda, a_step, b, ldb, b_step, *beta, c,
      ldc, c_step, batches);
}

// cuBLASLt.

EXPORT int cublasLtMatmulDescCreate(void** made, int compute, int scale) {
  *made = new Description{compute, scale, {}};
  return 0;
}
EXPORT int cublasLtMatmulDescDestroy(void* of) {
  delete static_cast<Description*>(of);
  return 0;
}
EXPORT int cublasLtMatmulDescSetAttribute(
    void* of, int name, const void* value, size_t bytes) {
  static_cast<Description*>(of)->attributes[name] = word(value, bytes);
  return 0;
}
EXPORT int cublasLtMatrixLayoutCreate(
    void** made, int type, uint64_t rows, uint64_t columns, int64_t step) {
  *made = new Layout{type, int64_t(rows), int64_t(columns), step};
  return 0;
}
EXPORT int cublasLtMatrixLayoutDestroy(void* of) {
  delete static_cast<Layout*>(of);
  return 0;
}
EXPORT int cublasLtMatmulPreferenceCreate(void** made) {
  *made = new Attributes;
  return 0;
}
EXPORT int cublasLtMatmulPreferenceDestroy(void* of) {
  delete static_cast<Attributes*>(of);
  return 0;
}
EXPORT int cublasLtMatmulPreferenceSetAttribute(
    void* of, int name, const void* value, size_t bytes) {
  (*static_cast<Attributes*>(of))[name] = word(value, bytes);
  return 0;
}
EXPORT int cublasLtMatmulAlgoGetHeuristic(
    void*, Description* of, Layout*, Layout*, Layout*, Layout*, Attributes* preferred,
    int wanted, uint64_t* results, int* count) {
  std::string text;
  for (const auto& [name, value] : *preferred)
    text += " " + std::to_string(name) + "=" + std::to_string(value);
  note("choose compute %d scale %d epilogue %d%s", of->compute, of->scale,
       int(of->attributes[7]), text.c_str());
  results[0] = 0x5eed;
  *count = has_algorithms && wanted == 1;
  return 0;
}
EXPORT int cublasLtMatmul(
    void*, Description* of, const void* alpha, const void* a, const Layout* a_layout,
    const void* b, const Layout* b_layout, const void* beta, const void* source, const Layout*,
    void* c, const Layout* c_layout, const uint64_t* algorithm, void* memory, size_t bytes,
    void* stream) {
  const bool is_double = of->scale == f64;
  const double factor = is_double ? *static_cast<const double*>(alpha)
                                  : *static_cast<const float*>(alpha);
  const double added =
      is_double ? *static_cast<const double*>(beta) : *static_cast<const float*>(beta);
  const int a_op = int(of->attributes[3]), b_op = int(of->attributes[4]);
  const int type = c_layout->type;
  const int m = int(c_layout->rows), n = int(c_layout->columns);
  const int k = int(a_op ? a_layout->rows : a_layout->columns);
  if (added || source != c || *algorithm != 0x5eed || memory != workspace ||
      bytes != sizeof workspace || (b_op ? b_layout->columns : b_layout->rows) != k)
    note("wrong arguments of cublasLtMatmul");
  note(
      "biased %s times %g on %s",
      shape(type, a_op, b_op, m, n, k, int(a_layout->step), int(b_layout->step),
            int(c_layout->step)).c_str(),
      factor, name_of(stream).c_str());
  const auto* bias = reinterpret_cast<const void*>(of->attributes[8]);
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < m; ++i) store(c, j * c_layout->step + i, type, load(bias, i, type));
  multiply(
      type, a_op, b_op, m, n, k, factor, a, int(a_layout->step), b, int(b_layout->step), 1, c,
      int(c_layout->step));
  return 0;
}
