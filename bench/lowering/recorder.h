// Records which bytes of some regions of memory a kernel reads and writes.
//
// Kernels below this text are compiled with -fsanitize=thread, which calls a function for
// each access; the functions are these, and not those of a race detector.  Loads and stores
// under a mask, gathers and copies are not instrumented by compilers, so macros stand for them.
#include <immintrin.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#define PLAIN __attribute__((no_sanitize_thread))

namespace recorder {
struct Region {
  char *begin, *end;
  unsigned char *marks;  // one for each byte: 1 was read before a write, 2 was written
};
static Region regions[1024];
static int count = 0;
static Region *last = regions;

PLAIN static inline void note(const volatile void *address, size_t size, int mark) {
  char *at = (char *)address;
  if (!(last->begin <= at && at < last->end)) {
    int found = 0;
    while (found < count && !(regions[found].begin <= at && at < regions[found].end)) ++found;
    if (found == count) return;
    last = regions + found;
  }
  unsigned char *marks = last->marks + (at - last->begin);
  for (size_t n = 0; n < size && at + n < last->end; ++n)
    marks[n] |= marks[n] & 2 ? mark & 2 : mark;
}

template <typename Mask>
PLAIN static inline void note_masked(const void *address, Mask mask, size_t size, int mark) {
  for (size_t n = 0; n < 8 * sizeof(Mask); ++n)
    if ((uint64_t)mask >> n & 1) note((const char *)address + n * size, size, mark);
}
}  // namespace recorder

extern "C" {
PLAIN void record_nothing() {
  recorder::count = 0;
  recorder::regions[0] = {};
  recorder::last = recorder::regions;
}
PLAIN void record_region(char *begin, size_t size, unsigned char *marks) {
  recorder::regions[recorder::count++] = {begin, begin + size, marks};
}
PLAIN void __tsan_init() {}
#define ACCESS(size)                                                              \
  PLAIN void __tsan_read##size(void *p) { recorder::note(p, size, 1); }           \
  PLAIN void __tsan_write##size(void *p) { recorder::note(p, size, 2); }          \
  PLAIN void __tsan_unaligned_read##size(void *p) { recorder::note(p, size, 1); } \
  PLAIN void __tsan_unaligned_write##size(void *p) { recorder::note(p, size, 2); }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
PLAIN void __tsan_read_range(void *p, size_t n) { recorder::note(p, n, 1); }
PLAIN void __tsan_write_range(void *p, size_t n) { recorder::note(p, n, 2); }
PLAIN void __tsan_vptr_read(void **) {}
PLAIN void __tsan_vptr_update(void **, void *) {}
#define ATOMIC(bits, type)                                                                \
  PLAIN type __tsan_atomic##bits##_load(const volatile type *p, int) {                    \
    recorder::note(p, sizeof(type), 1);                                                   \
    return *p;                                                                            \
  }                                                                                       \
  PLAIN void __tsan_atomic##bits##_store(volatile type *p, type v, int) {                 \
    recorder::note(p, sizeof(type), 2);                                                   \
    *p = v;                                                                               \
  }                                                                                       \
  PLAIN type __tsan_atomic##bits##_fetch_add(volatile type *p, type v, int) {             \
    recorder::note(p, sizeof(type), 3);                                                   \
    type old = *p;                                                                        \
    *p = old + v;                                                                         \
    return old;                                                                           \
  }                                                                                       \
  PLAIN int __tsan_atomic##bits##_compare_exchange_strong(volatile type *p, type *wanted, \
                                                          type v, int, int) {             \
    recorder::note(p, sizeof(type), 3);                                                   \
    if (*p == *wanted) return *p = v, 1;                                                  \
    return *wanted = *p, 0;                                                               \
  }                                                                                       \
  PLAIN int __tsan_atomic##bits##_compare_exchange_weak(volatile type *p, type *wanted,   \
                                                        type v, int a, int b) {           \
    return __tsan_atomic##bits##_compare_exchange_strong(p, wanted, v, a, b);             \
  }
