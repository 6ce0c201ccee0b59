#include <math.h>

void transpose_swizzled(const float *restrict a, float *restrict b, const int m, const int n)
{
    #pragma omp parallel for collapse(2) if(8192LL*((n + 31) / 32)*((m + 31) / 32) >= 32768)
    for (int g1_ = 0; g1_ < (n + 31) / 32; ++g1_) {
        for (int g0_ = 0; g0_ < (m + 31) / 32; ++g0_) {
            const int i_outer = g1_;
            const int j_outer = g0_;
            float a_fetch[32][32];  // column c of row r is at c ^ (4*(r % 8))

            if (32*j_outer + 32 <= m && 32*i_outer + 32 <= n) {  // a full tile
                for (int l1_ = 0; l1_ < 32; ++l1_) {
                    for (int l0_ = 0; l0_ < 32; ++l0_) {
                        const int a_dim_0_outer = l1_;
                        const int a_dim_1 = l0_;
                        if (a_dim_0_outer <= 7) {
                            for (int a_dim_0_inner = 0; a_dim_0_inner < 4; ++a_dim_0_inner) {
                                // a_fetch_rule
                                a_fetch[a_dim_1][(4*a_dim_0_outer + a_dim_0_inner) ^ (4*(a_dim_1 % 8))] =
                                        a[(32*i_outer + 4*a_dim_0_outer + a_dim_0_inner)*m + 32*j_outer +
                                            a_dim_1];
                            }
                        }
                    }
                }
                // barrier: the threads' loops end here
                // a_fetch: a_fetch_rule writes, insn reads
                for (int l1_ = 0; l1_ < 32; ++l1_) {
                    for (int l0_ = 0; l0_ < 32; ++l0_) {
                        const int i_inner_outer = l0_;
                        const int j_inner = l1_;
                        if (i_inner_outer <= 7) {
                            for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                                // insn
                                b[(32*j_outer + j_inner)*n + 32*i_outer + 4*i_inner_outer + i_inner_inner] =
                                        a_fetch[j_inner][(4*i_inner_outer +
                                            i_inner_inner) ^ (4*(j_inner % 8))];
                            }
                        }
                    }
                }
            } else {
                for (int l1_ = 0; l1_ < 32; ++l1_) {
                    for (int l0_ = 0; l0_ < 32; ++l0_) {
                        const int a_dim_0_outer = l1_;
                        const int a_dim_1 = l0_;
                        if (a_dim_0_outer <= 7 && 32*j_outer + a_dim_1 < m &&
                                32*i_outer + 4*a_dim_0_outer < n) {
                            for (int a_dim_0_inner = 0; a_dim_0_inner < 4; ++a_dim_0_inner) {
                                if (32*i_outer + 4*a_dim_0_outer + a_dim_0_inner < n) {
                                    // a_fetch_rule
                                    a_fetch[a_dim_1][(4*a_dim_0_outer +
                                                a_dim_0_inner) ^ (4*(a_dim_1 % 8))] =
                                            a[(32*i_outer + 4*a_dim_0_outer + a_dim_0_inner)*m +
                                                32*j_outer + a_dim_1];
                                }
                            }
                        }
                    }
                }
                // barrier: the threads' loops end here
                // a_fetch: a_fetch_rule writes, insn reads
                for (int l1_ = 0; l1_ < 32; ++l1_) {
                    for (int l0_ = 0; l0_ < 32; ++l0_) {
                        const int i_inner_outer = l0_;
                        const int j_inner = l1_;
                        if (i_inner_outer <= 7 && 32*j_outer + j_inner < m &&
                                32*i_outer + 4*i_inner_outer < n) {
                            for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                                if (32*i_outer + 4*i_inner_outer + i_inner_inner < n) {
                                    // insn
                                    b[(32*j_outer + j_inner)*n + 32*i_outer + 4*i_inner_outer +
                                                i_inner_inner] =
                                            a_fetch[j_inner][(4*i_inner_outer +
                                                i_inner_inner) ^ (4*(j_inner % 8))];
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
