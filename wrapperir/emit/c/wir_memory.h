/* Memory of a program in C or C++: tensors that share it, and copies of it.

   The driver's header defines WIR_DRIVER_IS_HOST, which says that memory has addresses of
   the host, so that programs need no copies; it includes this header; and it defines
   `struct wir_driver` and the functions that are declared here. */
#ifndef WIR_MEMORY_H
#define WIR_MEMORY_H

#include <pthread.h>

#include "wir_run.h"

/* Functions of the driver.  One that returns 0 or NULL has called `wir_fail`.

   `at` are bytes from the begin of memory.  Zeroing, reads and writes come after all work
   before them and before all work after them; reads and writes are done when they return.
   Memory may be freed while work that uses it is still queued. */
static inline int wir_driver_open(wir_run *r); /* begin, in a driver filled with zeros */
static inline void wir_driver_close(wir_driver *d); /* end; it may be half open */
static inline void *wir_driver_allocate(wir_run *r, int64_t bytes);
static inline void wir_driver_free(wir_driver *d, void *memory);
static inline int wir_driver_zero(wir_run *r, void *memory, int64_t at, int64_t bytes);
static inline int wir_driver_read(
    wir_run *r, void *to, void *memory, int64_t at, int64_t bytes);
static inline int wir_driver_write(
    wir_run *r, void *memory, int64_t at, const void *from, int64_t bytes);
static inline int wir_driver_wait(wir_run *r); /* until all work of the call is done */
static inline void wir_driver_end(wir_run *r); /* after each call, even if it failed */

/* Memory of the driver, `device`, or memory with addresses of the host, `host`, or both.
   `own` says that `host` is this program's, `is_given` that outputs are in it.  `input` is
   the position of the input that it is, or is a copy of, or -1; `lead` are the bytes before
   that input's first element. */
struct wir_memory {
  void *device;
  char *host;
  int own, is_given;
  int64_t bytes, names, input, lead;
  wir_driver *driver;
  wir_memory *copy; /* what outputs are given in place of memory of the device */
  wir_memory *previous, *next;
};

/* A tensor: its memory, and the bytes at which its storage and its first element begin. */
typedef struct {
  wir_memory *memory;
  int64_t begin, first;
} wir_tensor;

static int64_t wir_live, wir_peak; /* bytes of the driver that this library holds */
static pthread_mutex_t wir_live_lock = PTHREAD_MUTEX_INITIALIZER;

static inline int64_t wir_count(int64_t bytes) {
  int64_t live;
  pthread_mutex_lock(&wir_live_lock);
  live = wir_live += bytes;
  if (live > wir_peak) wir_peak = live;
  pthread_mutex_unlock(&wir_live_lock);
  return live;
}
static inline int64_t wir_take_peak(void) {
  int64_t peak;
  pthread_mutex_lock(&wir_live_lock);
  peak = wir_peak, wir_peak = wir_live;
  pthread_mutex_unlock(&wir_live_lock);
  return peak;
}

static inline wir_tensor wir_tensor_at(wir_memory *memory, int64_t begin, int64_t first) {
  wir_tensor t;
  t.memory = memory, t.begin = begin, t.first = first;
  return t;
}
static inline wir_tensor wir_none(void) { return wir_tensor_at(NULL, 0, 0); }

/* Return the address of the first element, in memory that the host can address. */
static inline char *wir_address(const wir_tensor *t) { return t->memory->host + t->first; }

static inline void wir_destroy(wir_memory *m) {
  if (m->device != NULL) {
    wir_driver_free(m->driver, m->device);
    wir_count(-m->bytes);
  } else if (m->own) {
    free(m->host);
  }
  free(m);
}

static inline wir_memory *wir_create(wir_run *r, int on_host, int64_t bytes) {
  wir_memory *m = r->fault != NULL ? NULL : (wir_memory *)calloc(1, sizeof *m);
  const int64_t least = bytes > 0 ? bytes : 1;
  if (m == NULL) return wir_no_memory(r), (wir_memory *)NULL;
  m->bytes = bytes, m->input = -1, m->names = 1, m->driver = r->driver;
  if (on_host) {
    const int64_t unit = 128;
    m->own = 1;
    if (bytes < INT64_MAX - unit)
      m->host = (char *)aligned_alloc((size_t)unit, (size_t)((least + unit - 1) / unit * unit));
  } else {
    m->device = wir_driver_allocate(r, least);
    if (m->device != NULL) wir_count(bytes);
    if (WIR_DRIVER_IS_HOST) m->host = (char *)m->device;
  }
  if (m->device != NULL || m->host != NULL) return m;
  wir_fail(r, "there is no memory for %lld bytes", (long long)bytes);
  free(m);
  return NULL;
}

