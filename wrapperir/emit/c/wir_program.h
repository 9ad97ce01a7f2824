/* How a program in C or C++ is called: wrapperir.emit.c.calling makes and reads these. */
#ifndef WIR_PROGRAM_H
#define WIR_PROGRAM_H

#include <stdint.h>

/* An input, constant or output.

   A tensor has `data`, the address of its first element, and its sizes and strides in
   elements; an input also has `offset`, the elements before the first in its storage.  A
   number has `whole`, or `real` if it is a float.  An output that is in the
   memory of a value that the caller gave has its number in `source`.  Otherwise `source` is
   -1, and the caller releases `memory`, of `bytes` bytes, once for all outputs in it. */
typedef struct {
  void *data;
  int64_t *size;
  int64_t *stride;
  int64_t whole;
  double real;
  int64_t source;
  void *memory;
  int64_t bytes;
  int64_t offset;
} wir_value;

#endif
