/* The run-time support of programs over the OpenCL API.

   A program includes this header once.  Every function that can fail returns 0 and keeps
   the first message; later calls of the same run then do nothing.  All memory and events
   of a run are in lists of the run, so that its end releases whatever is left. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIR_MESSAGE 1024
#define WIR_LOG 65536

/* An input or output, as load.py fills it in.  `data` is the first element; `offset`
   counts elements of its storage before that.  Of an output, `source` is the number of
   the input that it is a view of, or -1, and `memory` of `bytes` has its elements; its
   `offset` is the byte of its first element in that memory, or from the input's. */
struct wir_run;

typedef struct {
  char *data;
  int64_t *size, *stride;
  int64_t offset, whole;
  double real;
  int64_t source;
  char *memory;
  int64_t bytes;
} wir_value;

/* What a program defines before and after this header. */
static const char *const ENTRIES[], *const SOURCES[];
static int wir_program(struct wir_run *, const wir_value *, wir_value *);


/* Memory of the device, `mem`, or of the host, `cpu`, which the program has `own` or
   borrows.  `input` is the number of the input that it is or is a copy of, or -1; `lead`
   are the bytes before its first element.  `host` is what outputs are given. */
typedef struct wir_memory {
  cl_mem mem;
  char *cpu, *host;
  int own;
  int64_t bytes, names, input, lead;
  struct wir_memory *previous, *next;
} wir_memory;

/* A tensor: its memory, and the bytes at which its storage and its first element begin. */
typedef struct {
  wir_memory *memory;
  int64_t begin, first;
} wir_tensor;

typedef struct {
  cl_context context;
  cl_device_id device;
  cl_command_queue queues[WIR_QUEUES];
  cl_program programs[WIR_KERNELS + 1];
  cl_kernel kernels[WIR_KERNELS + 1];
  wir_memory *kept[WIR_KEPT + 1]; /* workspaces that live between calls */
  cl_mem fault;                   /* the number of a kernel whose check failed */
  pthread_mutex_t lock;
} wir_state;

typedef struct wir_run {
  wir_state *state;
  wir_memory *memories;
  cl_event events[WIR_EVENTS + 1];
  int failed, checks; /* checks: whether a kernel may have left its number */
  char *message;
} wir_run;

static int64_t wir_live; /* bytes of the device that this library holds */
static pthread_mutex_t wir_live_lock = PTHREAD_MUTEX_INITIALIZER;

static void wir_count(int64_t bytes) {
  pthread_mutex_lock(&wir_live_lock);
  wir_live += bytes;
  pthread_mutex_unlock(&wir_live_lock);
}

static int wir_fail(wir_run *r, const char *message) {
  if (!r->failed) snprintf(r->message, WIR_MESSAGE, "%s", message);
  r->failed = 1;
  return 0;
}

static int wir_cl(wir_run *r, cl_int code, const char *call) {
  if (code == CL_SUCCESS) return !r->failed;
  char text[128];
  snprintf(text, sizeof text, "%s failed with OpenCL error %d", call, (int)code);
  return wir_fail(r, text);
}