static inline int wir_hold(wir_run *r, wir_memory *m) {
  if (m == NULL) return 0;
  m->next = r->memories;
  if (m->next != NULL) m->next->previous = m;
  r->memories = m;
  return r->fault == NULL;
}

static inline void wir_let_go(wir_run *r, wir_memory *m) {
  if (m->previous != NULL) m->previous->next = m->next;
  else r->memories = m->next;
  if (m->next != NULL) m->next->previous = m->previous;
  m->previous = m->next = NULL;
}

/* Allocate memory for a tensor whose storage is `offset` + `span` bytes. */
static inline int wir_allocate(
    wir_run *r, wir_tensor *t, int on_host, int64_t offset, int64_t span) {
  wir_memory *m = wir_create(r, on_host, wir_add(offset, span, &r->fault));
  if (!wir_hold(r, m)) return 0;
  *t = wir_tensor_at(m, 0, offset);
  return 1;
}

static inline int wir_zero(wir_run *r, wir_tensor t, int64_t span) {
  if (r->fault != NULL || span == 0) return r->fault == NULL;
  if (t.memory->device != NULL)
    return wir_driver_zero(r, t.memory->device, t.first, span);
  return memset(wir_address(&t), 0, (size_t)span) != NULL;
}

/* Allocate and zero a workspace that the program keeps, in its first call. */
static inline int wir_keep(
    wir_run *r, int number, wir_tensor *t, int on_host, int64_t offset, int64_t span) {
  wir_memory *m = r->kept[number];
  if (m == NULL) {
    m = wir_create(r, on_host, wir_add(offset, span, &r->fault));
    if (m == NULL) return 0;
    if (!wir_zero(r, wir_tensor_at(m, 0, 0), m->bytes)) return wir_destroy(m), 0;
    r->kept[number] = m;
  }
  m->names++;
  *t = wir_tensor_at(m, 0, offset);
  return r->fault == NULL;
}

/* Name a tensor once more. */
static inline int wir_share(wir_run *r, wir_tensor *t, wir_tensor source) {
  if (r->fault != NULL) return 0;
  source.memory->names++;
  *t = source;
  return 1;
}

/* Name bytes of memory that has a name; `offset` counts from the new storage's begin. */
static inline int wir_name(wir_run *r, wir_tensor *t, wir_tensor source, int64_t begin,
                           int64_t offset, int64_t span) {
  int64_t first = wir_add(wir_add(source.begin, begin, &r->fault), offset, &r->fault);
  int64_t end = wir_add(first, span, &r->fault);
  if (r->fault != NULL) return 0;
  if (begin < 0 || first < 0 || (span && end > source.memory->bytes))
    return wir_fail(r, "a view lies outside of its storage");
  return wir_share(r, t, wir_tensor_at(source.memory, source.begin + begin, first));
}

/* Drop a name; the last one releases the memory. */
static inline void wir_drop(wir_run *r, wir_tensor *t) {
  wir_memory *m = t->memory;
  t->memory = NULL;
  if (m == NULL || --m->names > 0) return;
  wir_let_go(r, m);
  wir_destroy(m);
}

/* Copies between the host and memory, of `n` bytes at `at`. */
static inline int wir_read(wir_run *r, void *to, const wir_memory *m, int64_t at, int64_t n) {
  if (r->fault != NULL || n == 0) return r->fault == NULL;
  if (m->host != NULL) return memmove(to, m->host + at, (size_t)n) != NULL;
  return wir_driver_read(r, to, m->device, at, n);
}
static inline int wir_write(
    wir_run *r, const wir_memory *m, int64_t at, const void *from, int64_t n) {
  if (r->fault != NULL || n == 0) return r->fault == NULL;
  if (m->host != NULL) return memmove(m->host + at, from, (size_t)n) != NULL;
  return wir_driver_write(r, m->device, at, from, n);
}

/* Borrow the memory of an input, or copy it to the device. */
static inline int wir_take(wir_run *r, wir_tensor *t, int is_copied, const wir_value *v,
                           int64_t input, int64_t offset, int64_t span) {
  char *from = v->data;
  if (!span) offset = 0;
  else from -= offset;
  if (!is_copied) {
    wir_memory *m = r->fault != NULL ? NULL : (wir_memory *)calloc(1, sizeof *m);
    if (m == NULL) return wir_no_memory(r);
    m->host = from, m->bytes = offset + span, m->names = 1, m->driver = r->driver;
    if (!wir_hold(r, m)) return 0;
    *t = wir_tensor_at(m, 0, offset);
  } else if (!wir_allocate(r, t, 0, offset, span)) {
    return 0;
  }
  t->memory->input = input, t->memory->lead = offset;
  return !is_copied || wir_write(r, t->memory, 0, from, offset + span);
}

