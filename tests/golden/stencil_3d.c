#include <math.h>

void stencil_3d(const float *restrict a, float *restrict out, const int l, const int m, const int n)
{
    if (n < 3 || m < 3 || l < 3)
        return;
    #pragma omp parallel for collapse(3) if(1024LL*((n + 2) / 4)*((m + 2) / 4)*((l + 14) / 16) >= 32768)
    for (int g2_ = 0; g2_ < (n + 2) / 4; ++g2_) {
        for (int g1_ = 0; g1_ < (m + 2) / 4; ++g1_) {
            for (int g0_ = 0; g0_ < (l + 14) / 16; ++g0_) {
                const int i_outer = g2_;
                const int j_outer = g1_;
                const int k_outer = g0_;
                float a_fetch[6][6][18];

                if (1 <= k_outer && 16*k_outer + 16 < l && 1 <= j_outer && 4*j_outer + 4 < m &&
                        1 <= i_outer && 4*i_outer + 4 < n) {  // a full tile
                    for (int l2_ = 0; l2_ < 4; ++l2_) {
                        for (int l1_ = 0; l1_ < 4; ++l1_) {
                            for (int l0_ = 0; l0_ < 16; ++l0_) {
                                for (int a_fetch_rule_round =
                                        0; a_fetch_rule_round < 3; ++a_fetch_rule_round) {
                                    const int a_fetch_rule_point = 256*a_fetch_rule_round + 64*l2_ +
                                            16*l1_ + l0_;
                                    if (a_fetch_rule_point < 648) {
                                        const int a_dim_0 = a_fetch_rule_point / 108;
                                        const int a_dim_1 = a_fetch_rule_point / 18 % 6;
                                        const int a_dim_2 = a_fetch_rule_point % 18;
                                        // a_fetch_rule
                                        a_fetch[a_dim_0][a_dim_1][a_dim_2] =
                                                a[((4*i_outer + a_dim_0 - 1)*m + 4*j_outer +
                                                    a_dim_1 - 1)*l + 16*k_outer + a_dim_2 - 1];
                                    }
                                }
                            }
                        }
                    }
                    // barrier: the threads' loops end here
                    // a_fetch: a_fetch_rule writes, insn reads
                    for (int l2_ = 0; l2_ < 4; ++l2_) {
                        for (int l1_ = 0; l1_ < 4; ++l1_) {
                            for (int l0_ = 0; l0_ < 16; ++l0_) {
                                const int i_inner = l2_;
                                const int j_inner = l1_;
                                const int k_inner = l0_;
                                // insn
                                out[((4*i_outer + i_inner)*m + 4*j_outer + j_inner)*l + 16*k_outer +
                                            k_inner] = a_fetch[i_inner][j_inner + 1][k_inner + 1] +
                                        a_fetch[i_inner + 2][j_inner + 1][k_inner + 1] +
                                        a_fetch[i_inner + 1][j_inner][k_inner + 1] +
                                        a_fetch[i_inner + 1][j_inner + 2][k_inner + 1] +
                                        a_fetch[i_inner + 1][j_inner + 1][k_inner] +
                                        a_fetch[i_inner + 1][j_inner + 1][k_inner + 2] -
                                        6.0f*a_fetch[i_inner + 1][j_inner + 1][k_inner + 1];
                            }
                        }
                    }
                } else {
                    for (int l2_ = 0; l2_ < 4; ++l2_) {
                        for (int l1_ = 0; l1_ < 4; ++l1_) {
                            for (int l0_ = 0; l0_ < 16; ++l0_) {
                                for (int a_fetch_rule_round =
                                        0; a_fetch_rule_round < 3; ++a_fetch_rule_round) {
                                    const int a_fetch_rule_point = 256*a_fetch_rule_round + 64*l2_ +
                                            16*l1_ + l0_;
                                    if (a_fetch_rule_point < 648) {
                                        const int a_dim_0 = a_fetch_rule_point / 108;
                                        const int a_dim_1 = a_fetch_rule_point / 18 % 6;
                                        const int a_dim_2 = a_fetch_rule_point % 18;
                                        if (1 <= 16*k_outer + a_dim_2 && 16*k_outer + a_dim_2 <= l &&
                                                1 <= 4*j_outer + a_dim_1 && 4*j_outer + a_dim_1 <= m &&
                                                1 <= 4*i_outer + a_dim_0 && 4*i_outer + a_dim_0 <= n) {
                                            // a_fetch_rule
                                            a_fetch[a_dim_0][a_dim_1][a_dim_2] =
                                                    a[((4*i_outer + a_dim_0 - 1)*m + 4*j_outer +
                                                        a_dim_1 - 1)*l + 16*k_outer + a_dim_2 - 1];
                                        }
                                    }
                                }
                            }
                        }
                    }
                    // barrier: the threads' loops end here
                    // a_fetch: a_fetch_rule writes, insn reads
                    for (int l2_ = 0; l2_ < 4; ++l2_) {
                        for (int l1_ = 0; l1_ < 4; ++l1_) {
                            for (int l0_ = 0; l0_ < 16; ++l0_) {
                                const int i_inner = l2_;
                                const int j_inner = l1_;
                                const int k_inner = l0_;
                                if (16*k_outer + k_inner + 2 <= l && 1 <= 16*k_outer + k_inner &&
                                        4*j_outer + j_inner + 2 <= m && 1 <= 4*j_outer + j_inner &&
                                        4*i_outer + i_inner + 2 <= n && 1 <= 4*i_outer + i_inner) {
                                    // insn
                                    out[((4*i_outer + i_inner)*m + 4*j_outer + j_inner)*l + 16*k_outer +
                                                k_inner] = a_fetch[i_inner][j_inner + 1][k_inner + 1] +
                                            a_fetch[i_inner + 2][j_inner + 1][k_inner + 1] +
                                            a_fetch[i_inner + 1][j_inner][k_inner + 1] +
                                            a_fetch[i_inner + 1][j_inner + 2][k_inner + 1] +
                                            a_fetch[i_inner + 1][j_inner + 1][k_inner] +
                                            a_fetch[i_inner + 1][j_inner + 1][k_inner + 2] -
                                            6.0f*a_fetch[i_inner + 1][j_inner + 1][k_inner + 1];
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
