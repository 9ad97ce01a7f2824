/* One call of a program in C or C++: what failed, and checks of numbers and layouts.

   Each function that can fail returns 0 then, and keeps the first message in `fault`; it
   does nothing if there is a message already. */
#ifndef WIR_RUN_H
#define WIR_RUN_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wir_numbers.h"
#include "wir_program.h"

#define WIR_MESSAGE 1024
#define WIR_MOST_DIMENSIONS 64

/* What the driver keeps as long as a program is loaded; the driver's header defines it. */
typedef struct wir_driver wir_driver;
typedef struct wir_memory wir_memory;

typedef struct {
  wir_driver *driver;
  wir_memory *memories; /* what the call has allocated or borrowed */
  wir_memory **kept;    /* the workspaces that the program keeps between calls */
  const char *fault;
  char *message; /* room for a message */
} wir_run;

/* Keep a message, which is formatted as by printf, and return 0. */
__attribute__((format(printf, 2, 3))) static inline int wir_fail(
    wir_run *r, const char *format, ...) {
  va_list parts;
  if (r->fault != NULL) return 0;
  va_start(parts, format);
  vsnprintf(r->message, WIR_MESSAGE, format, parts);
  va_end(parts);
  r->fault = r->message;
  return 0;
}

static inline int wir_no_memory(wir_run *r) {
  return wir_fail(r, "the host has no memory left");
}

static inline int wir_check(wir_run *r, int64_t holds, const char *message) {
  return r->fault == NULL && (holds || wir_fail(r, "%s", message));
}

/* Check a number; `expected` is the message up to the number. */
static inline int wir_check_whole(
    wir_run *r, const char *expected, int64_t a, int64_t least, int64_t most) {
  if (r->fault != NULL || (a >= least && a <= most)) return r->fault == NULL;
  return wir_fail(r, "%.900s%lld", expected, (long long)a);
}

static inline int wir_check_real(
    wir_run *r, const char *expected, double a, double least, double most) {
  if (r->fault != NULL || (a >= least && a <= most)) return r->fault == NULL;
  return wir_fail(r, "%.900s%.17g", expected, a);
}

/* Return a number that a kernel is given, if its type has it. */
static inline int64_t wir_fits(wir_run *r, int64_t a, int64_t least, int64_t most) {
  if (a >= least && a <= most) return a;
  return wir_fail(r, "an argument does not fit the type of its parameter");
}

/* Write numbers as `[1, 2]`. */
static inline const char *wir_format(char *text, int rank, const int64_t *numbers) {
  int used = snprintf(text, WIR_MESSAGE, "[");
  for (int i = 0; i < rank && used < WIR_MESSAGE - 64; i++)
    used += snprintf(text + used, (size_t)(WIR_MESSAGE - used), i ? ", %lld" : "%lld",
                     (long long)numbers[i]);
  snprintf(text + used, (size_t)(WIR_MESSAGE - used), "]");
  return text;
}

/* Return whether strides are the same, but of dimensions of size 1 and empty tensors. */
static inline int wir_same_strides(
    int rank, const int64_t *size, const int64_t *a, const int64_t *b) {
  int same = 1;
  for (int i = 0; i < rank; i++) {
    if (size[i] == 0) return 1;
    if (size[i] != 1 && a[i] != b[i]) same = 0;
  }
  return same;
}

static inline int wir_same_sizes(int rank, const int64_t *a, const int64_t *b) {
  return rank == 0 || memcmp(a, b, (size_t)rank * sizeof *a) == 0;
}

/* Check that an input has the layout of its type, and as many elements before it. */
static inline int wir_check_input(wir_run *r, const wir_value *v, const char *name, int rank,
                                  const int64_t *size, const int64_t *stride, int64_t offset) {
  char wanted[WIR_MESSAGE], found[WIR_MESSAGE];
  if (r->fault != NULL) return 0;
  if (v->offset < offset)
    return wir_fail(r, "WIR801: %.300s needs offset %lld or more, not %lld", name,
                    (long long)offset, (long long)v->offset);
  if (!wir_same_sizes(rank, v->size, size))
    return wir_fail(r, "WIR801: %.300s needs size %.300s, not %.300s", name,
                    wir_format(wanted, rank, size), wir_format(found, rank, v->size));
  if (!wir_same_strides(rank, size, v->stride, stride))
    return wir_fail(r, "WIR801: %.300s needs stride %.300s, not %.300s", name,
                    wir_format(wanted, rank, stride), wir_format(found, rank, v->stride));
  return 1;
}

/* Compare the layout of a tensor with another one. */
static inline int wir_check_layout(
    wir_run *r, const char *subject, int rank, const int64_t *size, const int64_t *stride,
    const int64_t *wanted_size, const int64_t *wanted_stride) {
  char texts[4][WIR_MESSAGE];
  if (r->fault != NULL) return 0;
  if (wir_same_sizes(rank, size, wanted_size) &&
      wir_same_strides(rank, size, stride, wanted_stride))
    return 1;
  return wir_fail(r, "%.200s has size %.200s and stride %.200s, not %.200s and %.200s",
                  subject, wir_format(texts[0], rank, size),
                  wir_format(texts[1], rank, stride), wir_format(texts[2], rank, wanted_size),
                  wir_format(texts[3], rank, wanted_stride));
}

/* Return the bytes from a first element to the end of the last; 0 without elements. */
static inline int64_t wir_span(
    wir_run *r, int64_t item, int rank, const int64_t *size, const int64_t *stride) {
  int64_t extent = 1;
  for (int i = 0; i < rank; i++) {
    if (size[i] < 0) return wir_fail(r, "a size is negative");
    if (stride[i] < 0) return wir_fail(r, "a stride is negative");
    if (size[i] == 0) return 0;
  }
  for (int i = 0; i < rank; i++)
    extent =
        wir_add(extent, wir_mul(size[i] - 1, stride[i], &r->fault), &r->fault);
  return wir_mul(extent, item, &r->fault);
}

/* Go to the next position of a tensor; return whether there is one. */
static inline int wir_next(int rank, const int64_t *size, int64_t *at) {
  for (int d = rank - 1; d >= 0; d--) {
    if (++at[d] < size[d]) return 1;
    at[d] = 0;
  }
  return 0;
}

static inline int64_t wir_distance(int rank, const int64_t *at, const int64_t *stride) {
  int64_t distance = 0;
  for (int i = 0; i < rank; i++) distance += at[i] * stride[i];
  return distance;
}

#endif
