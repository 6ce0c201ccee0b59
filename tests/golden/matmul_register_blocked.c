#include <math.h>
static inline int min_i32(int a, int b)
{
    return b < a ? b : a;
}

void matmul(const float *restrict a, const float *restrict b, float *restrict c, const int l, const int m,
    const int n)
{
    #pragma omp parallel for collapse(2) if(50176LL*((n + 63) / 64)*((m + 63) / 64)*(l / 8 + 1) >= 32768)
    for (int g1_ = 0; g1_ < (n + 63) / 64; ++g1_) {
        for (int g0_ = 0; g0_ < (m + 63) / 64; ++g0_) {
            const int i_outer = g1_;
            const int j_outer = g0_;
            float acc_k[16][16][4][4];
            float a_fetch[64][8];
            float b_fetch[8][64];

            if (64*j_outer + 64 <= m && 64*i_outer + 64 <= n) {  // a full tile
                for (int l1_ = 0; l1_ < 16; ++l1_) {
                    for (int l0_ = 0; l0_ < 16; ++l0_) {
                        for (int i_reg = 0; i_reg < 4; ++i_reg) {
                            for (int j_reg = 0; j_reg < 4; ++j_reg) {
                                // insn.k.init
                                acc_k[l1_][l0_][i_reg][j_reg] = 0.0f;
                            }
                        }
                    }
                }
                for (int k_outer = 0; k_outer < l / 8; ++k_outer) {
                    for (int l1_ = 0; l1_ < 16; ++l1_) {
                        for (int l0_ = 0; l0_ < 16; ++l0_) {
                            for (int a_fetch_rule_round = 0; a_fetch_rule_round < 2; ++a_fetch_rule_round) {
                                const int a_fetch_rule_point = 256*a_fetch_rule_round + 16*l1_ + l0_;
                                const int a_dim_0 = a_fetch_rule_point / 8;
                                const int a_dim_1 = a_fetch_rule_point % 8;
                                // a_fetch_rule
                                a_fetch[a_dim_0][a_dim_1] = a[(64*i_outer + a_dim_0)*l + 8*k_outer + a_dim_1];
                            }
                            for (int b_fetch_rule_round = 0; b_fetch_rule_round < 2; ++b_fetch_rule_round) {
                                const int b_fetch_rule_point = 256*b_fetch_rule_round + 16*l1_ + l0_;
                                const int b_dim_0 = b_fetch_rule_point / 64;
                                const int b_dim_1 = b_fetch_rule_point % 64;
                                // b_fetch_rule
                                b_fetch[b_dim_0][b_dim_1] = b[(8*k_outer + b_dim_0)*m + 64*j_outer + b_dim_1];
                            }
                        }
                    }
                    // barrier: the threads' loops end here
                    // a_fetch: a_fetch_rule writes, a_reg_rule reads
                    // b_fetch: b_fetch_rule writes, b_reg_rule reads
                    for (int l1_ = 0; l1_ < 16; ++l1_) {
                        for (int l0_ = 0; l0_ < 16; ++l0_) {
                            const int i_thread = l1_;
                            const int j_thread = l0_;
                            float a_reg[4];
                            float b_reg[4];

                            for (int k_inner = 0; k_inner < 8; ++k_inner) {
                                for (int a_fetch_dim_0 = 0; a_fetch_dim_0 < 4; ++a_fetch_dim_0) {
                                    // a_reg_rule
                                    a_reg[a_fetch_dim_0] = a_fetch[4*i_thread + a_fetch_dim_0][k_inner];
                                }
                                for (int b_fetch_dim_1 = 0; b_fetch_dim_1 < 4; ++b_fetch_dim_1) {
                                    // b_reg_rule
                                    b_reg[b_fetch_dim_1] = b_fetch[k_inner][4*j_thread + b_fetch_dim_1];
                                }
                                for (int i_reg = 0; i_reg < 4; ++i_reg) {
                                    for (int j_reg = 0; j_reg < 4; ++j_reg) {
                                        // insn.k.update
                                        acc_k[l1_][l0_][i_reg][j_reg] += a_reg[i_reg]*b_reg[j_reg];
                                    }
                                }
                            }
                        }
                    }
                    // barrier: the threads' loops end here
                    // a_fetch: a_reg_rule reads, a_fetch_rule overwrites
                    // b_fetch: b_reg_rule reads, b_fetch_rule overwrites
                }
                if (l % 8 != 0) {
                    const int k_outer = (l - 1) / 8;
                    for (int l1_ = 0; l1_ < 16; ++l1_) {
                        for (int l0_ = 0; l0_ < 16; ++l0_) {
                            for (int a_fetch_rule_round = 0; a_fetch_rule_round < 2; ++a_fetch_rule_round) {
                                const int a_fetch_rule_point = 256*a_fetch_rule_round + 16*l1_ + l0_;
                                const int a_dim_0 = a_fetch_rule_point / 8;
                                const int a_dim_1 = a_fetch_rule_point % 8;
                                if (8*k_outer + a_dim_1 < l) {
                                    // a_fetch_rule
                                    a_fetch[a_dim_0][a_dim_1] =
                                            a[(64*i_outer + a_dim_0)*l + 8*k_outer + a_dim_1];
                                }
                            }
                            for (int b_fetch_rule_round = 0; b_fetch_rule_round < 2; ++b_fetch_rule_round) {
                                const int b_fetch_rule_point = 256*b_fetch_rule_round + 16*l1_ + l0_;
                                const int b_dim_0 = b_fetch_rule_point / 64;
                                const int b_dim_1 = b_fetch_rule_point % 64;
                                if (8*k_outer + b_dim_0 < l) {
                                    // b_fetch_rule
                                    b_fetch[b_dim_0][b_dim_1] =
                                            b[(8*k_outer + b_dim_0)*m + 64*j_outer + b_dim_1];
                                }
                            }
                        }
                    }
                    // barrier: the threads' loops end here
                    // a_fetch: a_fetch_rule writes, a_reg_rule reads
                    // b_fetch: b_fetch_rule writes, b_reg_rule reads
                    for (int l1_ = 0; l1_ < 16; ++l1_) {
                        for (int l0_ = 0; l0_ < 16; ++l0_) {
                            const int i_thread = l1_;
                            const int j_thread = l0_;
                            float a_reg[4];
                            float b_reg[4];

                            for (int k_inner = 0; k_inner < l - 8*k_outer; ++k_inner) {
                                for (int a_fetch_dim_0 = 0; a_fetch_dim_0 < 4; ++a_fetch_dim_0) {
                                    // a_reg_rule
                                    a_reg[a_fetch_dim_0] = a_fetch[4*i_thread + a_fetch_dim_0][k_inner];
                                }
                                for (int b_fetch_dim_1 = 0; b_fetch_dim_1 < 4; ++b_fetch_dim_1) {
                                    // b_reg_rule
                                    b_reg[b_fetch_dim_1] = b_fetch[k_inner][4*j_thread + b_fetch_dim_1];
                                }
                                for (int i_reg = 0; i_reg < 4; ++i_reg) {
                                    for (int j_reg = 0; j_reg < 4; ++j_reg) {
                                        // insn.k.update
                                        acc_k[l1_][l0_][i_reg][j_reg] += a_reg[i_reg]*b_reg[j_reg];
                                    }
                                }
                            }
                        }
                    }
                }
                for (int l1_ = 0; l1_ < 16; ++l1_) {
                    for (int l0_ = 0; l0_ < 16; ++l0_) {
                        const int i_thread = l1_;
                        const int j_thread = l0_;
                        for (int i_reg = 0; i_reg < 4; ++i_reg) {
                            for (int j_reg = 0; j_reg < 4; ++j_reg) {
                                // insn
                                c[(64*i_outer + 4*i_thread + i_reg)*m + 64*j_outer + 4*j_thread + j_reg] =
                                        acc_k[l1_][l0_][i_reg][j_reg];
                            }
                        }
                    }
                }
            } else {
                for (int l1_ = 0; l1_ < 16; ++l1_) {
                    for (int l0_ = 0; l0_ < 16; ++l0_) {
                        const int i_thread = l1_;
                        const int j_thread = l0_;
                        if (64*j_outer + 4*j_thread < m && 64*i_outer + 4*i_thread < n) {
                            for (int i_reg = 0; i_reg < 4; ++i_reg) {
                                for (int j_reg = 0; j_reg < 4; ++j_reg) {
                                    if (64*j_outer + 4*j_thread + j_reg < m &&
                                            64*i_outer + 4*i_thread + i_reg < n) {
                                        // insn.k.init
                                        acc_k[l1_][l0_][i_reg][j_reg] = 0.0f;
                                    }
                                }
                            }
                        }
                    }
                }
                for (int k_outer = 0; k_outer < (l + 7) / 8; ++k_outer) {
                    for (int l1_ = 0; l1_ < 16; ++l1_) {
                        for (int l0_ = 0; l0_ < 16; ++l0_) {
                            for (int a_fetch_rule_round = 0; a_fetch_rule_round < 2; ++a_fetch_rule_round) {
                                const int a_fetch_rule_point = 256*a_fetch_rule_round + 16*l1_ + l0_;
                                const int a_dim_0 = a_fetch_rule_point / 8;
                                const int a_dim_1 = a_fetch_rule_point % 8;
                                if (64*i_outer + a_dim_0 < n && 8*k_outer + a_dim_1 < l) {
                                    // a_fetch_rule
                                    a_fetch[a_dim_0][a_dim_1] =
                                            a[(64*i_outer + a_dim_0)*l + 8*k_outer + a_dim_1];
                                }
                            }
                            for (int b_fetch_rule_round = 0; b_fetch_rule_round < 2; ++b_fetch_rule_round) {
                                const int b_fetch_rule_point = 256*b_fetch_rule_round + 16*l1_ + l0_;
                                const int b_dim_0 = b_fetch_rule_point / 64;
                                const int b_dim_1 = b_fetch_rule_point % 64;
                                if (64*j_outer + b_dim_1 < m && 8*k_outer + b_dim_0 < l) {
                                    // b_fetch_rule
                                    b_fetch[b_dim_0][b_dim_1] =
                                            b[(8*k_outer + b_dim_0)*m + 64*j_outer + b_dim_1];
                                }
                            }
                        }
                    }
                    // barrier: the threads' loops end here
                    // a_fetch: a_fetch_rule writes, a_reg_rule reads
                    // b_fetch: b_fetch_rule writes, b_reg_rule reads
                    for (int l1_ = 0; l1_ < 16; ++l1_) {
                        for (int l0_ = 0; l0_ < 16; ++l0_) {
                            const int i_thread = l1_;
                            const int j_thread = l0_;
                            float a_reg[4];
                            float b_reg[4];

                            for (int k_inner = 0; k_inner < min_i32(8, l - 8*k_outer); ++k_inner) {
                                if (64*i_outer + 4*i_thread < n) {
                                    for (int a_fetch_dim_0 = 0; a_fetch_dim_0 < 4; ++a_fetch_dim_0) {
                                        if (64*i_outer + 4*i_thread + a_fetch_dim_0 < n) {
                                            // a_reg_rule
                                            a_reg[a_fetch_dim_0] =
                                                    a_fetch[4*i_thread + a_fetch_dim_0][k_inner];
                                        }
                                    }
                                }
                                if (64*j_outer + 4*j_thread < m) {
                                    for (int b_fetch_dim_1 = 0; b_fetch_dim_1 < 4; ++b_fetch_dim_1) {
                                        if (64*j_outer + 4*j_thread + b_fetch_dim_1 < m) {
                                            // b_reg_rule
                                            b_reg[b_fetch_dim_1] =
                                                    b_fetch[k_inner][4*j_thread + b_fetch_dim_1];
                                        }
                                    }
                                    if (64*i_outer + 4*i_thread < n) {
                                        for (int i_reg = 0; i_reg < 4; ++i_reg) {
                                            for (int j_reg = 0; j_reg < 4; ++j_reg) {
                                                if (64*j_outer + 4*j_thread + j_reg < m &&
                                                        64*i_outer + 4*i_thread + i_reg < n) {
                                                    // insn.k.update
                                                    acc_k[l1_][l0_][i_reg][j_reg] +=
                                                            a_reg[i_reg]*b_reg[j_reg];
                                                }
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                    // barrier: the threads' loops end here
                    // a_fetch: a_reg_rule reads, a_fetch_rule overwrites
                    // b_fetch: b_reg_rule reads, b_fetch_rule overwrites
                }
                for (int l1_ = 0; l1_ < 16; ++l1_) {
                    for (int l0_ = 0; l0_ < 16; ++l0_) {
                        const int i_thread = l1_;
                        const int j_thread = l0_;
                        if (64*j_outer + 4*j_thread < m && 64*i_outer + 4*i_thread < n) {
                            for (int i_reg = 0; i_reg < 4; ++i_reg) {
                                for (int j_reg = 0; j_reg < 4; ++j_reg) {
                                    if (64*j_outer + 4*j_thread + j_reg < m &&
                                            64*i_outer + 4*i_thread + i_reg < n) {
                                        // insn
                                        c[(64*i_outer + 4*i_thread + i_reg)*m + 64*j_outer + 4*j_thread +
                                                    j_reg] = acc_k[l1_][l0_][i_reg][j_reg];
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
