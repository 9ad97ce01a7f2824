/* The driver of programs over the OpenCL API: memory, streams and kernels.

   A program defines WIR_STREAMS, WIR_EVENTS and WIR_KERNELS, and the tables WIR_ENTRIES and
   WIR_SOURCES, before it includes this header. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#define WIR_DRIVER_IS_HOST 0
#include "wir_memory.h"

#define WIR_LOG 65536

struct wir_driver {
  cl_context context;
  cl_device_id device;
  cl_command_queue queues[WIR_STREAMS];
  cl_program programs[WIR_KERNELS + 1];
  cl_kernel kernels[WIR_KERNELS + 1];
  cl_event events[WIR_EVENTS + 1];
  cl_mem fault; /* the number of a kernel whose check failed */
  int checks;   /* whether a kernel may have left its number */
};

static inline int wir_cl(wir_run *r, cl_int code, const char *call) {
  if (code == CL_SUCCESS) return r->fault == NULL;
  return wir_fail(r, "%s failed with OpenCL error %d", call, (int)code);
}

/* Wait for all streams. */
static inline int wir_finish(wir_run *r) {
  for (int i = 0; i < WIR_STREAMS; i++)
    wir_cl(r, clFinish(r->driver->queues[i]), "clFinish");
  return r->fault == NULL;
}

/* Memory.  The first stream reads, writes and zeros; others wait for it, and it for them. */
static inline int wir_meet(wir_run *r) { return WIR_STREAMS == 1 || wir_finish(r); }

static inline void *wir_driver_allocate(wir_run *r, int64_t bytes) {
  cl_int code;
  cl_mem memory =
      clCreateBuffer(r->driver->context, CL_MEM_READ_WRITE, (size_t)bytes, NULL, &code);
  return wir_cl(r, code, "clCreateBuffer") ? memory : NULL;
}
static inline void wir_driver_free(wir_driver *d, void *memory) {
  (void)d;
  clReleaseMemObject((cl_mem)memory); /* once the work that uses it is done */
}
static inline int wir_driver_zero(wir_run *r, void *memory, int64_t at, int64_t bytes) {
  const cl_uchar zero = 0;
  cl_int code;
  if (!wir_meet(r)) return 0;
  code = clEnqueueFillBuffer(r->driver->queues[0], (cl_mem)memory, &zero, 1, (size_t)at,
                             (size_t)bytes, 0, NULL, NULL);
  return wir_cl(r, code, "clEnqueueFillBuffer") && wir_meet(r);
}
static inline int wir_driver_read(
    wir_run *r, void *to, void *memory, int64_t at, int64_t bytes) {
  if (!wir_meet(r)) return 0;
  return wir_cl(r, clEnqueueReadBuffer(r->driver->queues[0], (cl_mem)memory, CL_TRUE,
                                       (size_t)at, (size_t)bytes, to, 0, NULL, NULL),
                "clEnqueueReadBuffer");
}
static inline int wir_driver_write(
    wir_run *r, void *memory, int64_t at, const void *from, int64_t bytes) {
  if (!wir_meet(r)) return 0;
  return wir_cl(r, clEnqueueWriteBuffer(r->driver->queues[0], (cl_mem)memory, CL_TRUE,
                                        (size_t)at, (size_t)bytes, from, 0, NULL, NULL),
                "clEnqueueWriteBuffer");
}

/* Wait for all streams, and report the check of a kernel that failed. */
static inline int wir_driver_wait(wir_run *r) {
  cl_int number = 0;
  if (!wir_finish(r) || !r->driver->checks) return r->fault == NULL;
  if (!wir_driver_read(r, &number, r->driver->fault, 0, sizeof number)) return 0;
  if (number <= 0 || number > WIR_KERNELS) return 1;
  return wir_fail(r, "a check of kernel %.300s failed", WIR_ENTRIES[number - 1]);
}

/* Streams. */
static inline int wir_record(wir_run *r, int event, int queue) {
  cl_command_queue q = r->driver->queues[queue];
  cl_event *e = &r->driver->events[event];
  if (r->fault != NULL) return 0;
  if (*e) clReleaseEvent(*e);
  *e = NULL;
  return wir_cl(r, clEnqueueMarkerWithWaitList(q, 0, NULL, e),
                "clEnqueueMarkerWithWaitList") &&
         wir_cl(r, clFlush(q), "clFlush");
}
static inline int wir_wait(wir_run *r, int event, int queue) {
  cl_event *e = &r->driver->events[event];
  if (r->fault != NULL || !*e) return r->fault == NULL;
  cl_int code = clEnqueueBarrierWithWaitList(r->driver->queues[queue], 1, e, NULL);
  return wir_cl(r, code, "clEnqueueBarrierWithWaitList");
}

