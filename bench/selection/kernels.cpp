// Kernels of the same meaning and different blocking, and what times them.
//
// Every kernel takes (in, in, out, M, N, K); those of two sizes ignore K and the second
// input.  All matrices are of float, row by row.  Which of a group is best depends on the
// shape: on short rows, tails, sizes that fit in a cache, strides that are powers of two.

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>

namespace {

using Size = std::int64_t;
using Kernel = void (*)(const float*, const float*, float*, Size, Size, Size);

// Remez-like polynomial for 2^x on [-1/2, 1/2]; it has no branch, so loops vectorise.
inline float exponential(float x) {
  x = x < -87.0f ? -87.0f : x;
  float scaled = x * 1.44269504f;
  float whole = std::nearbyint(scaled);
  float rest = scaled - whole;
  float power = 1.0f +
      rest * (0.69314718f +
              rest * (0.24022651f +
                      rest * (0.05550411f + rest * (0.00961813f + rest * 0.00133336f))));
  std::int32_t bits = (static_cast<std::int32_t>(whole) + 127) << 23;
  float factor;
  std::memcpy(&factor, &bits, sizeof factor);
  return power * factor;
}

// ---- sums of rows ----

void row_sum_serial(const float* a, const float*, float* c, Size m, Size n, Size) {
  for (Size i = 0; i < m; ++i) {
    float sum = 0;
#pragma GCC unroll 1
    for (Size j = 0; j < n; ++j) sum += a[i * n + j];
    c[i] = sum;
  }
}

template <int Lanes>
void row_sum_lanes(const float* a, const float*, float* c, Size m, Size n, Size) {
  for (Size i = 0; i < m; ++i) {
    const float* row = a + i * n;
    float lanes[Lanes] = {};
    Size j = 0;
    for (; j + Lanes <= n; j += Lanes)
      for (int l = 0; l < Lanes; ++l) lanes[l] += row[j + l];
    float sum = 0;
    for (int l = 0; l < Lanes; ++l) sum += lanes[l];
    for (; j < n; ++j) sum += row[j];
    c[i] = sum;
  }
}

template <int Rows>
void row_sum_across(const float* a, const float*, float* c, Size m, Size n, Size) {
  Size i = 0;
  for (; i + Rows <= m; i += Rows) {
    float sums[Rows] = {};
    for (Size j = 0; j < n; ++j)
      for (int r = 0; r < Rows; ++r) sums[r] += a[(i + r) * n + j];
    for (int r = 0; r < Rows; ++r) c[i + r] = sums[r];
  }
  for (; i < m; ++i) {
    float sum = 0;
    for (Size j = 0; j < n; ++j) sum += a[i * n + j];
    c[i] = sum;
  }
}

// ---- sums of columns ----

void column_sum_rows(const float* a, const float*, float* c, Size m, Size n, Size) {
  for (Size j = 0; j < n; ++j) c[j] = 0;
  for (Size i = 0; i < m; ++i)
    for (Size j = 0; j < n; ++j) c[j] += a[i * n + j];
}

template <int Block>
void column_sum_block(const float* a, const float*, float* c, Size m, Size n, Size) {
  Size j = 0;
  for (; j + Block <= n; j += Block) {
    float sums[Block] = {};
    for (Size i = 0; i < m; ++i)
      for (int b = 0; b < Block; ++b) sums[b] += a[i * n + j + b];
    for (int b = 0; b < Block; ++b) c[j + b] = sums[b];
  }
  for (; j < n; ++j) {
    float sum = 0;
    for (Size i = 0; i < m; ++i) sum += a[i * n + j];
    c[j] = sum;
  }
}

template <int Rows>
void column_sum_unrolled(const float* a, const float*, float* c, Size m, Size n, Size) {
  for (Size j = 0; j < n; ++j) c[j] = 0;
  Size i = 0;
  for (; i + Rows <= m; i += Rows)
    for (Size j = 0; j < n; ++j) {
      float sum = c[j];
      for (int r = 0; r < Rows; ++r) sum += a[(i + r) * n + j];
      c[j] = sum;
    }
  for (; i < m; ++i)
    for (Size j = 0; j < n; ++j) c[j] += a[i * n + j];
}

// ---- softmax of rows ----

void softmax_stored(const float* a, const float*, float* c, Size m, Size n, Size) {
  for (Size i = 0; i < m; ++i) {
    const float* row = a + i * n;
    float* out = c + i * n;
    float top = -std::numeric_limits<float>::max(), sum = 0;
#pragma omp simd reduction(max : top)
    for (Size j = 0; j < n; ++j) top = row[j] > top ? row[j] : top;
#pragma omp simd reduction(+ : sum)
    for (Size j = 0; j < n; ++j) {
      float e = exponential(row[j] - top);
      out[j] = e;
      sum += e;
    }
    float scale = 1 / sum;
#pragma omp simd
    for (Size j = 0; j < n; ++j) out[j] *= scale;
  }
}

template <int Block>
void softmax_online(const float* a, const float*, float* c, Size m, Size n, Size) {
  for (Size i = 0; i < m; ++i) {
    const float* row = a + i * n;
    float* out = c + i * n;
    float top = -std::numeric_limits<float>::max(), sum = 0;
    for (Size j = 0; j < n; j += Block) {
      Size end = j + Block < n ? j + Block : n;
      float most = top, part = 0;
#pragma omp simd reduction(max : most)
      for (Size k = j; k < end; ++k) most = row[k] > most ? row[k] : most;
#pragma omp simd reduction(+ : part)
      for (Size k = j; k < end; ++k) part += exponential(row[k] - most);
      sum = sum * exponential(top - most) + part;
      top = most;
    }
    float scale = 1 / sum;
#pragma omp simd
    for (Size j = 0; j < n; ++j) out[j] = exponential(row[j] - top) * scale;
  }
}

template <int Rows>
void softmax_across(const float* a, const float*, float* c, Size m, Size n, Size k) {
  Size i = 0;
  for (; i + Rows <= m; i += Rows) {
    const float* rows = a + i * n;
    float* out = c + i * n;
    float top[Rows], sum[Rows] = {};
    for (int r = 0; r < Rows; ++r) top[r] = rows[r * n];
    for (Size j = 1; j < n; ++j)
      for (int r = 0; r < Rows; ++r)
        top[r] = rows[r * n + j] > top[r] ? rows[r * n + j] : top[r];
    for (Size j = 0; j < n; ++j)
      for (int r = 0; r < Rows; ++r) {
        float e = exponential(rows[r * n + j] - top[r]);
        out[r * n + j] = e;
        sum[r] += e;
      }
    for (Size j = 0; j < n; ++j)
      for (int r = 0; r < Rows; ++r) out[r * n + j] /= sum[r];
  }
  if (i < m) softmax_stored(a + i * n, nullptr, c + i * n, m - i, n, k);
}

// ---- transposes ----

void transpose_reads(const float* a, const float*, float* c, Size m, Size n, Size) {
  for (Size i = 0; i < m; ++i)
    for (Size j = 0; j < n; ++j) c[j * m + i] = a[i * n + j];
}

void transpose_writes(const float* a, const float*, float* c, Size m, Size n, Size) {
  for (Size j = 0; j < n; ++j)
    for (Size i = 0; i < m; ++i) c[j * m + i] = a[i * n + j];
}

template <int Block>
void transpose_block(const float* a, const float*, float* c, Size m, Size n, Size) {
  for (Size i = 0; i < m; i += Block)
    for (Size j = 0; j < n; j += Block) {
      if (i + Block <= m && j + Block <= n) {
        float held[Block * Block];
        for (int x = 0; x < Block; ++x)
          for (int y = 0; y < Block; ++y) held[y * Block + x] = a[(i + x) * n + j + y];
        for (int y = 0; y < Block; ++y)
          for (int x = 0; x < Block; ++x) c[(j + y) * m + i + x] = held[y * Block + x];
        continue;
      }
      Size rows = i + Block < m ? i + Block : m, columns = j + Block < n ? j + Block : n;
      for (Size x = i; x < rows; ++x)
        for (Size y = j; y < columns; ++y) c[y * m + x] = a[x * n + y];
    }
}

// ---- products: (M, K) by (K, N) ----

void matmul_rows(const float* a, const float* b, float* c, Size m, Size n, Size k) {
  for (Size i = 0; i < m; ++i) {
    float* out = c + i * n;
    for (Size j = 0; j < n; ++j) out[j] = 0;
    for (Size l = 0; l < k; ++l) {
      float x = a[i * k + l];
      for (Size j = 0; j < n; ++j) out[j] += x * b[l * n + j];
    }
  }
}

// A column of b is copied first, so that each output is a product of two dense vectors.
void matmul_dots(const float* a, const float* b, float* c, Size m, Size n, Size k) {
  static float column[1 << 16];
  for (Size j = 0; j < n; ++j) {
    for (Size l = 0; l < k; ++l) column[l] = b[l * n + j];
    for (Size i = 0; i < m; ++i) {
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (Size l = 0; l < k; ++l) sum += a[i * k + l] * column[l];
      c[i * n + j] = sum;
    }
  }
}

void matmul_edge(const float* a, const float* b, float* c, Size n, Size k, Size i,
                 Size rows, Size j, Size columns) {
  for (Size x = i; x < rows; ++x)
    for (Size y = j; y < columns; ++y) {
      float sum = 0;
      for (Size l = 0; l < k; ++l) sum += a[x * k + l] * b[l * n + y];
      c[x * n + y] = sum;
    }
}

template <int Rows, int Columns>
void matmul_tile(const float* a, const float* b, float* c, Size m, Size n, Size k) {
  for (Size j = 0; j < n; j += Columns)
    for (Size i = 0; i < m; i += Rows) {
      if (i + Rows > m || j + Columns > n) {
        matmul_edge(a, b, c, n, k, i, i + Rows < m ? i + Rows : m, j,
                    j + Columns < n ? j + Columns : n);
        continue;
      }
      float sums[Rows][Columns] = {};
      for (Size l = 0; l < k; ++l)
        for (int x = 0; x < Rows; ++x)
          for (int y = 0; y < Columns; ++y)
            sums[x][y] += a[(i + x) * k + l] * b[l * n + j + y];
      for (int x = 0; x < Rows; ++x)
        for (int y = 0; y < Columns; ++y) c[(i + x) * n + j + y] = sums[x][y];
    }
}

// Panels of b, padded to whole tiles, are packed first.
template <int Rows, int Columns>
void matmul_packed(const float* a, const float* b, float* c, Size m, Size n, Size k) {
  static float panel[Columns << 16];
  for (Size j = 0; j < n; j += Columns) {
    Size columns = j + Columns <= n ? Columns : n - j;
    for (Size l = 0; l < k; ++l)
      for (Size y = 0; y < Columns; ++y)
        panel[l * Columns + y] = y < columns ? b[l * n + j + y] : 0;
    for (Size i = 0; i < m; i += Rows) {
      float sums[Rows][Columns] = {};
      Size at[Rows];
      for (int x = 0; x < Rows; ++x) at[x] = (i + x < m ? i + x : m - 1) * k;
      for (Size l = 0; l < k; ++l)
        for (int x = 0; x < Rows; ++x)
          for (int y = 0; y < Columns; ++y)
            sums[x][y] += a[at[x] + l] * panel[l * Columns + y];
      for (int x = 0; x < Rows && i + x < m; ++x)
        for (Size y = 0; y < columns; ++y) c[(i + x) * n + j + y] = sums[x][y];
    }
  }
}

struct Named {
  const char* task;
  const char* choice;
  Kernel kernel;
};

const Named kernels[] = {
    {"row_sum", "serial", row_sum_serial},
    {"row_sum", "lanes8", row_sum_lanes<8>},
    {"row_sum", "lanes32", row_sum_lanes<32>},
    {"row_sum", "lanes128", row_sum_lanes<128>},
    {"row_sum", "across16", row_sum_across<16>},
    {"column_sum", "rows", column_sum_rows},
    {"column_sum", "block16", column_sum_block<16>},
    {"column_sum", "block128", column_sum_block<128>},
    {"column_sum", "unrolled8", column_sum_unrolled<8>},
    {"softmax", "stored", softmax_stored},
    {"softmax", "online256", softmax_online<256>},
    {"softmax", "online4096", softmax_online<4096>},
    {"softmax", "across16", softmax_across<16>},
    {"transpose", "reads", transpose_reads},
    {"transpose", "writes", transpose_writes},
    {"transpose", "block8", transpose_block<8>},
    {"transpose", "block16", transpose_block<16>},
    {"transpose", "block32", transpose_block<32>},
    {"matmul", "rows", matmul_rows},
    {"matmul", "dots", matmul_dots},
    {"matmul", "tile4x16", matmul_tile<4, 16>},
    {"matmul", "tile4x64", matmul_tile<4, 64>},
    {"matmul", "packed6x32", matmul_packed<6, 32>},
};

}  // namespace

extern "C" {

// The name of a kernel's group, and its own; null after the last.
const char* kernel_task(int index) {
  constexpr int count = sizeof kernels / sizeof *kernels;
  return index < count ? kernels[index].task : nullptr;
}

const char* kernel_choice(int index) { return kernels[index].choice; }

// Nanoseconds of one call, the mean over ``calls`` one after another.
double kernel_time(int index, const float* a, const float* b, float* c, Size m, Size n,
                   Size k, Size calls) {
  Kernel kernel = kernels[index].kernel;
  auto begin = std::chrono::steady_clock::now();
  for (Size call = 0; call < calls; ++call) {
    kernel(a, b, c, m, n, k);
    asm volatile("" : : "r"(c) : "memory");
  }
  std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
  return taken.count() / static_cast<double>(calls);
}
}
