#include <math.h>

void stencil_2d(const float *restrict a, float *restrict out, const int m, const int n)
{
    if (n < 3 || m < 3)
        return;
    #pragma omp parallel for collapse(2) if(768LL*((n + 14) / 16)*((m + 14) / 16) >= 32768)
    for (int g1_ = 0; g1_ < (n + 14) / 16; ++g1_) {
        for (int g0_ = 0; g0_ < (m + 14) / 16; ++g0_) {
            const int i_outer = g1_;
            const int j_outer = g0_;
            float a_fetch[18][18];

            if (1 <= j_outer && 16*j_outer + 16 < m && 1 <= i_outer && 16*i_outer + 16 < n) {  // a full tile
                for (int l1_ = 0; l1_ < 16; ++l1_) {
                    for (int l0_ = 0; l0_ < 16; ++l0_) {
                        for (int a_fetch_rule_round = 0; a_fetch_rule_round < 2; ++a_fetch_rule_round) {
                            const int a_fetch_rule_point = 256*a_fetch_rule_round + 16*l1_ + l0_;
                            if (a_fetch_rule_point < 324) {
                                const int a_dim_0 = a_fetch_rule_point / 18;
                                const int a_dim_1 = a_fetch_rule_point % 18;
                                // a_fetch_rule
                                a_fetch[a_dim_0][a_dim_1] =
                                        a[(16*i_outer + a_dim_0 - 1)*m + 16*j_outer + a_dim_1 - 1];
                            }
                        }
                    }
                }
                // barrier: the threads' loops end here
                // a_fetch: a_fetch_rule writes, insn reads
                for (int l1_ = 0; l1_ < 16; ++l1_) {
                    for (int l0_ = 0; l0_ < 16; ++l0_) {
                        const int i_inner = l1_;
                        const int j_inner = l0_;
                        // insn
                        out[(16*i_outer + i_inner)*m + 16*j_outer + j_inner] =
                                a_fetch[i_inner + 1][j_inner] + a_fetch[i_inner + 1][j_inner + 2] +
                                a_fetch[i_inner][j_inner + 1] + a_fetch[i_inner + 2][j_inner + 1] -
                                4.0f*a_fetch[i_inner + 1][j_inner + 1];
                    }
                }
            } else {
                for (int l1_ = 0; l1_ < 16; ++l1_) {
                    for (int l0_ = 0; l0_ < 16; ++l0_) {
                        for (int a_fetch_rule_round = 0; a_fetch_rule_round < 2; ++a_fetch_rule_round) {
                            const int a_fetch_rule_point = 256*a_fetch_rule_round + 16*l1_ + l0_;
                            if (a_fetch_rule_point < 324) {
                                const int a_dim_0 = a_fetch_rule_point / 18;
                                const int a_dim_1 = a_fetch_rule_point % 18;
                                if (1 <= 16*j_outer + a_dim_1 && 16*j_outer + a_dim_1 <= m &&
                                        1 <= 16*i_outer + a_dim_0 && 16*i_outer + a_dim_0 <= n) {
                                    // a_fetch_rule
                                    a_fetch[a_dim_0][a_dim_1] =
                                            a[(16*i_outer + a_dim_0 - 1)*m + 16*j_outer + a_dim_1 - 1];
                                }
                            }
                        }
                    }
                }
                // barrier: the threads' loops end here
                // a_fetch: a_fetch_rule writes, insn reads
                for (int l1_ = 0; l1_ < 16; ++l1_) {
                    for (int l0_ = 0; l0_ < 16; ++l0_) {
                        const int i_inner = l1_;
                        const int j_inner = l0_;
                        if (16*j_outer + j_inner + 2 <= m && 1 <= 16*j_outer + j_inner &&
                                16*i_outer + i_inner + 2 <= n && 1 <= 16*i_outer + i_inner) {
                            // insn
                            out[(16*i_outer + i_inner)*m + 16*j_outer + j_inner] =
                                    a_fetch[i_inner + 1][j_inner] + a_fetch[i_inner + 1][j_inner + 2] +
                                    a_fetch[i_inner][j_inner + 1] + a_fetch[i_inner + 2][j_inner + 1] -
                                    4.0f*a_fetch[i_inner + 1][j_inner + 1];
                        }
                    }
                }
            }
        }
    }
}