/* Kernels. */
static inline int wir_give(wir_run *r, int kernel, cl_uint index, size_t bytes,
                           const void *argument) {
  if (r->fault != NULL) return 0;
  return wir_cl(r, clSetKernelArg(r->driver->kernels[kernel], index, bytes, argument),
                "clSetKernelArg");
}
/* A buffer is two arguments: its memory, and the elements before the first one. */
static inline int wir_give_buffer(
    wir_run *r, int kernel, cl_uint index, const wir_tensor *t, int64_t item) {
  if (r->fault != NULL) return 0;
  if (t->first % item) return wir_fail(r, "an element is not aligned to its size");
  cl_mem memory = (cl_mem)t->memory->device;
  cl_long at = t->first / item;
  return wir_give(r, kernel, index, sizeof memory, &memory) &&
         wir_give(r, kernel, index + 1, sizeof at, &at);
}
/* Where a kernel writes its number, counted from 1, if a check in it fails. */
static inline int wir_give_fault(wir_run *r, int kernel, cl_uint index) {
  const cl_int number = kernel + 1;
  r->driver->checks = 1;
  return wir_give(r, kernel, index, sizeof(cl_mem), &r->driver->fault) &&
         wir_give(r, kernel, index + 1, sizeof number, &number);
}
static inline int wir_launch(
    wir_run *r, int kernel, int queue, int rank, const int64_t *grid) {
  size_t global[3] = {1, 1, 1};
  if (r->fault != NULL) return 0;
  for (int i = 0; i < rank; i++) {
    if (grid[i] <= 0) return grid[i] == 0 || wir_fail(r, "a grid has a negative size");
    global[i] = (size_t)grid[i];
  }
  return wir_cl(r, clEnqueueNDRangeKernel(r->driver->queues[queue],
                                          r->driver->kernels[kernel],
                                          rank ? (cl_uint)rank : 1, NULL, global, NULL, 0,
                                          NULL, NULL),
                "clEnqueueNDRangeKernel");
}

/* The end of a call. */
static inline void wir_driver_end(wir_run *r) {
  wir_driver *d = r->driver;
  for (int i = 0; i < WIR_STREAMS; i++) clFinish(d->queues[i]);
  if (r->fault != NULL && d->checks) {
    const cl_int none = 0;
    clEnqueueWriteBuffer(d->queues[0], d->fault, CL_TRUE, 0, sizeof none, &none, 0, NULL,
                         NULL);
  }
  d->checks = 0;
  for (int i = 0; i < WIR_EVENTS; i++) {
    if (d->events[i]) clReleaseEvent(d->events[i]);
    d->events[i] = NULL;
  }
}

/* The beginning and the end of a program. */
static inline void wir_driver_close(wir_driver *d) {
  if (d->fault) clReleaseMemObject(d->fault);
  for (int i = 0; i < WIR_KERNELS; i++) {
    if (d->kernels[i]) clReleaseKernel(d->kernels[i]);
    if (d->programs[i]) clReleaseProgram(d->programs[i]);
  }
  for (int i = 0; i < WIR_STREAMS; i++)
    if (d->queues[i]) clReleaseCommandQueue(d->queues[i]);
  if (d->context) clReleaseContext(d->context);
}

/* Find the first device of the first platform that has one. */
static inline int wir_find_device(wir_run *r, cl_device_id *device) {
  cl_platform_id platforms[16];
  cl_uint count = 0;
  if (clGetPlatformIDs(16, platforms, &count) != CL_SUCCESS) count = 0;
  for (cl_uint i = 0; i < count && i < 16; i++)
    if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, device, NULL) == CL_SUCCESS)
      return 1;
  return wir_fail(r, "there is no OpenCL platform with a device");
}

static inline int wir_build(wir_run *r, int number, const char *entry, const char *source) {
  wir_driver *d = r->driver;
  cl_int code;
  cl_device_fp_config floats = 0;
  clGetDeviceInfo(d->device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof floats, &floats, NULL);
  const char *options = floats & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT
                            ? "-w -cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt"
                            : "-w -cl-std=CL1.2";
  d->programs[number] = clCreateProgramWithSource(d->context, 1, &source, NULL, &code);
  if (!wir_cl(r, code, "clCreateProgramWithSource")) return 0;
  code = clBuildProgram(d->programs[number], 1, &d->device, options, NULL, NULL);
  if (code != CL_SUCCESS) {
    char *log = (char *)calloc(1, WIR_LOG + 1);
    if (log)
      clGetProgramBuildInfo(d->programs[number], d->device, CL_PROGRAM_BUILD_LOG, WIR_LOG,
                            log, NULL);
    wir_fail(r, "kernel %.200s does not compile (%d): %.700s", entry, (int)code,
             log ? log : "");
    free(log);
    return 0;
  }
  d->kernels[number] = clCreateKernel(d->programs[number], entry, &code);
  return wir_cl(r, code, "clCreateKernel");
}

static inline int wir_driver_open(wir_run *r) {
  wir_driver *d = r->driver;
  const cl_int none = 0;
  cl_int code;
  if (!wir_find_device(r, &d->device)) return 0;
  d->context = clCreateContext(NULL, 1, &d->device, NULL, NULL, &code);
  if (!wir_cl(r, code, "clCreateContext")) return 0;
  d->fault = clCreateBuffer(d->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                            sizeof none, (void *)&none, &code);
  wir_cl(r, code, "clCreateBuffer");
  for (int i = 0; i < WIR_STREAMS && r->fault == NULL; i++) {
    d->queues[i] = clCreateCommandQueue(d->context, d->device, 0, &code);
    wir_cl(r, code, "clCreateCommandQueue");
  }
  for (int i = 0; i < WIR_KERNELS && r->fault == NULL; i++)
    wir_build(r, i, WIR_ENTRIES[i], WIR_SOURCES[i]);
  return r->fault == NULL;
}
