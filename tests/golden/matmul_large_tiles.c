#include <math.h>
static inline int min_i32(int a, int b)
{
    return b < a ? b : a;
}

void matmul(const float *restrict a, const float *restrict b, float *restrict c, const int l, const int m,
    const int n)
{
    #pragma omp parallel for collapse(2) if(540672LL*((n + 63) / 64)*((m + 63) / 64)*(l / 128 + 1) >= 32768)
    for (int g1_ = 0; g1_ < (n + 63) / 64; ++g1_) {
        for (int g0_ = 0; g0_ < (m + 63) / 64; ++g0_) {
            const int i_outer = g1_;
            const int j_outer = g0_;
            float acc_k[16][16][4][4];
            float a_fetch[64][128];
            float b_fetch[128][64];

            if (64*j_outer + 64 <= m && 64*i_outer + 64 <= n) {  // a full tile
                for (int l1_ = 0; l1_ < 16; ++l1_) {
                    for (int l0_ = 0; l0_ < 16; ++l0_) {
                        for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                            for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                                // insn.k.init
                                acc_k[l1_][l0_][i_inner_inner][j_inner_inner] = 0.0f;
                            }
                        }
                    }
                }
                for (int k_outer = 0; k_outer < l / 128; ++k_outer) {
                    for (int l1_ = 0; l1_ < 16; ++l1_) {
                        for (int l0_ = 0; l0_ < 16; ++l0_) {
                            for (int a_fetch_rule_round = 0; a_fetch_rule_round < 32; ++a_fetch_rule_round) {
                                const int a_fetch_rule_point = 256*a_fetch_rule_round + 16*l1_ + l0_;
                                const int a_dim_0 = a_fetch_rule_point / 128;
                                const int a_dim_1 = a_fetch_rule_point % 128;
                                // a_fetch_rule
                                a_fetch[a_dim_0][a_dim_1] =
                                        a[(64*i_outer + a_dim_0)*l + 128*k_outer + a_dim_1];
                            }
                            for (int b_fetch_rule_round = 0; b_fetch_rule_round < 32; ++b_fetch_rule_round) {
                                const int b_fetch_rule_point = 256*b_fetch_rule_round + 16*l1_ + l0_;
                                const int b_dim_0 = b_fetch_rule_point / 64;
                                const int b_dim_1 = b_fetch_rule_point % 64;
                                // b_fetch_rule
                                b_fetch[b_dim_0][b_dim_1] =
                                        b[(128*k_outer + b_dim_0)*m + 64*j_outer + b_dim_1];
                            }
                        }
                    }
                    // barrier: the threads' loops end here
                    // a_fetch: a_fetch_rule writes, insn.k.update reads
                    // b_fetch: b_fetch_rule writes, insn.k.update reads
                    for (int l1_ = 0; l1_ < 16; ++l1_) {
                        for (int l0_ = 0; l0_ < 16; ++l0_) {
                            const int i_inner_outer = l1_;
                            const int j_inner_outer = l0_;
                            for (int k_inner = 0; k_inner < 128; ++k_inner) {
                                for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                                    for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                                        // insn.k.update
                                        acc_k[l1_][l0_][i_inner_inner][j_inner_inner] +=
                                                a_fetch[4*i_inner_outer + i_inner_inner][k_inner]*
                                                b_fetch[k_inner][4*j_inner_outer + j_inner_inner];
                                    }
                                }
                            }
                        }
                    }
                    // barrier: the threads' loops end here
                    // a_fetch: insn.k.update reads, a_fetch_rule overwrites
                    // b_fetch: insn.k.update reads, b_fetch_rule overwrites
                }
                if (l % 128 != 0) {
                    const int k_outer = (l - 1) / 128;
                    for (int l1_ = 0; l1_ < 16; ++l1_) {
                        for (int l0_ = 0; l0_ < 16; ++l0_) {
                            for (int a_fetch_rule_round = 0; a_fetch_rule_round < 32; ++a_fetch_rule_round) {
                                const int a_fetch_rule_point = 256*a_fetch_rule_round + 16*l1_ + l0_;
                                const int a_dim_0 = a_fetch_rule_point / 128;
                                const int a_dim_1 = a_fetch_rule_point % 128;
                                if (128*k_outer + a_dim_1 < l) {
                                    // a_fetch_rule
                                    a_fetch[a_dim_0][a_dim_1] =
                                            a[(64*i_outer + a_dim_0)*l + 128*k_outer + a_dim_1];
                                }
                            }
                            for (int b_fetch_rule_round = 0; b_fetch_rule_round < 32; ++b_fetch_rule_round) {
                                const int b_fetch_rule_point = 256*b_fetch_rule_round + 16*l1_ + l0_;
                                const int b_dim_0 = b_fetch_rule_point / 64;
                                const int b_dim_1 = b_fetch_rule_point % 64;
                                if (128*k_outer + b_dim_0 < l) {
                                    // b_fetch_rule
                                    b_fetch[b_dim_0][b_dim_1] =
                                            b[(128*k_outer + b_dim_0)*m + 64*j_outer + b_dim_1];
                                }
                            }
                        }
                    }
                    // barrier: the threads' loops end here
                    // a_fetch: a_fetch_rule writes, insn.k.update reads
                    // b_fetch: b_fetch_rule writes, insn.k.update reads
                    for (int l1_ = 0; l1_ < 16; ++l1_) {
                        for (int l0_ = 0; l0_ < 16; ++l0_) {
                            const int i_inner_outer = l1_;
                            const int j_inner_outer = l0_;
                            for (int k_inner = 0; k_inner < l - 128*k_outer; ++k_inner) {
                                for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                                    for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                                        // insn.k.update
                                        acc_k[l1_][l0_][i_inner_inner][j_inner_inner] +=
                                                a_fetch[4*i_inner_outer + i_inner_inner][k_inner]*
                                                b_fetch[k_inner][4*j_inner_outer + j_inner_inner];
                                    }
                                }
                            }
                        }
                    }
                }
                for (int l1_ = 0; l1_ < 16; ++l1_) {
                    for (int l0_ = 0; l0_ < 16; ++l0_) {
                        const int i_inner_outer = l1_;
                        const int j_inner_outer = l0_;
                        for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                            for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                                // insn
                                c[(64*i_outer + 4*i_inner_outer + i_inner_inner)*m + 64*j_outer +
                                            4*j_inner_outer + j_inner_inner] =
                                        acc_k[l1_][l0_][i_inner_inner][j_inner_inner];
                            }
                        }
                    }
                }
            } else {
                for (int l1_ = 0; l1_ < 16; ++l1_) {
                    for (int l0_ = 0; l0_ < 16; ++l0_) {
                        const int i_inner_outer = l1_;
                        const int j_inner_outer = l0_;
                        if (64*j_outer + 4*j_inner_outer < m && 64*i_outer + 4*i_inner_outer < n) {
                            for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                                for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                                    if (64*j_outer + 4*j_inner_outer + j_inner_inner < m &&
                                            64*i_outer + 4*i_inner_outer + i_inner_inner < n) {
                                        // insn.k.init
                                        acc_k[l1_][l0_][i_inner_inner][j_inner_inner] = 0.0f;
                                    }
                                }
                            }
                        }
                    }
                }
                for (int k_outer = 0; k_outer < (l + 127) / 128; ++k_outer) {
                    for (int l1_ = 0; l1_ < 16; ++l1_) {
                        for (int l0_ = 0; l0_ < 16; ++l0_) {
                            for (int a_fetch_rule_round = 0; a_fetch_rule_round < 32; ++a_fetch_rule_round) {
                                const int a_fetch_rule_point = 256*a_fetch_rule_round + 16*l1_ + l0_;
                                const int a_dim_0 = a_fetch_rule_point / 128;
                                const int a_dim_1 = a_fetch_rule_point % 128;
                                if (64*i_outer + a_dim_0 < n && 128*k_outer + a_dim_1 < l) {
                                    // a_fetch_rule
                                    a_fetch[a_dim_0][a_dim_1] =
                                            a[(64*i_outer + a_dim_0)*l + 128*k_outer + a_dim_1];
                                }
                            }
                            for (int b_fetch_rule_round = 0; b_fetch_rule_round < 32; ++b_fetch_rule_round) {
                                const int b_fetch_rule_point = 256*b_fetch_rule_round + 16*l1_ + l0_;
                                const int b_dim_0 = b_fetch_rule_point / 64;
                                const int b_dim_1 = b_fetch_rule_point % 64;
                                if (64*j_outer + b_dim_1 < m && 128*k_outer + b_dim_0 < l) {
                                    // b_fetch_rule
                                    b_fetch[b_dim_0][b_dim_1] =
                                            b[(128*k_outer + b_dim_0)*m + 64*j_outer + b_dim_1];
                                }
                            }
                        }
                    }
                    // barrier: the threads' loops end here
                    // a_fetch: a_fetch_rule writes, insn.k.update reads
                    // b_fetch: b_fetch_rule writes, insn.k.update reads
                    for (int l1_ = 0; l1_ < 16; ++l1_) {
                        for (int l0_ = 0; l0_ < 16; ++l0_) {
                            const int i_inner_outer = l1_;
                            const int j_inner_outer = l0_;
                            if (64*j_outer + 4*j_inner_outer < m && 64*i_outer + 4*i_inner_outer < n) {
                                for (int k_inner = 0; k_inner < min_i32(128, l - 128*k_outer); ++k_inner) {
                                    for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                                        for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                                            if (64*j_outer + 4*j_inner_outer + j_inner_inner < m &&
                                                    64*i_outer + 4*i_inner_outer + i_inner_inner < n) {
                                                // insn.k.update
                                                acc_k[l1_][l0_][i_inner_inner][j_inner_inner] +=
                                                        a_fetch[4*i_inner_outer + i_inner_inner][k_inner]*
                                                        b_fetch[k_inner][4*j_inner_outer + j_inner_inner];
                                            }
                                        }
                                    }
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
                        const int i_inner_outer = l1_;
                        const int j_inner_outer = l0_;
                        if (64*j_outer + 4*j_inner_outer < m && 64*i_outer + 4*i_inner_outer < n) {
                            for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                                for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                                    if (64*j_outer + 4*j_inner_outer + j_inner_inner < m &&
                                            64*i_outer + 4*i_inner_outer + i_inner_inner < n) {
                                        // insn
                                        c[(64*i_outer + 4*i_inner_outer + i_inner_inner)*m + 64*j_outer +
                                                    4*j_inner_outer + j_inner_inner] =
                                                acc_k[l1_][l0_][i_inner_inner][j_inner_inner];
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
