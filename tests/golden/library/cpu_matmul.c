#include <math.h>
static inline long long max_i64(long long a, long long b)
{
    return a < b ? b : a;
}
static inline long long min_i64(long long a, long long b)
{
    return b < a ? b : a;
}

void cpu_matmul_0(const float *restrict a, const float *restrict b, float *restrict a_panels,
    float *restrict b_panels, const long long l, const long long m, const long long n)
{
    #pragma omp parallel for if(40LL*(max_i64((n + 7) / 8, (m + 31) / 32))*(l + 1) >= 32768)
    for (long long g0_ = 0; g0_ < max_i64((n + 7) / 8, (m + 31) / 32); ++g0_) {
        const long long a_panel = g0_;
        const long long b_panel = g0_;

        if (8*a_panel + 8 <= n) {  // a full tile
            for (long long a_k = 0; a_k < l; ++a_k) {
                #pragma GCC unroll 64
                for (long long a_reg = 0; a_reg < 8; ++a_reg) {
                    // insn
                    a_panels[8*a_panel*l + 8*a_k + a_reg] = a[(8*a_panel + a_reg)*l + a_k];
                }
            }
            if (32*b_panel < m) {
                for (long long b_k = 0; b_k < l; ++b_k) {
                    #pragma omp simd
                    for (long long b_vec = 0; b_vec < 32; ++b_vec) {
                        // insn_0
                        b_panels[32*b_panel*l + 32*b_k + b_vec] = 32*b_panel + b_vec < m ?
                                b[b_k*m + 32*b_panel + b_vec] : 0.0f;
                    }
                }
            }
        } else {
            if (8*a_panel < n) {
                for (long long a_k = 0; a_k < l; ++a_k) {
                    #pragma GCC unroll 64
                    for (long long a_reg = 0; a_reg < 8; ++a_reg) {
                        // insn
                        a_panels[8*a_panel*l + 8*a_k + a_reg] = 8*a_panel + a_reg < n ?
                                a[(8*a_panel + a_reg)*l + a_k] : 0.0f;
                    }
                }
            }
            if (32*b_panel < m) {
                for (long long b_k = 0; b_k < l; ++b_k) {
                    #pragma omp simd
                    for (long long b_vec = 0; b_vec < 32; ++b_vec) {
                        // insn_0
                        b_panels[32*b_panel*l + 32*b_k + b_vec] = 32*b_panel + b_vec < m ?
                                b[b_k*m + 32*b_panel + b_vec] : 0.0f;
                    }
                }
            }
        }
    }
}

void cpu_matmul_1(float *restrict c, const float *restrict a_panels, const float *restrict b_panels,
    const long long l, const long long m, const long long n)
{
    if (n < 1 || m < 1)
        return;
    #pragma omp parallel for if(2304LL*((n + 63) / 64)*((m + 31) / 32 + 1)*(l + 1) >= 32768)
    for (long long g0_ = 0; g0_ < (n + 63) / 64; ++g0_) {
        const long long i_block = g0_;

        float acc_k[8][32];
        float total[32];

        for (long long j = 0; j < (m + 31) / 32; ++j) {
            for (long long i_tile = 0; i_tile < min_i64(8LL, -8*i_block + n / 8); ++i_tile) {
                #pragma GCC unroll 64
                for (long long i_reg = 0; i_reg < 8; ++i_reg) {
                    #pragma omp simd
                    for (long long j_vec = 0; j_vec < 32; ++j_vec) {
                        // insn_1.k.init
                        acc_k[i_reg][j_vec] = 0.0f;
                    }
                }
                for (long long k = 0; k < l; ++k) {
                    #pragma GCC unroll 64
                    for (long long i_reg = 0; i_reg < 8; ++i_reg) {
                        #pragma omp simd
                        for (long long j_vec = 0; j_vec < 32; ++j_vec) {
                            // insn_1.k.update
                            acc_k[i_reg][j_vec] +=
                                    a_panels[8*(8*i_block + i_tile)*l + 8*k + i_reg]*
                                    b_panels[32*j*l + 32*k + j_vec];
                        }
                    }
                }
                #pragma GCC unroll 64
                for (long long i_reg = 0; i_reg < 8; ++i_reg) {
                    #pragma omp simd
                    for (long long j_vec = 0; j_vec < 32; ++j_vec) {
                        // insn_1
                        total[j_vec] = acc_k[i_reg][j_vec];
                    }
                    #pragma omp simd
                    for (long long j_vec = 0; j_vec < min_i64(32LL, m - 32*j); ++j_vec) {
                        // insn_2
                        c[(64*i_block + 8*i_tile + i_reg)*m + 32*j + j_vec] = total[j_vec];
                    }
                }
            }
            if (n <= 64*i_block + 63 && n % 8 != 0) {
                const long long i_tile = -8*i_block + (n - 1) / 8;
                #pragma GCC unroll 64
                for (long long i_reg = 0; i_reg < 8; ++i_reg) {
                    #pragma omp simd
                    for (long long j_vec = 0; j_vec < 32; ++j_vec) {
                        // insn_1.k.init
                        acc_k[i_reg][j_vec] = 0.0f;
                    }
                }
                for (long long k = 0; k < l; ++k) {
                    #pragma GCC unroll 64
                    for (long long i_reg = 0; i_reg < 8; ++i_reg) {
                        #pragma omp simd
                        for (long long j_vec = 0; j_vec < 32; ++j_vec) {
                            // insn_1.k.update
                            acc_k[i_reg][j_vec] +=
                                    a_panels[8*(8*i_block + i_tile)*l + 8*k + i_reg]*
                                    b_panels[32*j*l + 32*k + j_vec];
                        }
                    }
                }
                #pragma GCC unroll 64
                for (long long i_reg = 0; i_reg < 8; ++i_reg) {
                    #pragma omp simd
                    for (long long j_vec = 0; j_vec < 32; ++j_vec) {
                        // insn_1
                        total[j_vec] = acc_k[i_reg][j_vec];
                    }
                    if (64*i_block + 8*i_tile + i_reg < n) {
                        #pragma omp simd
                        for (long long j_vec = 0; j_vec < min_i64(32LL, m - 32*j); ++j_vec) {
                            // insn_2
                            c[(64*i_block + 8*i_tile + i_reg)*m + 32*j + j_vec] = total[j_vec];
                        }
                    }
                }
            }
        }
    }
}
