// Opens a program many times and calls it, without Python: what a leak checker watches.
#include <stdio.h>
#include <stdlib.h>

#include "wrapperir.h"

int aoti_torch_create_tensor_from_blob(
    void*, int64_t, const int64_t*, const int64_t*, int64_t, int32_t, int32_t, int32_t,
    wrapperir_tensor*);
int aoti_torch_delete_tensor_object(wrapperir_tensor);

static float memory[64];

static wrapperir_tensor matrix(void) {
  static const int64_t sizes[] = {8, 8}, strides[] = {8, 1};
  wrapperir_tensor made = NULL;
  if (aoti_torch_create_tensor_from_blob(memory, 2, sizes, strides, 0, 6, 0, 0, &made)) exit(2);
  return made;
}

static void call(wrapperir_program* program, int64_t n, int fails) {
  wrapperir_value inputs[2], outputs[5];
  inputs[0].kind = WRAPPERIR_TENSOR;
  inputs[0].as.tensor = matrix();
  inputs[1].kind = WRAPPERIR_INT;
  inputs[1].as.integer = n;
  if (wrapperir_run(program, inputs, 2, outputs, 5)) {
    if (!fails) fprintf(stderr, "%s\n", wrapperir_error()), exit(3);
    return;
  }
  if (fails) exit(4);
  for (int i = 0; i < 5; ++i)
    if (outputs[i].kind == WRAPPERIR_TENSOR) aoti_torch_delete_tensor_object(outputs[i].as.tensor);
}

int main(void) {
  for (int i = 0; i < 64; ++i) memory[i] = (float)(i % 7 - 3);
  for (int opened = 0; opened < 3; ++opened) {
    wrapperir_tensor weight = matrix();
    wrapperir_program* program = NULL;
    if (wrapperir_open_with(&weight, 1, &program))
      return fprintf(stderr, "%s\n", wrapperir_error()), 1;
    aoti_torch_delete_tensor_object(weight);
    for (int64_t n = 0; n < 9; ++n) call(program, n, 0);
    call(program, 9, 1);
    call(program, 10, 1);
    wrapperir_close(program);
  }
  return 0;
}
