#include <math.h>
static inline long long min_i64(long long a, long long b)
{
    return b < a ? b : a;
}

void kernel(const float *restrict a, const float *restrict b, float *restrict c, const long long l,
    const long long m, const long long n)
{
    if (n < 1 || m < 1)
        return;
    #pragma omp parallel for if(32LL*((n + 3) / 4)*(m / 8 + 1)*(l + 1) >= 32768)
    for (long long g0_ = 0; g0_ < (n + 3) / 4; ++g0_) {
        const long long i_outer = g0_;

        if (4*i_outer + 4 <= n) {  // a full tile
            float acc_k[4][8];

            for (long long j_outer = 0; j_outer < m / 8; ++j_outer) {
                #pragma GCC unroll 64
                for (long long i_inner = 0; i_inner < 4; ++i_inner) {
                    #pragma omp simd
                    for (long long j_inner = 0; j_inner < 8; ++j_inner) {
                        // insn.k.init
                        acc_k[i_inner][j_inner] = 0.0f;
                    }
                }
                for (long long k = 0; k < l; ++k) {
                    #pragma GCC unroll 64
                    for (long long i_inner = 0; i_inner < 4; ++i_inner) {
                        #pragma omp simd
                        for (long long j_inner = 0; j_inner < 8; ++j_inner) {
                            // insn.k.update
                            acc_k[i_inner][j_inner] +=
                                    a[(4*i_outer + i_inner)*l + k]*b[k*m + 8*j_outer + j_inner];
                        }
                    }
                }
                #pragma GCC unroll 64
                for (long long i_inner = 0; i_inner < 4; ++i_inner) {
                    #pragma omp simd
                    for (long long j_inner = 0; j_inner < 8; ++j_inner) {
                        // insn
                        c[(4*i_outer + i_inner)*m + 8*j_outer + j_inner] = acc_k[i_inner][j_inner];
                    }
                }
            }
            if (m % 8 != 0) {
                const long long j_outer = (m - 1) / 8;
                #pragma GCC unroll 64
                for (long long i_inner = 0; i_inner < 4; ++i_inner) {
                    #pragma omp simd
                    for (long long j_inner = 0; j_inner < m - 8*j_outer; ++j_inner) {
                        // insn.k.init
                        acc_k[i_inner][j_inner] = 0.0f;
                    }
                }
                for (long long k = 0; k < l; ++k) {
                    #pragma GCC unroll 64
                    for (long long i_inner = 0; i_inner < 4; ++i_inner) {
                        #pragma omp simd
                        for (long long j_inner = 0; j_inner < m - 8*j_outer; ++j_inner) {
                            // insn.k.update
                            acc_k[i_inner][j_inner] +=
                                    a[(4*i_outer + i_inner)*l + k]*b[k*m + 8*j_outer + j_inner];
                        }
                    }
                }
                #pragma GCC unroll 64
                for (long long i_inner = 0; i_inner < 4; ++i_inner) {
                    #pragma omp simd
                    for (long long j_inner = 0; j_inner < m - 8*j_outer; ++j_inner) {
                        // insn
                        c[(4*i_outer + i_inner)*m + 8*j_outer + j_inner] = acc_k[i_inner][j_inner];
                    }
                }
            }
        } else {
            float acc_k[4][8];

            for (long long j_outer = 0; j_outer < (m + 7) / 8; ++j_outer) {
                #pragma GCC unroll 64
                for (long long i_inner = 0; i_inner < 4; ++i_inner) {
                    if (4*i_outer + i_inner < n) {
                        #pragma omp simd
                        for (long long j_inner = 0; j_inner < min_i64(8LL, m - 8*j_outer); ++j_inner) {
                            // insn.k.init
                            acc_k[i_inner][j_inner] = 0.0f;
                        }
                    }
                }
                for (long long k = 0; k < l; ++k) {
                    #pragma GCC unroll 64
                    for (long long i_inner = 0; i_inner < 4; ++i_inner) {
                        if (4*i_outer + i_inner < n) {
                            #pragma omp simd
                            for (long long j_inner = 0; j_inner < min_i64(8LL, m - 8*j_outer); ++j_inner) {
                                // insn.k.update
                                acc_k[i_inner][j_inner] +=
                                        a[(4*i_outer + i_inner)*l + k]*b[k*m + 8*j_outer + j_inner];
                            }
                        }
                    }
                }
                #pragma GCC unroll 64
                for (long long i_inner = 0; i_inner < 4; ++i_inner) {
                    if (4*i_outer + i_inner < n) {
                        #pragma omp simd
                        for (long long j_inner = 0; j_inner < min_i64(8LL, m - 8*j_outer); ++j_inner) {
                            // insn
                            c[(4*i_outer + i_inner)*m + 8*j_outer + j_inner] = acc_k[i_inner][j_inner];
                        }
                    }
                }
            }
        }
    }
}
