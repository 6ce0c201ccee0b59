#include <math.h>
#if defined __x86_64__ && defined __GLIBC__ && !defined __clang__
#pragma omp declare simd notinbranch
float expf(float);
#endif
static inline float max_f32(float a, float b)
{
    return a > b || b != b ? a : b;
}

void kernel(const float *restrict a, float *restrict y, const long long m, const long long n)
{
    float acc_k[4];

    for (long long i_outer = 0; i_outer < (n + 3) / 4; ++i_outer) {
        #pragma GCC unroll 64
        for (long long i_inner = 0; i_inner < 4; ++i_inner) {
            if (4*i_outer + i_inner < n) {
                // insn.k.init
                acc_k[i_inner] = -INFINITY;
            }
        }
        for (long long k_outer = 0; k_outer < m / 8; ++k_outer) {
            #pragma GCC unroll 64
            for (long long i_inner = 0; i_inner < 4; ++i_inner) {
                if (4*i_outer + i_inner < n) {
                    {
                        float acc_k_simd = acc_k[i_inner];
                        #pragma omp simd reduction(max: acc_k_simd)
                        for (long long k_inner = 0; k_inner < 8; ++k_inner) {
                            // insn.k.update
                            acc_k_simd =
                                    max_f32(acc_k_simd,
                                    expf(a[(4*i_outer + i_inner)*m + 8*k_outer + k_inner]));
                        }
                        acc_k[i_inner] = acc_k_simd;
                    }
                }
            }
        }
        if (m % 8 != 0) {
            const long long k_outer = (m - 1) / 8;
            #pragma GCC unroll 64
            for (long long i_inner = 0; i_inner < 4; ++i_inner) {
                if (4*i_outer + i_inner < n) {
                    {
                        float acc_k_simd = acc_k[i_inner];
                        #pragma omp simd reduction(max: acc_k_simd)
                        for (long long k_inner = 0; k_inner < m - 8*k_outer; ++k_inner) {
                            // insn.k.update
                            acc_k_simd =
                                    max_f32(acc_k_simd,
                                    expf(a[(4*i_outer + i_inner)*m + 8*k_outer + k_inner]));
                        }
                        acc_k[i_inner] = acc_k_simd;
                    }
                }
            }
        }
        #pragma GCC unroll 64
        for (long long i_inner = 0; i_inner < 4; ++i_inner) {
            if (4*i_outer + i_inner < n) {
                // insn
                y[4*i_outer + i_inner] = acc_k[i_inner];
            }
        }
    }
}
