// What the kernels ask of the processor. This is compiled with their flags, into their
// libraries.

#define NEEDS(feature) \
  if (!__builtin_cpu_supports(feature)) return feature

extern "C" const char* processor_lacks() {
#ifdef __SSE4_2__
  NEEDS("sse4.2");
#endif
#ifdef __AVX2__
  NEEDS("avx2");
#endif
#ifdef __FMA__
  NEEDS("fma");
#endif
#ifdef __BMI2__
  NEEDS("bmi2");
#endif
#ifdef __AVX512F__
  NEEDS("avx512f");
#endif
#ifdef __AVX512VL__
  NEEDS("avx512vl");
#endif
#ifdef __AVX512BW__
  NEEDS("avx512bw");
#endif
#ifdef __AVX512DQ__
  NEEDS("avx512dq");
#endif
#ifdef __AVX512VNNI__
  NEEDS("avx512vnni");
#endif
#ifdef __AVX512VBMI2__
  NEEDS("avx512vbmi2");
#endif
#ifdef __AVX512IFMA__
  NEEDS("avx512ifma");
#endif
#ifdef __AVX512VPOPCNTDQ__
  NEEDS("avx512vpopcntdq");
#endif
  return nullptr;
}
