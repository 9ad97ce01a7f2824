// Calls of PyTorch's operators, and their arguments and results.
//
// If PyTorch has a C function for an operator, the program declares and calls it. Others are
// called by name, through the dispatcher, with tagged values.
#pragma once

#include <initializer_list>

#include "numbers.h"
#include "runtime.h"

// Matrix products of the BLAS in PyTorch's libraries.
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
// PyTorch's codes of layouts and memory formats.
int32_t torch_layout(Layout layout);
int32_t torch_memory_format(MemoryFormat format);

enum class Kind : int32_t {
  none, tensor, integer, real, boolean, complex, string, dtype, layout, memory_format, device,
  integers, list,
};

// An argument as a tagged value. Its pointers outlive the call.
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

template <typename T>
inline Argument tagged(Kind kind, T Argument::*member, T value, int64_t count = 0) {
  Argument made;
  made.kind = kind;
  made.*member = value;
  made.count = count;
  return made;
}
inline Argument none() { return {}; }
// A tensor; a null handle is none.
WRAPPERIR_CALLED Argument tensor(AtenTensorHandle handle) {
  return tagged(handle ? Kind::tensor : Kind::none, &Argument::tensor, handle);
}
WRAPPERIR_CALLED Argument coded(Kind kind, int64_t value, int64_t count = 0) {
  return tagged(kind, &Argument::integer, value, count);
}
WRAPPERIR_CALLED Argument integer(int64_t value) { return coded(Kind::integer, value); }
WRAPPERIR_CALLED Argument boolean(bool value) { return coded(Kind::boolean, value); }
inline Argument dtype(DType value) { return coded(Kind::dtype, torch_dtype(value)); }
inline Argument layout(Layout value) { return coded(Kind::layout, torch_layout(value)); }
inline Argument memory_format(MemoryFormat value) {
  return coded(Kind::memory_format, torch_memory_format(value));
}
inline Argument device(Device kind, int32_t index) {
  return coded(Kind::device, torch_device(kind), index);
}
WRAPPERIR_CALLED Argument real(double value) { return tagged(Kind::real, &Argument::real, value); }
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
WRAPPERIR_CALLED Argument string(const char* text, int64_t length) {
  return tagged(Kind::string, &Argument::string, text, length);
}
WRAPPERIR_CALLED Argument integers(const Ints& values) {
  return tagged(Kind::integers, &Argument::integers, values.data, values.count);
}
WRAPPERIR_CALLED Argument list(std::initializer_list<Argument> items) {
  const auto count = static_cast<int64_t>(items.size());
  return tagged(Kind::list, &Argument::items, items.begin(), count);
}
// An argument that the schema allows to be none.
WRAPPERIR_CALLED Argument maybe(Argument value) {
  value.is_optional = true;
  return value;
}

// The place of a result; Kind::none drops it.
struct Result {
  Kind kind = Kind::none;
  Kind returned = Kind::tensor;  // its kind in the schema
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

template <typename T>
inline Result stored(Kind kind, T Result::*member, T slot, int64_t count = 0) {
  Result made;
  made.kind = made.returned = kind;
  made.*member = slot;
  made.count = count;
  return made;
}
WRAPPERIR_CALLED Result result(Tensor& slot) {
  return stored(Kind::tensor, &Result::tensor, &slot);
}
inline Result result(int64_t& slot) { return stored(Kind::integer, &Result::integer, &slot); }
inline Result result(double& slot) { return stored(Kind::real, &Result::real, &slot); }
inline Result result(bool& slot) { return stored(Kind::boolean, &Result::boolean, &slot); }
inline Result results(std::initializer_list<Result> items) {
  const auto count = static_cast<int64_t>(items.size());
  return stored(Kind::list, &Result::items, items.begin(), count);
}
WRAPPERIR_CALLED Result dropped(Kind returned) {
  Result made;
  made.returned = returned;
  return made;
}
WRAPPERIR_CALLED Result maybe(Result made) {
  made.is_optional = true;
  return made;
}

// Call an operator through PyTorch's stable C interface, which cannot pass the schema's type
// Scalar, complex numbers, or numbers for tensors. There is an argument for each parameter of
// the schema, and a result for each of its results.
void call(
    const Operator& callee, std::initializer_list<Argument> arguments,
    std::initializer_list<Result> results, int line);
// Call any operator through operators.so, which is built with PyTorch's C++ headers.
void call_boxed(
    const Operator& callee, std::initializer_list<Argument> arguments,
    std::initializer_list<Result> results, int line);

// A present optional, or a list, as an argument of a C function: it lives as long as the call.
template <typename T>
struct Some {
  T value;
  operator T*() { return &value; }
};
template <typename T>
T* list_of(std::initializer_list<T> items) {
  return const_cast<T*>(items.begin());
}

// result = alpha · a · b + beta · result, for column-major matrices.
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