/* Numbers: whole numbers that do not fit 64 bits are faults. */
static int64_t wir_overflow(wir_run *r) {
  return wir_fail(r, "a number does not fit 64 bits");
}
static int64_t wir_add(int64_t a, int64_t b, wir_run *r) {
  int64_t c;
  return __builtin_add_overflow(a, b, &c) ? wir_overflow(r) : c;
}
static int64_t wir_sub(int64_t a, int64_t b, wir_run *r) {
  int64_t c;
  return __builtin_sub_overflow(a, b, &c) ? wir_overflow(r) : c;
}
static int64_t wir_mul(int64_t a, int64_t b, wir_run *r) {
  int64_t c;
  return __builtin_mul_overflow(a, b, &c) ? wir_overflow(r) : c;
}
static int64_t wir_floordiv(int64_t a, int64_t b, wir_run *r) {
  if (b == 0) return wir_fail(r, "division by zero");
  if (b == -1) return wir_sub(0, a, r);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static int64_t wir_mod(int64_t a, int64_t b, wir_run *r) {
  if (b == 0) return wir_fail(r, "division by zero");
  if (b == -1) return 0;
  int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
static int64_t wir_ceildiv(int64_t a, int64_t b, wir_run *r) {
  return wir_sub(0, wir_floordiv(wir_sub(0, a, r), b, r), r);
}
static int64_t wir_min(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t wir_max(int64_t a, int64_t b) { return a > b ? a : b; }
static double wir_truediv(double a, double b, wir_run *r) {
  if (b == 0) wir_fail(r, "division by zero");
  return b == 0 ? 0 : a / b;
}
static int64_t wir_whole(double a, wir_run *r) {
  if (a >= -0x1p63 && a < 0x1p63 && a == floor(a)) return (int64_t)a;
  return wir_fail(r, "a number is not whole, or does not fit 64 bits");
}
static int64_t wir_trunc(double a, wir_run *r) {
  if (a > -0x1p63 && a < 0x1p63) return (int64_t)a;
  return wir_fail(r, "a number does not fit 64 bits");
}
static int64_t wir_fits(wir_run *r, int64_t a, int64_t least, int64_t most) {
  if (a >= least && a <= most) return a;
  return wir_fail(r, "an argument does not fit the type of its parameter");
}

/* Checks of numbers and layouts.  `expected` is the message up to the value. */
static int wir_check_whole(
    wir_run *r, const char *expected, int64_t a, int64_t least, int64_t most) {
  if (r->failed || (a >= least && a <= most)) return !r->failed;
  char text[WIR_MESSAGE];
  snprintf(text, sizeof text, "%.900s%lld", expected, (long long)a);
  return wir_fail(r, text);
}
static int wir_check_real(
    wir_run *r, const char *expected, double a, double least, double most) {
  if (r->failed || (a >= least && a <= most)) return !r->failed;
  char text[WIR_MESSAGE];
  snprintf(text, sizeof text, "%.900s%.17g", expected, a);
  return wir_fail(r, text);
}
static int wir_check(wir_run *r, int64_t holds, const char *message) {
  return !r->failed && (holds || wir_fail(r, message));
}

static int wir_format(char *text, int used, int rank, const int64_t *numbers) {
  used += snprintf(text + used, WIR_MESSAGE - used, "[");
  for (int i = 0; i < rank && used < WIR_MESSAGE - 64; i++)
    used += snprintf(text + used, WIR_MESSAGE - used, i ? ", %lld" : "%lld",
                     (long long)numbers[i]);
  return used + snprintf(text + used, WIR_MESSAGE - used, "]");
}

/* Return whether strides are the same, but of dimensions of size 1 and empty tensors. */
static int wir_same_strides(
    int rank, const int64_t *size, const int64_t *a, const int64_t *b) {
  int same = 1;
  for (int i = 0; i < rank; i++) {
    if (size[i] == 0) return 1;
    if (size[i] != 1 && a[i] != b[i]) same = 0;
  }
  return same;
}

static int wir_check_input(wir_run *r, const wir_value *v, const char *name, int rank,
                           const int64_t *size, const int64_t *stride, int64_t offset) {
  if (r->failed) return 0;
  char text[WIR_MESSAGE];
  int used = snprintf(text, sizeof text, "WIR801: %.300s needs ", name);
  if (v->offset < offset) {
    snprintf(text + used, sizeof text - used, "offset %lld or more, not %lld",
             (long long)offset, (long long)v->offset);
    return wir_fail(r, text);
  }
  int is_size = !rank || !memcmp(v->size, size, rank * sizeof *size);
  if (is_size && wir_same_strides(rank, size, v->stride, stride)) return 1;
  used += snprintf(text + used, sizeof text - used, is_size ? "stride " : "size ");
  used = wir_format(text, used, rank, is_size ? stride : size);
  used += snprintf(text + used, sizeof text - used, ", not ");
  wir_format(text, used, rank, is_size ? v->stride : v->size);
  return wir_fail(r, text);
}

static int wir_check_layout(
    wir_run *r, const char *subject, int rank, const int64_t *size, const int64_t *stride,
    const int64_t *wanted_size, const int64_t *wanted_stride) {
  if (r->failed) return 0;
  if ((!rank || !memcmp(size, wanted_size, rank * sizeof *size)) &&
      wir_same_strides(rank, size, stride, wanted_stride))
    return 1;
  char text[WIR_MESSAGE];
  int used = snprintf(text, sizeof text, "%.400s has size ", subject);
  used = wir_format(text, used, rank, size);
  used += snprintf(text + used, sizeof text - used, " and stride ");
  used = wir_format(text, used, rank, stride);
  used += snprintf(text + used, sizeof text - used, ", not ");
  used = wir_format(text, used, rank, wanted_size);
  used += snprintf(text + used, sizeof text - used, " and ");
  wir_format(text, used, rank, wanted_stride);
  return wir_fail(r, text);
}

/* Return the bytes from a first element to the end of the last; 0 without elements. */
static int64_t wir_span(
    wir_run *r, int64_t item, int rank, const int64_t *size, const int64_t *stride) {
  int64_t extent = 1;
  for (int i = 0; i < rank; i++) {
    if (size[i] < 0) return wir_fail(r, "a size is negative");
    if (stride[i] < 0) return wir_fail(r, "a stride is negative");
    if (size[i] == 0) return 0;
  }
  for (int i = 0; i < rank; i++)
    extent = wir_add(extent, wir_mul(size[i] - 1, stride[i], r), r);
  return wir_mul(extent, item, r);
}

/* Memory. */
static void wir_destroy(wir_memory *m) {
  if (m->mem) clReleaseMemObject(m->mem), wir_count(-m->bytes);
  if (m->own && m->cpu != m->host) free(m->cpu);
  free(m->host);
  free(m);
}

static wir_memory *wir_create(wir_run *r, int on_host, int64_t bytes) {
  if (r->failed) return NULL;
  wir_memory *m = calloc(1, sizeof *m);
  if (!m) return wir_fail(r, "the host has no memory left"), NULL;
  m->bytes = bytes, m->input = -1, m->names = 1;
  if (on_host) {
    void *cpu = NULL;
    if (posix_memalign(&cpu, 128, bytes > 0 ? bytes : 1))
      return wir_fail(r, "the host has no memory left"), free(m), NULL;
    m->cpu = cpu, m->own = 1;
    return m;
  }
  cl_int code;
  m->mem = clCreateBuffer(r->state->context, CL_MEM_READ_WRITE, bytes > 0 ? bytes : 1,
                          NULL, &code);
  if (code != CL_SUCCESS) m->mem = NULL;
  if (m->mem) wir_count(bytes);
  if (!wir_cl(r, code, "clCreateBuffer")) return wir_destroy(m), NULL;
  return m;
}

static int wir_hold(wir_run *r, wir_memory *m) {
  if (!m) return 0;
  m->next = r->memories;
  if (m->next) m->next->previous = m;
  r->memories = m;
  return !r->failed;
}

/* Allocate memory for a tensor whose storage is `offset` + `span` bytes. */
static int wir_allocate(
    wir_run *r, wir_tensor *t, int on_host, int64_t offset, int64_t span) {
  wir_memory *m = wir_create(r, on_host, wir_add(offset, span, r));
  if (!wir_hold(r, m)) return 0;
  *t = (wir_tensor){m, 0, offset};
  return 1;
}

static int wir_zero(wir_run *r, wir_tensor t, int64_t span) {
  const cl_uchar zero = 0;
  if (r->failed || span == 0) return !r->failed;
  if (t.memory->cpu) return memset(t.memory->cpu + t.first, 0, span) != NULL;
  return wir_cl(r, clEnqueueFillBuffer(r->state->queues[0], t.memory->mem, &zero, 1,
                                       t.first, span, 0, NULL, NULL),
                "clEnqueueFillBuffer");
}

/* Allocate and zero a workspace of the program in its first call. */
static int wir_keep(wir_run *r, wir_memory **kept, wir_tensor *t, int on_host,
                    int64_t offset, int64_t span) {
  if (!*kept) {
    wir_memory *m = wir_create(r, on_host, wir_add(offset, span, r));
    if (!m) return 0;
    if (!wir_zero(r, (wir_tensor){m, 0, 0}, m->bytes)) return wir_destroy(m), 0;
    *kept = m;
  }
  *t = (wir_tensor){*kept, 0, offset};
  return !r->failed;
}

/* Name bytes of memory that has a name; `offset` counts from the new storage's begin. */
static int wir_name(wir_run *r, wir_tensor *t, wir_tensor source, int64_t begin,
                    int64_t offset, int64_t span) {
  int64_t first = wir_add(wir_add(source.begin, begin, r), offset, r);
  int64_t end = wir_add(first, span, r);
  if (r->failed) return 0;
  if (begin < 0 || first < 0 || (span && end > source.memory->bytes))
    return wir_fail(r, "a view lies outside of its storage");
  source.memory->names++;
  *t = (wir_tensor){source.memory, source.begin + begin, first};
  return 1;
}

/* Name a tensor once more. */
static int wir_copy_name(wir_run *r, wir_tensor *t, wir_tensor source) {
  if (r->failed) return 0;
  source.memory->names++;
  *t = source;
  return 1;
}

static void wir_drop(wir_run *r, wir_tensor *t) {
  wir_memory *m = t->memory;
  t->memory = NULL;
  if (!m || --m->names > 0) return;
  if (m->previous) m->previous->next = m->next;
  else if (r->memories == m) r->memories = m->next;
  else return; /* a workspace of the program */
  if (m->next) m->next->previous = m->previous;
  wir_destroy(m);
}

/* Copies between the host and the device.  All block the host. */
static int wir_write(
    wir_run *r, const wir_tensor *t, int64_t at, int64_t bytes, const void *from) {
  if (r->failed || bytes == 0) return !r->failed;
  if (t->memory->cpu) return memmove(t->memory->cpu + at, from, bytes) != NULL;
  return wir_cl(r, clEnqueueWriteBuffer(r->state->queues[0], t->memory->mem, CL_TRUE, at,
                                        bytes, from, 0, NULL, NULL),
                "clEnqueueWriteBuffer");
}
static int wir_read(wir_run *r, const wir_tensor *t, int64_t at, int64_t bytes, void *to) {
  if (r->failed || bytes == 0) return !r->failed;
  if (t->memory->cpu) return memmove(to, t->memory->cpu + at, bytes) != NULL;
  return wir_cl(r, clEnqueueReadBuffer(r->state->queues[0], t->memory->mem, CL_TRUE, at,
                                       bytes, to, 0, NULL, NULL),
                "clEnqueueReadBuffer");
}

/* Copy an input to the device, or borrow its memory. */
static int wir_upload(wir_run *r, wir_tensor *t, int on_host, const wir_value *v,
                      int64_t input, int64_t offset, int64_t span) {
  if (!span) offset = 0;
  if (!on_host) {
    if (!wir_allocate(r, t, 0, offset, span)) return 0;
  } else {
    wir_memory *m = r->failed ? NULL : calloc(1, sizeof *m);
    if (!m) return wir_fail(r, "the host has no memory left");
    m->cpu = v->data - offset, m->bytes = offset + span, m->names = 1;
    if (!wir_hold(r, m)) return 0;
    *t = (wir_tensor){m, 0, offset};
  }
  t->memory->input = input, t->memory->lead = offset;
  return on_host || !span || wir_write(r, t, 0, offset + span, v->data - offset);
}

/* Wait for all streams. */
static int wir_finish(wir_run *r) {
  for (int i = 0; i < WIR_QUEUES; i++)
    wir_cl(r, clFinish(r->state->queues[i]), "clFinish");
  return !r->failed;
}

/* Copy elements, after all work before and before all work after. */
static int wir_copy(wir_run *r, const wir_tensor *to, const wir_tensor *from, int64_t item,
                    int rank, const int64_t *size, const int64_t *to_stride,
                    const int64_t *from_stride) {
  int64_t span = wir_span(r, item, rank, size, to_stride), count = item, at[64] = {0};
  int64_t from_span = wir_span(r, item, rank, size, from_stride);
  for (int i = 0; i < rank; i++) count = wir_mul(count, size[i], r);
  if (!wir_finish(r)) return 0;
  if (!count) return 1;
  int is_dense = span == count && wir_same_strides(rank, size, to_stride, from_stride);
  if (is_dense && from->memory->cpu)
    return wir_write(r, to, to->first, span, from->memory->cpu + from->first);
  if (is_dense && to->memory->cpu)
    return wir_read(r, from, from->first, span, to->memory->cpu + to->first);
  char *a = malloc(span), *b = malloc(from_span);
  if (!a || !b) wir_fail(r, "the host has no memory left");
  if (wir_read(r, to, to->first, span, a) && wir_read(r, from, from->first, from_span, b)) {
    for (int d = 0; d >= 0;) {
      int64_t i = 0, j = 0;
      for (int k = 0; k < rank; k++) i += at[k] * to_stride[k], j += at[k] * from_stride[k];
      memcpy(a + i * item, b + j * item, item);
      for (d = rank - 1; d >= 0 && ++at[d] == size[d]; d--) at[d] = 0;
    }
    wir_write(r, to, to->first, span, a);
  }
  free(a);
  free(b);
  return !r->failed;
}

static int wir_disjoint(wir_run *r, const char *message, const wir_value *a, int64_t na,
                        const wir_value *b, int64_t nb) {
  uintptr_t i = (uintptr_t)a->data, j = (uintptr_t)b->data;
  if (r->failed || !na || !nb || i + na <= j || j + nb <= i) return !r->failed;
  return wir_fail(r, message);
}

/* Read one element on the host. */
static int wir_item(wir_run *r, const wir_tensor *t, int64_t bytes, void *to) {
  return wir_finish(r) && wir_read(r, t, t->first, bytes, to);
}

/* Check that no exponent of a tensor is all ones: `exponent` is the mask of its bits. */
static int wir_check_finite(
    wir_run *r, const wir_tensor *t, int64_t item, uint64_t exponent, int rank,
    const int64_t *size, const int64_t *stride, const char *message) {
  int64_t span = wir_span(r, item, rank, size, stride), at[64] = {0};
  if (!wir_finish(r)) return 0;
  if (!span) return 1;
  char *copy = malloc(span);
  if (!copy) return wir_fail(r, "the host has no memory left");
  if (wir_read(r, t, t->first, span, copy))
    for (int d = 0; d >= 0;) {
      int64_t place = 0;
      for (int i = 0; i < rank; i++) place += at[i] * stride[i];
      uint64_t bits = 0;
      memcpy(&bits, copy + place * item, item); /* little-endian hosts only */
      if ((bits & exponent) == exponent) {
        wir_fail(r, message);
        break;
      }
      for (d = rank - 1; d >= 0 && ++at[d] == size[d]; d--) at[d] = 0;
    }
  free(copy);
  return !r->failed;
}

/* Give an output: a view of an input, or a copy on the host of all its memory. */
static int wir_output(wir_run *r, wir_value *v, const wir_tensor *t, int rank,
                      const int64_t *size, const int64_t *stride) {
  if (r->failed) return 0;
  wir_memory *m = t->memory;
  for (int i = 0; i < rank; i++) v->size[i] = size[i], v->stride[i] = stride[i];
  v->offset = t->first - m->lead, v->source = m->input, v->bytes = m->bytes;
  if (m->input < 0 && !m->host && m->cpu) m->host = m->cpu;
  if (m->input < 0 && !m->host) {
    m->host = malloc(m->bytes > 0 ? m->bytes : 1);
    if (!m->host) return wir_fail(r, "the host has no memory left");
    if (!wir_read(r, t, 0, m->bytes, m->host)) return 0;
  }
  v->memory = m->input < 0 ? m->host : NULL;
  return 1;
}

/* Streams. */
static int wir_record(wir_run *r, int event, int queue) {
  cl_command_queue q = r->state->queues[queue];
  if (r->failed) return 0;
  if (r->events[event]) clReleaseEvent(r->events[event]);
  r->events[event] = NULL;
  cl_int code = clEnqueueMarkerWithWaitList(q, 0, NULL, &r->events[event]);
  return wir_cl(r, code, "clEnqueueMarkerWithWaitList") &&
         wir_cl(r, clFlush(q), "clFlush");
}
static int wir_wait(wir_run *r, int event, int queue) {
  if (r->failed || !r->events[event]) return !r->failed;
  cl_int code = clEnqueueBarrierWithWaitList(r->state->queues[queue], 1,
                                             &r->events[event], NULL);
  return wir_cl(r, code, "clEnqueueBarrierWithWaitList");
}

/* Kernels. */
static int wir_give(wir_run *r, int kernel, cl_uint index, size_t bytes, const void *arg) {
  if (r->failed) return 0;
  return wir_cl(r, clSetKernelArg(r->state->kernels[kernel], index, bytes, arg),
                "clSetKernelArg");
}
/* A buffer is two arguments: its memory, and the elements before the first one. */
static int wir_give_buffer(
    wir_run *r, int kernel, cl_uint index, const wir_tensor *t, int64_t item) {
  if (r->failed) return 0;
  if (t->first % item) return wir_fail(r, "an element is not aligned to its size");
  cl_long at = t->first / item;
  return wir_give(r, kernel, index, sizeof(cl_mem), &t->memory->mem) &&
         wir_give(r, kernel, index + 1, sizeof at, &at);
}
/* Where a kernel writes its number, counted from 1, if a check in it fails. */
static int wir_give_fault(wir_run *r, int kernel, cl_uint index) {
  const cl_int number = kernel + 1;
  r->checks = 1;
  return wir_give(r, kernel, index, sizeof(cl_mem), &r->state->fault) &&
         wir_give(r, kernel, index + 1, sizeof number, &number);
}
static int wir_launch(wir_run *r, int kernel, int queue, int rank, const int64_t *grid) {
  size_t global[3] = {1, 1, 1};
  if (r->failed) return 0;
  for (int i = 0; i < rank; i++) {
    if (grid[i] <= 0) return grid[i] == 0 || wir_fail(r, "a grid has a negative size");
    global[i] = grid[i];
  }
  return wir_cl(r, clEnqueueNDRangeKernel(r->state->queues[queue],
                                          r->state->kernels[kernel], rank ? rank : 1, NULL,
                                          global, NULL, 0, NULL, NULL),
                "clEnqueueNDRangeKernel");
}

/* The beginning and the end of a run, and of the program. */
static int wir_begin(wir_run *r) {
  pthread_mutex_lock(&r->state->lock);
  return 1;
}
static cl_int wir_clear_fault(wir_run *r) {
  const cl_int none = 0;
  return clEnqueueWriteBuffer(r->state->queues[0], r->state->fault, CL_TRUE, 0, sizeof none,
                              &none, 0, NULL, NULL);
}
static int wir_check_faults(wir_run *r) {
  cl_int number = 0;
  if (!wir_finish(r) || !r->checks) return !r->failed;
  if (!wir_cl(r, clEnqueueReadBuffer(r->state->queues[0], r->state->fault, CL_TRUE, 0,
                                     sizeof number, &number, 0, NULL, NULL),
              "clEnqueueReadBuffer"))
    return 0;
  if (number <= 0 || number > WIR_KERNELS) return 1;
  char text[WIR_MESSAGE];
  snprintf(text, sizeof text, "a check of kernel %.300s failed", ENTRIES[number - 1]);
  return wir_fail(r, text);
}
static int wir_end(wir_run *r) {
  for (int i = 0; i < WIR_QUEUES; i++) clFinish(r->state->queues[i]);
  if (r->failed && r->checks) wir_clear_fault(r);
  for (int i = 0; i < WIR_EVENTS; i++)
    if (r->events[i]) clReleaseEvent(r->events[i]);
  while (r->memories) {
    wir_memory *m = r->memories;
    r->memories = m->next;
    if (!r->failed && m->host) { /* outputs have it */
      if (m->cpu == m->host) m->cpu = NULL;
      m->host = NULL;
    }
    wir_destroy(m);
  }
  pthread_mutex_unlock(&r->state->lock);
  return r->failed;
}

static void wir_close(wir_state *s) {
  for (int i = 0; i < WIR_KEPT; i++)
    if (s->kept[i]) wir_destroy(s->kept[i]);
  if (s->fault) clReleaseMemObject(s->fault);
  for (int i = 0; i < WIR_KERNELS; i++) {
    if (s->kernels[i]) clReleaseKernel(s->kernels[i]);
    if (s->programs[i]) clReleaseProgram(s->programs[i]);
  }
  for (int i = 0; i < WIR_QUEUES; i++)
    if (s->queues[i]) clReleaseCommandQueue(s->queues[i]);
  if (s->context) clReleaseContext(s->context);
  pthread_mutex_destroy(&s->lock);
  free(s);
}

/* Find the first device of the first platform that has one. */
static int wir_find_device(wir_run *r, cl_device_id *device) {
  cl_platform_id platforms[16];
  cl_uint count = 0;
  if (clGetPlatformIDs(16, platforms, &count) != CL_SUCCESS) count = 0;
  for (cl_uint i = 0; i < count && i < 16; i++)
    if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, device, NULL) == CL_SUCCESS)
      return 1;
  return wir_fail(r, "there is no OpenCL platform with a device");
}

static int wir_build(wir_run *r, int number, const char *entry, const char *source) {
  wir_state *s = r->state;
  cl_int code;
  cl_device_fp_config floats = 0;
  clGetDeviceInfo(s->device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof floats, &floats, NULL);
  const char *options = floats & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT
                            ? "-w -cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt"
                            : "-w -cl-std=CL1.2";
  s->programs[number] = clCreateProgramWithSource(s->context, 1, &source, NULL, &code);
  if (!wir_cl(r, code, "clCreateProgramWithSource")) return 0;
  code = clBuildProgram(s->programs[number], 1, &s->device, options, NULL, NULL);
  if (code != CL_SUCCESS) {
    char text[WIR_MESSAGE], *log = calloc(1, WIR_LOG + 1);
    if (log)
      clGetProgramBuildInfo(s->programs[number], s->device, CL_PROGRAM_BUILD_LOG, WIR_LOG,
                            log, NULL);
    snprintf(text, sizeof text, "kernel %.200s does not compile (%d): %.700s", entry,
             (int)code, log ? log : "");
    free(log);
    return wir_fail(r, text);
  }
  s->kernels[number] = clCreateKernel(s->programs[number], entry, &code);
  return wir_cl(r, code, "clCreateKernel");
}

static wir_state *wir_open(
    char *message, const char *const *entries, const char *const *sources) {
  wir_state *s = calloc(1, sizeof *s);
  wir_run r = {.state = s, .message = message};
  cl_int code;
  if (!s) return wir_fail(&r, "the host has no memory left"), NULL;
  pthread_mutex_init(&s->lock, NULL);
  if (!wir_find_device(&r, &s->device)) return wir_close(s), NULL;
  s->context = clCreateContext(NULL, 1, &s->device, NULL, NULL, &code);
  if (wir_cl(&r, code, "clCreateContext")) {
    cl_int none = 0;
    s->fault = clCreateBuffer(s->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                              sizeof none, &none, &code);
    wir_cl(&r, code, "clCreateBuffer");
    for (int i = 0; i < WIR_QUEUES && !r.failed; i++) {
      s->queues[i] = clCreateCommandQueue(s->context, s->device, 0, &code);
      wir_cl(&r, code, "clCreateCommandQueue");
    }
    for (int i = 0; i < WIR_KERNELS && !r.failed; i++)
      wir_build(&r, i, entries[i], sources[i]);
  }
  if (r.failed) return wir_close(s), NULL;
  return s;
}

/* The functions that load.py calls.  A run returns whether it failed, with a message. */
int wir_program_run(void *state, const wir_value *inputs, wir_value *outputs, char *message) {
  wir_run run = {.state = state, .message = message};
  if (wir_begin(&run)) wir_program(&run, inputs, outputs);
  return wir_end(&run);
}
void *wir_program_open(char *message) { return wir_open(message, ENTRIES, SOURCES); }
void wir_program_close(void *state) { wir_close(state); }
void wir_program_release(void *memory) { free(memory); }
int64_t wir_program_live(void) { return wir_live; }
