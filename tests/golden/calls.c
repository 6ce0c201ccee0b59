#include <math.h>
typedef unsigned short float16;   // 1 bit of sign, 5 of exponent, 10 of fraction
static inline float from_f16(float16 x)
{
    const unsigned int sign = (x & 0x8000u) << 16, rest = x & 0x7fffu;
    union { unsigned int bits; float value; } result;
    if (rest >= 0x7c00u)                          // infinite or not a number
        result.bits = 0x7f800000u | (rest & 0x3ffu) << 13;
    else if (rest >= 0x400u)
        result.bits = (rest << 13) + (112u << 23);
    else                                          // a multiple of 2^-24
        result.value = (float)rest*0x1p-24f;
    result.bits |= sign;
    return result.value;
}
// to the nearest float16, ties to even
static inline float16 to_f16(float x)
{
    union { float value; unsigned int bits; } rest = {x};
    const unsigned int sign = rest.bits >> 16 & 0x8000u;
    rest.bits &= 0x7fffffffu;
    if (rest.bits > 0x7f800000u)                  // not a number
        return (float16)(sign | 0x7e00u | (rest.bits >> 13 & 0x3ffu));
    if (rest.bits >= 0x477ff000u)                 // 65520 and more
        return (float16)(sign | 0x7c00u);
    if (rest.bits < 0x38800000u) {                // the sum rounds to a multiple of 2^-24
        rest.value += 0.5f;
        return (float16)(sign | (rest.bits - 0x3f000000u));
    }
    rest.bits += 0xfffu + (rest.bits >> 13 & 1u);
    return (float16)(sign | (rest.bits - (112u << 23)) >> 13);
}
static inline float round_f16(float x)
{
    return from_f16(to_f16(x));
}
double jn(int order, double x);
static inline float bessel_jn_f32(int order, float x)
{
    return (float)jn(order, x);
}
static inline int clz_u64(unsigned long long x)
{
    return x == 0 ? 64 : __builtin_clzll(x);
}

// given by the user, for scaled
static inline float scaled_f(float x, int n)
{
    return ldexpf(x, n);
}

void calls(const signed char *restrict b, const double *restrict d, const float *restrict f,
    const float16 *restrict h, const int *restrict i, double *restrict y0, float *restrict y1,
    float16 *restrict y2, float16 *restrict y3, int *restrict y4, double *restrict y5, const int q)
{
    #pragma omp parallel for if(384LL*((q + 63) / 64) >= 32768)
    for (int g0_ = 0; g0_ < (q + 63) / 64; ++g0_) {
        const int p_outer = g0_;

        if (64*p_outer + 64 <= q) {  // a full tile
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int p_inner = l0_;
                // insn
                y0[64*p_outer + p_inner] = scaled_f(f[64*p_outer + p_inner], i[64*p_outer + p_inner]) +
                        ldexp(d[64*p_outer + p_inner], 3);
                // insn_0
                y1[64*p_outer + p_inner] =
                        2.0f*(float)((f[64*p_outer + p_inner] - 1.0f) - (f[64*p_outer + p_inner] - 3.0f));
                // insn_1
                y2[64*p_outer + p_inner] =
                        to_f16((float)(from_f16(h[64*p_outer + p_inner]) -
                        round_f16(from_f16(h[64*p_outer + p_inner])*from_f16(h[64*p_outer + p_inner]))));
                // insn_2
                y3[64*p_outer + p_inner] =
                        to_f16((_Bool)(((double)b[64*p_outer + p_inner]) < 3 && 1.0 > -3) ?
                        sqrtf(from_f16(h[64*p_outer + p_inner])) : sqrtf(4.0f));
                // insn_3
                y4[64*p_outer + p_inner] = __builtin_popcount(i[64*p_outer + p_inner]) +
                        clz_u64((long long)b[64*p_outer + p_inner]);
                // insn_4
                y5[64*p_outer + p_inner] =
                        bessel_jn_f32(i[64*p_outer + p_inner],
                        f[64*p_outer + p_inner])*ldexp(d[64*p_outer + p_inner], i[64*p_outer + p_inner]);
            }
        } else {
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int p_inner = l0_;
                if (64*p_outer + p_inner < q) {
                    // insn
                    y0[64*p_outer + p_inner] = scaled_f(f[64*p_outer + p_inner], i[64*p_outer + p_inner]) +
                            ldexp(d[64*p_outer + p_inner], 3);
                    // insn_0
                    y1[64*p_outer + p_inner] =
                            2.0f*(float)((f[64*p_outer + p_inner] - 1.0f) - (f[64*p_outer + p_inner] - 3.0f));
                    // insn_1
                    y2[64*p_outer + p_inner] =
                            to_f16((float)(from_f16(h[64*p_outer + p_inner]) -
                            round_f16(from_f16(h[64*p_outer + p_inner])*from_f16(h[64*p_outer + p_inner]))));
                    // insn_2
                    y3[64*p_outer + p_inner] =
                            to_f16((_Bool)(((double)b[64*p_outer + p_inner]) < 3 && 1.0 > -3) ?
                            sqrtf(from_f16(h[64*p_outer + p_inner])) : sqrtf(4.0f));
                    // insn_3
                    y4[64*p_outer + p_inner] = __builtin_popcount(i[64*p_outer + p_inner]) +
                            clz_u64((long long)b[64*p_outer + p_inner]);
                    // insn_4
                    y5[64*p_outer + p_inner] =
                            bessel_jn_f32(i[64*p_outer + p_inner],
                            f[64*p_outer + p_inner])*ldexp(d[64*p_outer + p_inner], i[64*p_outer + p_inner]);
                }
            }
        }
    }
}
