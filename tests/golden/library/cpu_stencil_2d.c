#include <math.h>
static inline long long min_i64(long long a, long long b)
{
    return b < a ? b : a;
}

void cpu_stencil_2d(const float *restrict a, float *restrict out, const long long m, const long long n)
{
    if (n < 3 || m < 3)
        return;
    #pragma omp parallel for if(512LL*((n + 1) / 4)*((m - 2) / 128 + 1) >= 32768)
    for (long long g0_ = 0; g0_ < (n + 1) / 4; ++g0_) {
        const long long i_outer = g0_;

        for (long long j_outer = 0; j_outer < (m - 2) / 128; ++j_outer) {
            for (long long i_inner = 0; i_inner < min_i64(4LL, n - 4*i_outer - 2); ++i_inner) {
                #pragma omp simd
                for (long long j_inner = 0; j_inner < 128; ++j_inner) {
                    // insn
                    out[(4*i_outer + i_inner + 1)*m + 128*j_outer + j_inner + 1] =
                            a[(4*i_outer + i_inner)*m + 128*j_outer + j_inner + 1] +
                            a[(4*i_outer + i_inner + 2)*m + 128*j_outer + j_inner + 1] +
                            a[(4*i_outer + i_inner + 1)*m + 128*j_outer + j_inner] +
                            a[(4*i_outer + i_inner + 1)*m + 128*j_outer + j_inner + 2] -
                            4.0f*a[(4*i_outer + i_inner + 1)*m + 128*j_outer + j_inner + 1];
                }
            }
        }
        for (long long i_inner = 0; i_inner < min_i64(4LL, n - 4*i_outer - 2); ++i_inner) {
            #pragma omp simd
            for (long long j_inner = 0; j_inner < (m - 2) % 128; ++j_inner) {
                const long long j_outer = (m - 3) / 128;
                // insn
                out[(4*i_outer + i_inner + 1)*m + 128*j_outer + j_inner + 1] =
                        a[(4*i_outer + i_inner)*m + 128*j_outer + j_inner + 1] +
                        a[(4*i_outer + i_inner + 2)*m + 128*j_outer + j_inner + 1] +
                        a[(4*i_outer + i_inner + 1)*m + 128*j_outer + j_inner] +
                        a[(4*i_outer + i_inner + 1)*m + 128*j_outer + j_inner + 2] -
                        4.0f*a[(4*i_outer + i_inner + 1)*m + 128*j_outer + j_inner + 1];
            }
        }
    }
}
