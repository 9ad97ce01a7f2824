// Calls of PyTorch's operators: what emitted programs write their arguments and results with.
//
// An operator is called through PyTorch's C function for it where there is one, which the
// program declares itself; otherwise by name, through the dispatcher, with tagged values.
#pragma once

#include <initializer_list>

#include "numbers.h"
#include "runtime.h"

// Products of matrices, in PyTorch's own libraries: BLAS's interface of Fortran.
extern "C" {
void sgemm_(
    const char*, const char*, const int*, const int*, const int*, const float*, const float*,
    const int*, const float*, const int*, const float*, float*, const int*);
void dgemm_(
    const char*, const char*, const int*, const int*, const int*, const double*, const double*,
    const int*, const double*, const int*, const double*, double*, const int*);
}

typedef struct AtenGeneratorOpaque* AtenGeneratorHandle;

namespace wrapperir {
namespace op {

// An operator's registered name, such as "aten::mm"; the overload may be empty.
struct Operator {
  const char* name;
  const char* overload;
};

enum class Layout : int32_t {
  strided, sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc,
};
enum class MemoryFormat : int32_t {
  contiguous_format, preserve_format, channels_last, channels_last_3d,
};
// PyTorch's codes of them, and of element types that have a function for it.
int32_t torch_layout(Layout layout);
int32_t torch_memory_format(MemoryFormat format);

enum class Kind : int32_t {
  none, tensor, integer, real, boolean, complex, string, dtype, layout, memory_format, device,
  integers, list,
};

// A tagged value that an operator is given. What it points to outlives the call.
struct Argument {
  Kind kind = Kind::none;
  bool is_optional = false;  // the schema lets it be none
  int64_t count = 0;         // of a list or string; the index of a device
  union {
    AtenTensorHandle tensor;
    int64_t integer;  // also the code of a dtype, layout, memory format or kind of device
    double real;
    double parts[2];
    const char* string;
    const int64_t* integers;
    const Argument* items;
  };
  Argument() : parts{} {}
};

inline Argument none() { return {}; }
// A tensor; no handle is none.
inline Argument tensor(AtenTensorHandle handle) {
  Argument made;
  if (handle) made.kind = Kind::tensor;
  made.tensor = handle;
  return made;
}
inline Argument coded(Kind kind, int64_t value) {
  Argument made;
  made.kind = kind;
  made.integer = value;
  return made;
}
inline Argument integer(int64_t value) { return coded(Kind::integer, value); }
inline Argument boolean(bool value) { return coded(Kind::boolean, value); }
inline Argument dtype(DType value) { return coded(Kind::dtype, torch_dtype(value)); }
inline Argument layout(Layout value) { return coded(Kind::layout, torch_layout(value)); }
inline Argument memory_format(MemoryFormat value) {
  return coded(Kind::memory_format, torch_memory_format(value));
}
inline Argument device(Device kind, int32_t index) {
  Argument made = coded(Kind::device, torch_device(kind));
  made.count = index;
  return made;
}
inline Argument real(double value) {
  Argument made;
  made.kind = Kind::real;
  made.real = value;
  return made;
}
inline Argument number(num::Number value) {
  switch (value.kind) {
    case num::Number::boolean: return boolean(value.whole != 0);
    case num::Number::integer: return integer(value.whole);
    default: return real(value.real);
  }
}
inline Argument complex(double real, double imaginary) {
  Argument made;
  made.kind = Kind::complex;
  made.parts[0] = real;
  made.parts[1] = imaginary;
  return made;
}
inline Argument string(const char* text, int64_t length) {
  Argument made;
  made.kind = Kind::string;
  made.string = text;
  made.count = length;
  return made;
}
inline Argument integers(const Ints& values) {
  Argument made;
  made.kind = Kind::integers;
  made.integers = values.data;
  made.count = values.count;
  return made;
}
inline Argument list(std::initializer_list<Argument> items) {
  Argument made;
  made.kind = Kind::list;
  made.items = items.begin();
  made.count = static_cast<int64_t>(items.size());
  return made;
}
// What the schema lets be none.
inline Argument maybe(Argument value) {
  value.is_optional = true;
  return value;
}

// Where a result goes. Kind::none drops it.
struct Result {
  Kind kind = Kind::none;
  Kind returned = Kind::tensor;  // what the schema says that it is
  bool is_optional = false;
  int64_t count = 0;
  union {
    Tensor* tensor;
    int64_t* integer;
    double* real;
    bool* boolean;
    const Result* items;
  };
  Result() : tensor(nullptr) {}
};

inline Result result(Tensor& slot) {
  Result made;
  made.kind = Kind::tensor;
  made.tensor = &slot;
  return made;
}
inline Result result(int64_t& slot) {
  Result made;
  made.kind = made.returned = Kind::integer;
  made.integer = &slot;
  return made;
}
inline Result result(double& slot) {
  Result made;
  made.kind = made.returned = Kind::real;
  made.real = &slot;
  return made;
}
inline Result result(bool& slot) {
  Result made;
  made.kind = made.returned = Kind::boolean;
  made.boolean = &slot;
  return made;
}
inline Result results(std::initializer_list<Result> items) {
  Result made;
  made.kind = made.returned = Kind::list;
  made.items = items.begin();
  made.count = static_cast<int64_t>(items.size());
  return made;
}
inline Result dropped(Kind returned) {
  Result made;
  made.returned = returned;
  return made;
}
inline Result maybe(Result made) {
  made.is_optional = true;
  return made;
}

// Call an operator through PyTorch's stable C interface, which carries no numbers of the
// schema's type Scalar, no complex ones, and none for tensors. All arguments that the schema
// names are given, and a result for each that it returns.
void call(
    const Operator& callee, std::initializer_list<Argument> arguments,
    std::initializer_list<Result> results, int line);
// Call any operator, through operators.so, which is built with PyTorch's C++ headers.
void call_boxed(
    const Operator& callee, std::initializer_list<Argument> arguments,
    std::initializer_list<Result> results, int line);

// An optional that is there, or a list, for a C function of PyTorch's: it lives as long as
// the call that it is an argument of.
template <typename T>
struct Some {
  T value;
  operator T*() { return &value; }
};
template <typename T>
T* list_of(std::initializer_list<T> items) {
  return const_cast<T*>(items.begin());
}

// result = alpha · a · b + beta · result, for matrices in Fortran's order.
inline void gemm(
    const char* transposed, int m, int n, int k, float alpha, const float* a, int lda,
    const float* b, int ldb, float beta, float* result, int ldc) {
  sgemm_(transposed, transposed + 1, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, result, &ldc);
}
inline void gemm(
    const char* transposed, int m, int n, int k, double alpha, const double* a, int lda,
    const double* b, int ldb, double beta, double* result, int ldc) {
  dgemm_(transposed, transposed + 1, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, result, &ldc);
}
template <typename T>
void copy_matrix(
    T* to, int64_t to_row, int64_t to_column, const T* from, int64_t from_row,
    int64_t from_column, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      to[i * to_row + j * to_column] = from[i * from_row + j * from_column];
    }
  }
}

}  // namespace op
}  // namespace wrapperir