ATOMIC(8, unsigned char)
ATOMIC(16, unsigned short)
ATOMIC(32, unsigned int)
ATOMIC(64, unsigned long)
PLAIN void *__wrap_memcpy(void *to, const void *from, size_t size) {
  recorder::note(from, size, 1);
  recorder::note(to, size, 2);
  for (size_t n = 0; n < size; ++n) ((volatile char *)to)[n] = ((const char *)from)[n];
  return to;
}
PLAIN void *__wrap_memset(void *to, int value, size_t size) {
  recorder::note(to, size, 2);
  for (size_t n = 0; n < size; ++n) ((volatile char *)to)[n] = (char)value;
  return to;
}
}

#define _mm512_maskz_loadu_ps(m, p) \
  (recorder::note_masked(p, (__mmask16)(m), 4, 1), _mm512_maskz_loadu_ps(m, p))
#define _mm512_maskz_loadu_pd(m, p) \
  (recorder::note_masked(p, (__mmask8)(m), 8, 1), _mm512_maskz_loadu_pd(m, p))
#define _mm512_maskz_loadu_epi16(m, p) \
  (recorder::note_masked(p, (__mmask32)(m), 2, 1), _mm512_maskz_loadu_epi16(m, p))
#define _mm512_maskz_loadu_epi8(m, p) \
  (recorder::note_masked(p, (__mmask64)(m), 1, 1), _mm512_maskz_loadu_epi8(m, p))
#define _mm512_mask_loadu_ps(o, m, p) \
  (recorder::note_masked(p, (__mmask16)(m), 4, 1), _mm512_mask_loadu_ps(o, m, p))
#define _mm512_mask_loadu_pd(o, m, p) \
  (recorder::note_masked(p, (__mmask8)(m), 8, 1), _mm512_mask_loadu_pd(o, m, p))
#define _mm512_mask_loadu_epi8(o, m, p) \
  (recorder::note_masked(p, (__mmask64)(m), 1, 1), _mm512_mask_loadu_epi8(o, m, p))
#define _mm512_mask_loadu_epi16(o, m, p) \
  (recorder::note_masked(p, (__mmask32)(m), 2, 1), _mm512_mask_loadu_epi16(o, m, p))
#define _mm512_mask_loadu_epi32(o, m, p) \
  (recorder::note_masked(p, (__mmask16)(m), 4, 1), _mm512_mask_loadu_epi32(o, m, p))
#define _mm512_mask_loadu_epi64(o, m, p) \
  (recorder::note_masked(p, (__mmask8)(m), 8, 1), _mm512_mask_loadu_epi64(o, m, p))
#define _mm512_mask_storeu_ps(p, m, v) \
  (recorder::note_masked(p, (__mmask16)(m), 4, 2), _mm512_mask_storeu_ps(p, m, v))
#define _mm512_mask_storeu_pd(p, m, v) \
  (recorder::note_masked(p, (__mmask8)(m), 8, 2), _mm512_mask_storeu_pd(p, m, v))
#define _mm512_mask_storeu_epi8(p, m, v) \
  (recorder::note_masked(p, (__mmask64)(m), 1, 2), _mm512_mask_storeu_epi8(p, m, v))
#define _mm512_mask_storeu_epi16(p, m, v) \
  (recorder::note_masked(p, (__mmask32)(m), 2, 2), _mm512_mask_storeu_epi16(p, m, v))
#define _mm512_mask_storeu_epi32(p, m, v) \
  (recorder::note_masked(p, (__mmask16)(m), 4, 2), _mm512_mask_storeu_epi32(p, m, v))
#define _mm512_mask_storeu_epi64(p, m, v) \
  (recorder::note_masked(p, (__mmask8)(m), 8, 2), _mm512_mask_storeu_epi64(p, m, v))
