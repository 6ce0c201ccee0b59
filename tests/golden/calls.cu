// proven: in bounds, no races
// assumed: make_kernel: 'scaled' has no side effects, and its value depends on its arguments only (declared
//   as a ScalarFunction)
// assumed: make_kernel: 'minus' has no side effects, and its value depends on its arguments only (declared as
//   a ScalarFunction)
// assumed: make_kernel: 'longer' has no side effects, and its value depends on its arguments only (declared
//   as a ScalarFunction)
// assumed: make_kernel: 'inside' has no side effects, and its value depends on its arguments only (declared
//   as a ScalarFunction)
// assumed: make_kernel: 'size' has no side effects, and its value depends on its arguments only (declared as
//   a ScalarFunction)
// assumed: make_kernel: 'root' has no side effects, and its value depends on its arguments only (declared as
//   a ScalarFunction)

#include <cuda_fp16.h>
__device__ __forceinline__ float bessel_jn_f32(int order, float x)
{
    const float value = jnf(order < 0 ? -order : order, x);
    return order < 0 && order % 2 != 0 ? -value : value;
}

// given by the user, for scaled
template <typename T>
__device__ T scaled_by_power(T x, int n) { return ldexp(x, n); }

extern "C" __global__ void __launch_bounds__(64)
calls(const signed char *__restrict__ b, const double *__restrict__ d, const float *__restrict__ f,
    const __half *__restrict__ h, const int *__restrict__ i, double *__restrict__ y0, float *__restrict__ y1,
    __half *__restrict__ y2, __half *__restrict__ y3, int *__restrict__ y4, double *__restrict__ y5,
    const int q)
{
    const int p_outer = blockIdx.x;
    const int p_inner = threadIdx.x;

    if (64*p_outer + 64 <= q) {  // a full tile
        // insn
        y0[64*p_outer + p_inner] = scaled_by_power(f[64*p_outer + p_inner], i[64*p_outer + p_inner]) +
                scaled_by_power(d[64*p_outer + p_inner], 3);
        // insn_0
        y1[64*p_outer + p_inner] =
                2.0f*(float)((f[64*p_outer + p_inner] - 1.0f) - (f[64*p_outer + p_inner] - 3.0f));
        // insn_1
        y2[64*p_outer + p_inner] =
                (__half)(float)(((float)h[64*p_outer + p_inner]) -
                ((float)(h[64*p_outer + p_inner]*h[64*p_outer + p_inner])));
        // insn_2
        y3[64*p_outer + p_inner] = (bool)(((double)b[64*p_outer + p_inner]) < 3 && 1.0 > -3) ?
                (__half)sqrt((float)h[64*p_outer + p_inner]) : (__half)sqrt(4.0f);
        // insn_3
        y4[64*p_outer + p_inner] = __popc(i[64*p_outer + p_inner]) +
                __clzll((long long)b[64*p_outer + p_inner]);
        // insn_4
        y5[64*p_outer + p_inner] =
                bessel_jn_f32(i[64*p_outer + p_inner],
                f[64*p_outer + p_inner])*ldexp(d[64*p_outer + p_inner], i[64*p_outer + p_inner]);
    } else if (64*p_outer + p_inner < q) {
        // insn
        y0[64*p_outer + p_inner] = scaled_by_power(f[64*p_outer + p_inner], i[64*p_outer + p_inner]) +
                scaled_by_power(d[64*p_outer + p_inner], 3);
        // insn_0
        y1[64*p_outer + p_inner] =
                2.0f*(float)((f[64*p_outer + p_inner] - 1.0f) - (f[64*p_outer + p_inner] - 3.0f));
        // insn_1
        y2[64*p_outer + p_inner] =
                (__half)(float)(((float)h[64*p_outer + p_inner]) -
                ((float)(h[64*p_outer + p_inner]*h[64*p_outer + p_inner])));
        // insn_2
        y3[64*p_outer + p_inner] = (bool)(((double)b[64*p_outer + p_inner]) < 3 && 1.0 > -3) ?
                (__half)sqrt((float)h[64*p_outer + p_inner]) : (__half)sqrt(4.0f);
        // insn_3
        y4[64*p_outer + p_inner] = __popc(i[64*p_outer + p_inner]) +
                __clzll((long long)b[64*p_outer + p_inner]);
        // insn_4
        y5[64*p_outer + p_inner] =
                bessel_jn_f32(i[64*p_outer + p_inner],
                f[64*p_outer + p_inner])*ldexp(d[64*p_outer + p_inner], i[64*p_outer + p_inner]);
    }
}
