#include <math.h>
static inline int min_i32(int a, int b)
{
    return b < a ? b : a;
}

void matmul(const float *restrict a, const float *restrict b, float *restrict c, const int l, const int m,
    const int n)
{
    #pragma omp parallel for collapse(2) if(4608LL*((n + 15) / 16)*((m + 15) / 16)*(l / 16 + 1) >= 32768)
    for (int g1_ = 0; g1_ < (n + 15) / 16; ++g1_) {
        for (int g0_ = 0; g0_ < (m + 15) / 16; ++g0_) {
            const int i_outer = g1_;
            const int j_outer = g0_;
            float acc_k[16][16];
            float a_fetch[16][16];
            float b_fetch[16][16];

            if (16*j_outer + 16 <= m && 16*i_outer + 16 <= n) {  // a full tile
                for (int l1_ = 0; l1_ < 16; ++l1_) {
                    for (int l0_ = 0; l0_ < 16; ++l0_) {
                        // insn.k.init
                        acc_k[l1_][l0_] = 0.0f;
                    }
                }
                for (int k_outer = 0; k_outer < l / 16; ++k_outer) {
                    for (int l1_ = 0; l1_ < 16; ++l1_) {
                        for (int l0_ = 0; l0_ < 16; ++l0_) {
                            const int a_dim_0 = l1_;
                            const int a_dim_1 = l0_;
                            // a_fetch_rule
                            a_fetch[a_dim_0][a_dim_1] = a[(16*i_outer + a_dim_0)*l + 16*k_outer + a_dim_1];
                            const int b_dim_0 = l1_;
                            const int b_dim_1 = l0_;
                            // b_fetch_rule
                            b_fetch[b_dim_0][b_dim_1] = b[(16*k_outer + b_dim_0)*m + 16*j_outer + b_dim_1];
                        }
                    }
                    // barrier: the threads' loops end here
                    // a_fetch: a_fetch_rule writes, insn.k.update reads
                    // b_fetch: b_fetch_rule writes, insn.k.update reads
                    for (int l1_ = 0; l1_ < 16; ++l1_) {
                        for (int l0_ = 0; l0_ < 16; ++l0_) {
                            const int i_inner = l1_;
                            const int j_inner = l0_;
                            for (int k_inner = 0; k_inner < 16; ++k_inner) {
                                // insn.k.update
                                acc_k[l1_][l0_] += a_fetch[i_inner][k_inner]*b_fetch[k_inner][j_inner];
                            }
                        }
                    }
                    // barrier: the threads' loops end here
                    // a_fetch: insn.k.update reads, a_fetch_rule overwrites
                    // b_fetch: insn.k.update reads, b_fetch_rule overwrites
                }
                if (l % 16 != 0) {
                    const int k_outer = (l - 1) / 16;
                    for (int l1_ = 0; l1_ < 16; ++l1_) {
                        for (int l0_ = 0; l0_ < 16; ++l0_) {
                            const int a_dim_0 = l1_;
                            const int a_dim_1 = l0_;
                            if (16*k_outer + a_dim_1 < l) {
                                // a_fetch_rule
                                a_fetch[a_dim_0][a_dim_1] =
                                        a[(16*i_outer + a_dim_0)*l + 16*k_outer + a_dim_1];
                            }
                            const int b_dim_0 = l1_;
                            const int b_dim_1 = l0_;
                            if (16*k_outer + b_dim_0 < l) {
                                // b_fetch_rule
                                b_fetch[b_dim_0][b_dim_1] =
                                        b[(16*k_outer + b_dim_0)*m + 16*j_outer + b_dim_1];
                            }
                        }
                    }
                    // barrier: the threads' loops end here
                    // a_fetch: a_fetch_rule writes, insn.k.update reads
                    // b_fetch: b_fetch_rule writes, insn.k.update reads
                    for (int l1_ = 0; l1_ < 16; ++l1_) {
                        for (int l0_ = 0; l0_ < 16; ++l0_) {
                            const int i_inner = l1_;
                            const int j_inner = l0_;
                            for (int k_inner = 0; k_inner < l - 16*k_outer; ++k_inner) {
                                // insn.k.update
                                acc_k[l1_][l0_] += a_fetch[i_inner][k_inner]*b_fetch[k_inner][j_inner];
                            }
                        }
                    }
                }
                for (int l1_ = 0; l1_ < 16; ++l1_) {
                    for (int l0_ = 0; l0_ < 16; ++l0_) {
                        const int i_inner = l1_;
                        const int j_inner = l0_;
                        // insn
                        c[(16*i_outer + i_inner)*m + 16*j_outer + j_inner] = acc_k[l1_][l0_];
                    }
                }
            } else {
                for (int l1_ = 0; l1_ < 16; ++l1_) {
                    for (int l0_ = 0; l0_ < 16; ++l0_) {
                        const int i_inner = l1_;
                        const int j_inner = l0_;
                        if (16*j_outer + j_inner < m && 16*i_outer + i_inner < n) {
                            // insn.k.init
                            acc_k[l1_][l0_] = 0.0f;
                        }
                    }
                }
                for (int k_outer = 0; k_outer < (l + 15) / 16; ++k_outer) {
                    for (int l1_ = 0; l1_ < 16; ++l1_) {
                        for (int l0_ = 0; l0_ < 16; ++l0_) {
                            const int a_dim_0 = l1_;
                            const int a_dim_1 = l0_;
                            if (16*i_outer + a_dim_0 < n && 16*k_outer + a_dim_1 < l) {
                                // a_fetch_rule
                                a_fetch[a_dim_0][a_dim_1] =
                                        a[(16*i_outer + a_dim_0)*l + 16*k_outer + a_dim_1];
                            }
                            const int b_dim_0 = l1_;
                            const int b_dim_1 = l0_;
                            if (16*j_outer + b_dim_1 < m && 16*k_outer + b_dim_0 < l) {
                                // b_fetch_rule
                                b_fetch[b_dim_0][b_dim_1] =
                                        b[(16*k_outer + b_dim_0)*m + 16*j_outer + b_dim_1];
                            }
                        }
                    }
                    // barrier: the threads' loops end here
                    // a_fetch: a_fetch_rule writes, insn.k.update reads
                    // b_fetch: b_fetch_rule writes, insn.k.update reads
                    for (int l1_ = 0; l1_ < 16; ++l1_) {
                        for (int l0_ = 0; l0_ < 16; ++l0_) {
                            const int i_inner = l1_;
                            const int j_inner = l0_;
                            if (16*j_outer + j_inner < m && 16*i_outer + i_inner < n) {
                                for (int k_inner = 0; k_inner < min_i32(16, l - 16*k_outer); ++k_inner) {
                                    // insn.k.update
                                    acc_k[l1_][l0_] += a_fetch[i_inner][k_inner]*b_fetch[k_inner][j_inner];
                                }
                            }
                        }
                    }
                    // barrier: the threads' loops end here
                    // a_fetch: insn.k.update reads, a_fetch_rule overwrites
                    // b_fetch: insn.k.update reads, b_fetch_rule overwrites
                }
                for (int l1_ = 0; l1_ < 16; ++l1_) {
                    for (int l0_ = 0; l0_ < 16; ++l0_) {
                        const int i_inner = l1_;
                        const int j_inner = l0_;
                        if (16*j_outer + j_inner < m && 16*i_outer + i_inner < n) {
                            // insn
                            c[(16*i_outer + i_inner)*m + 16*j_outer + j_inner] = acc_k[l1_][l0_];
                        }
                    }
                }
            }
        }
    }
}