/* Check that an input that is written shares no memory with another. */
static inline int wir_disjoint(wir_run *r, const char *message, const wir_value *a, int64_t na,
                               const wir_value *b, int64_t nb) {
  uintptr_t i = (uintptr_t)a->data, j = (uintptr_t)b->data;
  if (r->fault != NULL || !na || !nb) return r->fault == NULL;
  if (i + (uintptr_t)na <= j || j + (uintptr_t)nb <= i) return 1;
  return wir_fail(r, "%s", message);
}

/* Copy elements, after all work before and before all work after. */
static inline int wir_copy(wir_run *r, const wir_tensor *to, const wir_tensor *from,
                           int64_t item, int rank, const int64_t *size,
                           const int64_t *to_stride, const int64_t *from_stride) {
  int64_t to_span = wir_span(r, item, rank, size, to_stride);
  int64_t from_span = wir_span(r, item, rank, size, from_stride);
  int64_t at[WIR_MOST_DIMENSIONS] = {0};
  char *a, *b;
  if (r->fault != NULL || !wir_driver_wait(r)) return 0;
  if (!to_span) return 1;
  a = (char *)malloc((size_t)to_span), b = (char *)malloc((size_t)from_span);
  if (a == NULL || b == NULL) wir_no_memory(r);
  if (wir_read(r, a, to->memory, to->first, to_span) &&
      wir_read(r, b, from->memory, from->first, from_span)) {
    do {
      int64_t i = wir_distance(rank, at, to_stride) * item;
      int64_t j = wir_distance(rank, at, from_stride) * item;
      memcpy(a + i, b + j, (size_t)item);
    } while (wir_next(rank, size, at));
    wir_write(r, to->memory, to->first, a, to_span);
  }
  free(a);
  free(b);
  return r->fault == NULL;
}

/* Read one element on the host. */
static inline int wir_item(wir_run *r, const wir_tensor *t, int64_t bytes, void *to) {
  if (r->fault != NULL || !wir_driver_wait(r)) return 0;
  return wir_read(r, to, t->memory, t->first, bytes);
}

/* Check that no exponent of a tensor is all ones: `exponent` is the mask of its bits. */
static inline int wir_check_finite(
    wir_run *r, const wir_tensor *t, int64_t item, uint64_t exponent, int rank,
    const int64_t *size, const int64_t *stride, const char *message) {
  int64_t span = wir_span(r, item, rank, size, stride), at[WIR_MOST_DIMENSIONS] = {0};
  char *copy;
  if (r->fault != NULL || !wir_driver_wait(r)) return 0;
  if (!span) return 1;
  copy = (char *)malloc((size_t)span);
  if (copy == NULL) return wir_no_memory(r);
  if (wir_read(r, copy, t->memory, t->first, span)) {
    do {
      uint64_t bits = 0; /* of little-endian hosts */
      memcpy(&bits, copy + wir_distance(rank, at, stride) * item, (size_t)item);
      if ((bits & exponent) == exponent) wir_fail(r, "%s", message);
    } while (r->fault == NULL && wir_next(rank, size, at));
  }
  free(copy);
  return r->fault == NULL;
}

/* Fill in an output: in the memory of an input, or in memory that the caller is given. */
static inline int wir_output(wir_run *r, wir_value *v, const wir_tensor *t, int rank,
                             const int64_t *size, const int64_t *stride) {
  wir_memory *m;
  if (r->fault != NULL) return 0;
  m = t->memory;
  for (int i = 0; i < rank; i++) v->size[i] = size[i], v->stride[i] = stride[i];
  v->offset = t->first - m->lead, v->source = m->input;
  if (m->input >= 0) return 1;
  if (m->host == NULL) {
    if (m->copy == NULL) {
      m->copy = wir_create(r, 1, m->bytes);
      if (!wir_hold(r, m->copy)) return 0;
      if (!wir_read(r, m->copy->host, m, 0, m->bytes)) return 0;
    }
    m = m->copy;
  }
  m->is_given = 1;
  v->memory = m, v->base = m->host, v->bytes = m->bytes;
  return 1;
}

#endif
