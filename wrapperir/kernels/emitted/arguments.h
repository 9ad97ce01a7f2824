// Numbers that kernels are called with, written as the types that their parameters declare.
#pragma once

#include "tensors.h"

#include <stdint.h>
#include <string.h>

#include <map>
#include <string>

namespace {

enum Kind : char { address, descriptor, whole, unsigned_64, half, bfloat, single, real };

// A parameter of a kernel; `low` and `high` are the bounds of a whole number, and `low` is the rank
// of a descriptor.
struct Parameter {
  Kind kind;
  long long low;
  long long high;
};

// Parameters that are numbers, by the names of their types in programs and in Triton.
const std::map<std::string, Parameter>& known_types() {
  static const std::map<std::string, Parameter> types = {
      {"bool", {whole, 0, 1}},
      {"i1", {whole, 0, 1}},
      {"u1", {whole, 0, 1}},
      {"i8", {whole, INT8_MIN, INT8_MAX}},
      {"u8", {whole, 0, UINT8_MAX}},
      {"i16", {whole, INT16_MIN, INT16_MAX}},
      {"u16", {whole, 0, UINT16_MAX}},
      {"i32", {whole, INT32_MIN, INT32_MAX}},
      {"u32", {whole, 0, UINT32_MAX}},
      {"i64", {whole, INT64_MIN, INT64_MAX}},
      {"u64", {unsigned_64, 0, 0}},
      {"f16", {half, 0, 0}},
      {"fp16", {half, 0, 0}},
      {"bf16", {bfloat, 0, 0}},
      {"f32", {single, 0, 0}},
      {"fp32", {single, 0, 0}},
      {"f64", {real, 0, 0}},
      {"fp64", {real, 0, 0}},
  };
  return types;
}

// Why an object cannot be an argument: its type is wrong, or the parameter cannot hold its value.
enum class Fault { none, type, value };

// Write a number as the type of a parameter.  A fault may leave a Python error, which the caller
// replaces.
Fault write_number(const Parameter& parameter, PyObject* given, uint64_t* result) {
  if (parameter.kind == whole || parameter.kind == unsigned_64) {
    PyObject* number = PyLong_Check(given) ? Py_NewRef(given) : PyNumber_Index(given);
    if (!number) return Fault::type;
    int overflow = 0;
    if (parameter.kind == whole) {
      const long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
      overflow |= value < parameter.low || value > parameter.high;
      *result = static_cast<uint64_t>(value);
    } else {
      *result = PyLong_AsUnsignedLongLong(number);
      overflow = PyErr_Occurred() != nullptr;
    }
    Py_DECREF(number);
    return overflow ? Fault::value : Fault::none;
  }
  const double value = PyFloat_AsDouble(given);
  if (value == -1.0 && PyErr_Occurred())
    return PyErr_ExceptionMatches(PyExc_OverflowError) ? Fault::value : Fault::type;
  const float narrowed = static_cast<float>(value);
  *result = 0;
  if (parameter.kind == real) {
    memcpy(result, &value, sizeof(value));
  } else if (parameter.kind == half) {
    if (PyFloat_Pack2(value, reinterpret_cast<char*>(result), 1)) return Fault::value;
  } else {
    memcpy(result, &narrowed, sizeof(narrowed));
    if (parameter.kind == bfloat) *result >>= 16;
  }
  return Fault::none;
}

}  // namespace
