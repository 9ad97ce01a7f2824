/* How a program in C or C++ is called: load_program.py fills these in and reads them. */
#ifndef WIR_PROGRAM_H
#define WIR_PROGRAM_H

#include <stdint.h>

/* An input, constant or output.

   A tensor has `data`, the address of its first element, and its sizes and strides in
   elements; an input also has `offset`, the elements before the first in its storage.  A
   number has `whole`, or `real` if it is a float.  Of an output, `source` is the position
   of the input or constant whose memory it is in, or -1: then it is in `memory`, which the
   caller releases once for all outputs in it, and which begins at `base` and has `bytes`.
   The offset of an output counts bytes: from `base`, or from its source's first element. */
typedef struct {
  char *data;
  int64_t *size;
  int64_t *stride;
  int64_t whole;
  double real;
  int64_t source;
  void *memory;
  char *base;
  int64_t bytes;
  int64_t offset;
} wir_value;

#endif
