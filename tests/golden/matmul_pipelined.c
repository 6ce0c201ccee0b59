#include <math.h>
static inline int min_i32(int a, int b)
{
    return b < a ? b : a;
}

void matmul_vec(const float *restrict a, const float *restrict b, float *restrict c, const int l, const int m,
    const int n)
{
    #pragma omp parallel for collapse(2) if(4864LL*((n + 15) / 16)*((m + 31) / 32)*(l / 8 + 1) >= 32768)
    for (int g1_ = 0; g1_ < (n + 15) / 16; ++g1_) {
        for (int g0_ = 0; g0_ < (m + 31) / 32; ++g0_) {
            const int i_outer = g1_;
            const int j_outer = g0_;
            float acc_k[4][8][4][4];
            float a_fetch[2][16][8];
            float b_fetch[2][8][32];

            if (8 <= l && 32*j_outer + 32 <= m && 16*i_outer + 16 <= n) {  // a full tile
                for (int l1_ = 0; l1_ < 4; ++l1_) {
                    for (int l0_ = 0; l0_ < 8; ++l0_) {
                        const int a_dim_0_l1 = l1_;
                        const int a_dim_1 = l0_;
                        const int b_dim_0_l1 = l1_;
                        const int b_dim_1_outer = l0_;
                        for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                            for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                                // insn.k.init
                                acc_k[l1_][l0_][i_inner_inner][j_inner_inner] = 0.0f;
                            }
                        }
                        const int k_outer_first = 0;
                        for (int a_dim_0_round = 0; a_dim_0_round < 4; ++a_dim_0_round) {
                            // a_fetch_rule_first
                            a_fetch[k_outer_first][4*a_dim_0_round + a_dim_0_l1][a_dim_1] =
                                    a[(16*i_outer + 4*a_dim_0_round + a_dim_0_l1)*l + 8*k_outer_first +
                                        a_dim_1];
                        }
                        for (int b_dim_0_round = 0; b_dim_0_round < 2; ++b_dim_0_round) {
                            for (int b_dim_1_inner = 0; b_dim_1_inner < 4; ++b_dim_1_inner) {
                                // b_fetch_rule_first
                                b_fetch[k_outer_first][4*b_dim_0_round + b_dim_0_l1][4*b_dim_1_outer +
                                            b_dim_1_inner] =
                                        b[(8*k_outer_first + 4*b_dim_0_round + b_dim_0_l1)*m + 32*j_outer +
                                            4*b_dim_1_outer + b_dim_1_inner];
                            }
                        }
                    }
                }
                // barrier: the threads' loops end here
                // a_fetch: a_fetch_rule_first writes, insn.k.update reads
                // b_fetch: b_fetch_rule_first writes, insn.k.update reads
                for (int k_outer = 0; k_outer < l / 8 - 1; ++k_outer) {
                    for (int l1_ = 0; l1_ < 4; ++l1_) {
                        for (int l0_ = 0; l0_ < 8; ++l0_) {
                            const int i_inner_outer = l1_;
                            const int j_inner_outer = l0_;
                            const int a_dim_0_l1 = l1_;
                            const int a_dim_1 = l0_;
                            const int b_dim_0_l1 = l1_;
                            const int b_dim_1_outer = l0_;
                            float a_fetch_next[4];
                            float b_fetch_next[2][4];

                            for (int a_dim_0_round = 0; a_dim_0_round < 4; ++a_dim_0_round) {
                                // a_fetch_load
                                a_fetch_next[a_dim_0_round] =
                                        a[(16*i_outer + 4*a_dim_0_round + a_dim_0_l1)*l + 8*k_outer +
                                            a_dim_1 + 8];
                            }
                            for (int b_dim_0_round = 0; b_dim_0_round < 2; ++b_dim_0_round) {
                                for (int b_dim_1_inner = 0; b_dim_1_inner < 4; ++b_dim_1_inner) {
                                    // b_fetch_load
                                    b_fetch_next[b_dim_0_round][b_dim_1_inner] =
                                            b[(8*k_outer + 4*b_dim_0_round + b_dim_0_l1 + 8)*m +
                                                32*j_outer + 4*b_dim_1_outer + b_dim_1_inner];
                                }
                            }
                            for (int k_inner = 0; k_inner < 8; ++k_inner) {
                                for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                                    for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                                        // insn.k.update
                                        acc_k[l1_][l0_][i_inner_inner][j_inner_inner] +=
                                                a_fetch[k_outer % 2][4*i_inner_outer +
                                                    i_inner_inner][k_inner]*
                                                b_fetch[k_outer % 2][k_inner][4*j_inner_outer +
                                                    j_inner_inner];
                                    }
                                }
                            }
                            for (int a_dim_0_round = 0; a_dim_0_round < 4; ++a_dim_0_round) {
                                // a_fetch_rule
                                a_fetch[(k_outer + 1) % 2][4*a_dim_0_round + a_dim_0_l1][a_dim_1] =
                                        a_fetch_next[a_dim_0_round];
                            }
                            for (int b_dim_0_round = 0; b_dim_0_round < 2; ++b_dim_0_round) {
                                for (int b_dim_1_inner = 0; b_dim_1_inner < 4; ++b_dim_1_inner) {
                                    // b_fetch_rule
                                    b_fetch[(k_outer + 1) % 2][4*b_dim_0_round +
                                                b_dim_0_l1][4*b_dim_1_outer + b_dim_1_inner] =
                                            b_fetch_next[b_dim_0_round][b_dim_1_inner];
                                }
                            }
                        }
                    }
                    // barrier: the threads' loops end here
                    // a_fetch: insn.k.update reads, a_fetch_rule overwrites
                    // a_fetch: a_fetch_rule writes, insn.k.update reads
                    // b_fetch: insn.k.update reads, b_fetch_rule overwrites
                    // b_fetch: b_fetch_rule writes, insn.k.update reads
                }
                for (int k_outer = l / 8 - 1; k_outer < (l + 7) / 8; ++k_outer) {
                    for (int l1_ = 0; l1_ < 4; ++l1_) {
                        for (int l0_ = 0; l0_ < 8; ++l0_) {
                            const int i_inner_outer = l1_;
                            const int j_inner_outer = l0_;
                            const int a_dim_0_l1 = l1_;
                            const int a_dim_1 = l0_;
                            const int b_dim_0_l1 = l1_;
                            const int b_dim_1_outer = l0_;
                            float a_fetch_next[4];
                            float b_fetch_next[2][4];

                            if (8*k_outer + a_dim_1 + 8 < l) {
                                for (int a_dim_0_round = 0; a_dim_0_round < 4; ++a_dim_0_round) {
                                    // a_fetch_load
                                    a_fetch_next[a_dim_0_round] =
                                            a[(16*i_outer + 4*a_dim_0_round + a_dim_0_l1)*l + 8*k_outer +
                                                a_dim_1 + 8];
                                }
                            }
                            if (8*k_outer + b_dim_0_l1 + 8 < l) {
                                for (int b_dim_0_round = 0; b_dim_0_round < 2; ++b_dim_0_round) {
                                    if (8*k_outer + 4*b_dim_0_round + b_dim_0_l1 + 8 < l) {
                                        for (int b_dim_1_inner = 0; b_dim_1_inner < 4; ++b_dim_1_inner) {
                                            // b_fetch_load
                                            b_fetch_next[b_dim_0_round][b_dim_1_inner] =
                                                    b[(8*k_outer + 4*b_dim_0_round + b_dim_0_l1 + 8)*m +
                                                        32*j_outer + 4*b_dim_1_outer + b_dim_1_inner];
                                        }
                                    }
                                }
                            }
                            for (int k_inner = 0; k_inner < min_i32(8, l - 8*k_outer); ++k_inner) {
                                for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                                    for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                                        // insn.k.update
                                        acc_k[l1_][l0_][i_inner_inner][j_inner_inner] +=
                                                a_fetch[k_outer % 2][4*i_inner_outer +
                                                    i_inner_inner][k_inner]*
                                                b_fetch[k_outer % 2][k_inner][4*j_inner_outer +
                                                    j_inner_inner];
                                    }
                                }
                            }
                            if (8*k_outer + a_dim_1 + 8 < l) {
                                for (int a_dim_0_round = 0; a_dim_0_round < 4; ++a_dim_0_round) {
                                    // a_fetch_rule
                                    a_fetch[(k_outer + 1) % 2][4*a_dim_0_round + a_dim_0_l1][a_dim_1] =
                                            a_fetch_next[a_dim_0_round];
                                }
                            }
                            if (8*k_outer + b_dim_0_l1 + 8 < l) {
                                for (int b_dim_0_round = 0; b_dim_0_round < 2; ++b_dim_0_round) {
                                    if (8*k_outer + 4*b_dim_0_round + b_dim_0_l1 + 8 < l) {
                                        for (int b_dim_1_inner = 0; b_dim_1_inner < 4; ++b_dim_1_inner) {
                                            // b_fetch_rule
                                            b_fetch[(k_outer + 1) % 2][4*b_dim_0_round +
                                                        b_dim_0_l1][4*b_dim_1_outer + b_dim_1_inner] =
                                                    b_fetch_next[b_dim_0_round][b_dim_1_inner];
                                        }
                                    }
                                }
                            }
                        }
                    }
                    // barrier: the threads' loops end here
                    // a_fetch: insn.k.update reads, a_fetch_rule overwrites
                    // a_fetch: a_fetch_rule writes, insn.k.update reads
                    // b_fetch: insn.k.update reads, b_fetch_rule overwrites
                    // b_fetch: b_fetch_rule writes, insn.k.update reads
                }
                for (int l1_ = 0; l1_ < 4; ++l1_) {
                    for (int l0_ = 0; l0_ < 8; ++l0_) {
                        const int i_inner_outer = l1_;
                        const int j_inner_outer = l0_;
                        for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                            for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                                // insn
                                c[(16*i_outer + 4*i_inner_outer + i_inner_inner)*m + 32*j_outer +
                                            4*j_inner_outer + j_inner_inner] =
                                        acc_k[l1_][l0_][i_inner_inner][j_inner_inner];
                            }
                        }
                    }
                }
            } else {
                for (int l1_ = 0; l1_ < 4; ++l1_) {
                    for (int l0_ = 0; l0_ < 8; ++l0_) {
                        const int i_inner_outer = l1_;
                        const int j_inner_outer = l0_;
                        const int a_dim_0_l1 = l1_;
                        const int a_dim_1 = l0_;
                        const int b_dim_0_l1 = l1_;
                        const int b_dim_1_outer = l0_;
                        if (32*j_outer + 4*j_inner_outer < m && 16*i_outer + 4*i_inner_outer < n) {
                            for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                                for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                                    if (32*j_outer + 4*j_inner_outer + j_inner_inner < m &&
                                            16*i_outer + 4*i_inner_outer + i_inner_inner < n) {
                                        // insn.k.init
                                        acc_k[l1_][l0_][i_inner_inner][j_inner_inner] = 0.0f;
                                    }
                                }
                            }
                        }
                        if (a_dim_1 < l && 16*i_outer + a_dim_0_l1 < n) {
                            const int k_outer_first = 0;
                            for (int a_dim_0_round = 0; a_dim_0_round < 4; ++a_dim_0_round) {
                                if (16*i_outer + 4*a_dim_0_round + a_dim_0_l1 < n) {
                                    // a_fetch_rule_first
                                    a_fetch[k_outer_first][4*a_dim_0_round + a_dim_0_l1][a_dim_1] =
                                            a[(16*i_outer + 4*a_dim_0_round + a_dim_0_l1)*l +
                                                8*k_outer_first + a_dim_1];
                                }
                            }
                        }
                        if (b_dim_0_l1 < l && 32*j_outer + 4*b_dim_1_outer < m) {
                            const int k_outer_first = 0;
                            for (int b_dim_0_round = 0; b_dim_0_round < 2; ++b_dim_0_round) {
                                for (int b_dim_1_inner = 0; b_dim_1_inner < 4; ++b_dim_1_inner) {
                                    if (4*b_dim_0_round + b_dim_0_l1 < l &&
                                            32*j_outer + 4*b_dim_1_outer + b_dim_1_inner < m) {
                                        // b_fetch_rule_first
                                        b_fetch[k_outer_first][4*b_dim_0_round +
                                                    b_dim_0_l1][4*b_dim_1_outer + b_dim_1_inner] =
                                                b[(8*k_outer_first + 4*b_dim_0_round + b_dim_0_l1)*m +
                                                    32*j_outer + 4*b_dim_1_outer + b_dim_1_inner];
                                    }
                                }
                            }
                        }
                    }
                }
                // barrier: the threads' loops end here
                // a_fetch: a_fetch_rule_first writes, insn.k.update reads
                // b_fetch: b_fetch_rule_first writes, insn.k.update reads
                for (int k_outer = 0; k_outer < (l + 7) / 8; ++k_outer) {
                    for (int l1_ = 0; l1_ < 4; ++l1_) {
                        for (int l0_ = 0; l0_ < 8; ++l0_) {
                            const int i_inner_outer = l1_;
                            const int j_inner_outer = l0_;
                            const int a_dim_0_l1 = l1_;
                            const int a_dim_1 = l0_;
                            const int b_dim_0_l1 = l1_;
                            const int b_dim_1_outer = l0_;
                            float a_fetch_next[4];
                            float b_fetch_next[2][4];

                            if (16*i_outer + a_dim_0_l1 < n && 8*k_outer + a_dim_1 + 8 < l) {
                                for (int a_dim_0_round = 0; a_dim_0_round < 4; ++a_dim_0_round) {
                                    if (16*i_outer + 4*a_dim_0_round + a_dim_0_l1 < n) {
                                        // a_fetch_load
                                        a_fetch_next[a_dim_0_round] =
                                                a[(16*i_outer + 4*a_dim_0_round + a_dim_0_l1)*l +
                                                    8*k_outer + a_dim_1 + 8];
                                    }
                                }
                            }
                            if (32*j_outer + 4*b_dim_1_outer < m && 8*k_outer + b_dim_0_l1 + 8 < l) {
                                for (int b_dim_0_round = 0; b_dim_0_round < 2; ++b_dim_0_round) {
                                    for (int b_dim_1_inner = 0; b_dim_1_inner < 4; ++b_dim_1_inner) {
                                        if (32*j_outer + 4*b_dim_1_outer + b_dim_1_inner < m &&
                                                8*k_outer + 4*b_dim_0_round + b_dim_0_l1 + 8 < l) {
                                            // b_fetch_load
                                            b_fetch_next[b_dim_0_round][b_dim_1_inner] =
                                                    b[(8*k_outer + 4*b_dim_0_round + b_dim_0_l1 + 8)*m +
                                                        32*j_outer + 4*b_dim_1_outer + b_dim_1_inner];
                                        }
                                    }
                                }
                            }
                            if (32*j_outer + 4*j_inner_outer < m && 16*i_outer + 4*i_inner_outer < n) {
                                for (int k_inner = 0; k_inner < min_i32(8, l - 8*k_outer); ++k_inner) {
                                    for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                                        for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                                            if (32*j_outer + 4*j_inner_outer + j_inner_inner < m &&
                                                    16*i_outer + 4*i_inner_outer + i_inner_inner < n) {
                                                // insn.k.update
                                                acc_k[l1_][l0_][i_inner_inner][j_inner_inner] +=
                                                        a_fetch[k_outer % 2][4*i_inner_outer +
                                                            i_inner_inner][k_inner]*
                                                        b_fetch[k_outer % 2][k_inner][4*j_inner_outer +
                                                            j_inner_inner];
                                            }
                                        }
                                    }
                                }
                            }
                            if (16*i_outer + a_dim_0_l1 < n && 8*k_outer + a_dim_1 + 8 < l) {
                                for (int a_dim_0_round = 0; a_dim_0_round < 4; ++a_dim_0_round) {
                                    if (16*i_outer + 4*a_dim_0_round + a_dim_0_l1 < n) {
                                        // a_fetch_rule
                                        a_fetch[(k_outer + 1) % 2][4*a_dim_0_round + a_dim_0_l1][a_dim_1] =
                                                a_fetch_next[a_dim_0_round];
                                    }
                                }
                            }
                            if (32*j_outer + 4*b_dim_1_outer < m && 8*k_outer + b_dim_0_l1 + 8 < l) {
                                for (int b_dim_0_round = 0; b_dim_0_round < 2; ++b_dim_0_round) {
                                    for (int b_dim_1_inner = 0; b_dim_1_inner < 4; ++b_dim_1_inner) {
                                        if (32*j_outer + 4*b_dim_1_outer + b_dim_1_inner < m &&
                                                8*k_outer + 4*b_dim_0_round + b_dim_0_l1 + 8 < l) {
                                            // b_fetch_rule
                                            b_fetch[(k_outer + 1) % 2][4*b_dim_0_round +
                                                        b_dim_0_l1][4*b_dim_1_outer + b_dim_1_inner] =
                                                    b_fetch_next[b_dim_0_round][b_dim_1_inner];
                                        }
                                    }
                                }
                            }
                        }
                    }
                    // barrier: the threads' loops end here
                    // a_fetch: insn.k.update reads, a_fetch_rule overwrites
                    // a_fetch: a_fetch_rule writes, insn.k.update reads
                    // b_fetch: insn.k.update reads, b_fetch_rule overwrites
                    // b_fetch: b_fetch_rule writes, insn.k.update reads
                }
                for (int l1_ = 0; l1_ < 4; ++l1_) {
                    for (int l0_ = 0; l0_ < 8; ++l0_) {
                        const int i_inner_outer = l1_;
                        const int j_inner_outer = l0_;
                        if (32*j_outer + 4*j_inner_outer < m && 16*i_outer + 4*i_inner_outer < n) {
                            for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                                for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                                    if (32*j_outer + 4*j_inner_outer + j_inner_inner < m &&
                                            16*i_outer + 4*i_inner_outer + i_inner_inner < n) {
                                        // insn
                                        c[(16*i_outer + 4*i_inner_outer + i_inner_inner)*m + 32*j_outer +
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
