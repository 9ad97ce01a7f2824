/* The C interface of a program that the C++ emitter of wrapperir made.
 *
 * Every function returns 0 on success; otherwise wrapperir_error() says what went wrong.
 * Tensors are PyTorch's, by the handles of its stable C interface
 * (torch/csrc/inductor/aoti_torch/c/shim.h).
 */
#ifndef WRAPPERIR_H
#define WRAPPERIR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WRAPPERIR_EXPORT __attribute__((visibility("default")))

/* The same type as PyTorch's AtenTensorHandle. */
typedef struct AtenTensorOpaque* wrapperir_tensor;

typedef enum wrapperir_kind {
  WRAPPERIR_TENSOR = 0,
  WRAPPERIR_INT = 1,
  WRAPPERIR_FLOAT = 2,
  WRAPPERIR_BOOL = 3, /* as.integer is 0 or 1 */
  WRAPPERIR_NONE = 4
} wrapperir_kind;

typedef struct wrapperir_value {
  int64_t kind;
  union {
    wrapperir_tensor tensor;
    int64_t integer;
    double real;
  } as;
} wrapperir_value;

typedef struct wrapperir_program wrapperir_program;

/* Open the program of this library, with the constants in constants.bin of the directory
 * that the library was written to: the file is mapped, and not changed. */
WRAPPERIR_EXPORT int wrapperir_open(const char* directory, wrapperir_program** program);

/* The constants of the program, and the key of each. */
WRAPPERIR_EXPORT int64_t wrapperir_constant_count(void);
WRAPPERIR_EXPORT const char* wrapperir_constant_key(int64_t index);

/* Open it with constants of the caller's, in the program's order; they are borrowed: what
 * they refer to is kept alive, and a constant that the program mutates is changed. */
WRAPPERIR_EXPORT int wrapperir_open_with(
    const wrapperir_tensor* constants,
    int64_t count,
    wrapperir_program** program);

/* Run it. Input tensors are taken, also on failure: the call deletes their handles as soon
 * as the program frees them. Outputs are new handles that the caller deletes; on failure
 * there are none. Several threads may run one program at once. */
WRAPPERIR_EXPORT int wrapperir_run(
    wrapperir_program* program,
    wrapperir_value* inputs,
    int64_t input_count,
    wrapperir_value* outputs,
    int64_t output_count);

WRAPPERIR_EXPORT int64_t wrapperir_input_count(const wrapperir_program* program);
WRAPPERIR_EXPORT int64_t wrapperir_output_count(const wrapperir_program* program);

/* The kind of an input. */
WRAPPERIR_EXPORT int64_t wrapperir_input_kind(
    const wrapperir_program* program, int64_t index);

/* Fail as a call with this input would: the message names the input and what it needs, such
 * as "a tensor, not a string". For values that are not a wrapperir_value. */
WRAPPERIR_EXPORT int wrapperir_refuse_input(
    const wrapperir_program* program, int64_t index, const char* needed);

/* Whether the program writes to the memory of an input for the caller to see: 0 or 1. It may
 * also write to inputs that the program declares donated; the caller does not use them again. */
WRAPPERIR_EXPORT int wrapperir_input_is_mutated(
    const wrapperir_program* program, int64_t index);

/* Multi-kernels whose kernels are timed when they are first called: how many there are,
 * counted once for each kind of arguments, the name of each, and of the kernel that was the
 * fastest: a null pointer before that is known. All programs of this library share it. */
WRAPPERIR_EXPORT int64_t wrapperir_timed_count(void);
WRAPPERIR_EXPORT const char* wrapperir_timed_name(int64_t index);
WRAPPERIR_EXPORT const char* wrapperir_timed_choice(int64_t index);

/* Drop what its graph regions have recorded; later calls record it again. NCCL waits for
 * recordings that have its collectives when a process group is destroyed. */
WRAPPERIR_EXPORT int wrapperir_drop_recordings(wrapperir_program* program);

/* Close it; no call may be running. Outputs stay, those that are constants, too. */
WRAPPERIR_EXPORT int wrapperir_close(wrapperir_program* program);

/* The message of this thread's last failure; it stays until the next. */
WRAPPERIR_EXPORT const char* wrapperir_error(void);

#ifdef __cplusplus
}
#endif

#endif
