#include <math.h>
static inline int max_i32(int a, int b)
{
    return a < b ? b : a;
}
static inline int min_i32(int a, int b)
{
    return b < a ? b : a;
}

void matmul_vec(const float *restrict a, const float *restrict b, float *restrict c, const int l, const int m,
    const int n)
{
    #pragma omp parallel for collapse(2) if(4480LL*((n + 15) / 16)*((m + 31) / 32)*(l / 8 + 1) >= 32768)
    for (int g1_ = 0; g1_ < (n + 15) / 16; ++g1_) {
        for (int g0_ = 0; g0_ < (m + 31) / 32; ++g0_) {
            const int i_outer = g1_;
            const int j_outer = g0_;
            float acc_k[4][8][4][4];
            float a_fetch[3][16][8];
            float b_fetch[3][8][32];

            if (32*j_outer + 32 <= m && 16*i_outer + 16 <= n) {  // a full tile
                for (int l1_ = 0; l1_ < 4; ++l1_) {
                    for (int l0_ = 0; l0_ < 8; ++l0_) {
                        for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                            for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                                // insn.k.init
                                acc_k[l1_][l0_][i_inner_inner][j_inner_inner] = 0.0f;
                            }
                        }
                    }
                }
                for (int k_outer_first = 0; k_outer_first < min_i32(2, l / 8); ++k_outer_first) {
                    for (int l1_ = 0; l1_ < 4; ++l1_) {
                        for (int l0_ = 0; l0_ < 8; ++l0_) {
                            for (int a_fetch_rule_first_round =
                                    0; a_fetch_rule_first_round < 4; ++a_fetch_rule_first_round) {
                                const int a_dim_0 = 4*a_fetch_rule_first_round + l1_;
                                const int a_dim_1 = l0_;
                                // a_fetch_rule_first
                                a_fetch[k_outer_first][a_dim_0][a_dim_1] =
                                        a[(16*i_outer + a_dim_0)*l + 8*k_outer_first + a_dim_1];
                            }
                            for (int b_fetch_rule_first_round =
                                    0; b_fetch_rule_first_round < 2; ++b_fetch_rule_first_round) {
                                const int b_dim_0 = 4*b_fetch_rule_first_round + l1_;
                                const int b_dim_1_outer = l0_;
                                for (int b_dim_1_inner = 0; b_dim_1_inner < 4; ++b_dim_1_inner) {
                                    // b_fetch_rule_first
                                    b_fetch[k_outer_first][b_dim_0][4*b_dim_1_outer + b_dim_1_inner] =
                                            b[(8*k_outer_first + b_dim_0)*m + 32*j_outer + 4*b_dim_1_outer +
                                                b_dim_1_inner];
                                }
                            }
                        }
                    }
                }
                if (l <= 15 && l % 8 != 0) {
                    const int k_outer_first = (l - 1) / 8;
                    for (int l1_ = 0; l1_ < 4; ++l1_) {
                        for (int l0_ = 0; l0_ < 8; ++l0_) {
                            for (int a_fetch_rule_first_round =
                                    0; a_fetch_rule_first_round < 4; ++a_fetch_rule_first_round) {
                                const int a_dim_0 = 4*a_fetch_rule_first_round + l1_;
                                const int a_dim_1 = l0_;
                                if (8*k_outer_first + a_dim_1 < l) {
                                    // a_fetch_rule_first
                                    a_fetch[k_outer_first][a_dim_0][a_dim_1] =
                                            a[(16*i_outer + a_dim_0)*l + 8*k_outer_first + a_dim_1];
                                }
                            }
                            for (int b_fetch_rule_first_round =
                                    0; b_fetch_rule_first_round < 2; ++b_fetch_rule_first_round) {
                                const int b_dim_0 = 4*b_fetch_rule_first_round + l1_;
                                const int b_dim_1_outer = l0_;
                                if (8*k_outer_first + b_dim_0 < l) {
                                    for (int b_dim_1_inner = 0; b_dim_1_inner < 4; ++b_dim_1_inner) {
                                        // b_fetch_rule_first
                                        b_fetch[k_outer_first][b_dim_0][4*b_dim_1_outer + b_dim_1_inner] =
                                                b[(8*k_outer_first + b_dim_0)*m + 32*j_outer +
                                                    4*b_dim_1_outer + b_dim_1_inner];
                                    }
                                }
                            }
                        }
                    }
                }
                // barrier: the threads' loops end here
                // a_fetch: a_fetch_rule_first writes, insn.k.update reads
                // b_fetch: b_fetch_rule_first writes, insn.k.update reads
                for (int k_outer = 0; k_outer < l / 8 - 2; ++k_outer) {
                    for (int l1_ = 0; l1_ < 4; ++l1_) {
                        for (int l0_ = 0; l0_ < 8; ++l0_) {
                            const int i_inner_outer = l1_;
                            const int j_inner_outer = l0_;
                            for (int a_fetch_rule_round = 0; a_fetch_rule_round < 4; ++a_fetch_rule_round) {
                                const int a_dim_0 = 4*a_fetch_rule_round + l1_;
                                const int a_dim_1 = l0_;
                                // a_fetch_rule
                                a_fetch[(k_outer + 2) % 3][a_dim_0][a_dim_1] =
                                        a[(16*i_outer + a_dim_0)*l + 8*k_outer + a_dim_1 + 16];
                            }
                            for (int b_fetch_rule_round = 0; b_fetch_rule_round < 2; ++b_fetch_rule_round) {
                                const int b_dim_0 = 4*b_fetch_rule_round + l1_;
                                const int b_dim_1_outer = l0_;
                                for (int b_dim_1_inner = 0; b_dim_1_inner < 4; ++b_dim_1_inner) {
                                    // b_fetch_rule
                                    b_fetch[(k_outer + 2) % 3][b_dim_0][4*b_dim_1_outer + b_dim_1_inner] =
                                            b[(8*k_outer + b_dim_0 + 16)*m + 32*j_outer + 4*b_dim_1_outer +
                                                b_dim_1_inner];
                                }
                            }
                            for (int k_inner = 0; k_inner < 8; ++k_inner) {
                                for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                                    for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                                        // insn.k.update
                                        acc_k[l1_][l0_][i_inner_inner][j_inner_inner] +=
                                                a_fetch[k_outer % 3][4*i_inner_outer +
                                                    i_inner_inner][k_inner]*
                                                b_fetch[k_outer % 3][k_inner][4*j_inner_outer +
                                                    j_inner_inner];
                                    }
                                }
                            }
                        }
                    }
                    // barrier: the threads' loops end here
                    // a_fetch: a_fetch_rule writes, insn.k.update reads
                    // b_fetch: b_fetch_rule writes, insn.k.update reads
                    // a_fetch: insn.k.update reads, a_fetch_rule overwrites
                    // b_fetch: insn.k.update reads, b_fetch_rule overwrites
                }
                for (int k_outer = max_i32(0, l / 8 - 2); k_outer < (l + 7) / 8; ++k_outer) {
                    for (int l1_ = 0; l1_ < 4; ++l1_) {
                        for (int l0_ = 0; l0_ < 8; ++l0_) {
                            const int i_inner_outer = l1_;
                            const int j_inner_outer = l0_;
                            if (8*k_outer + 16 < l) {
                                for (int a_fetch_rule_round =
                                        0; a_fetch_rule_round < 4; ++a_fetch_rule_round) {
                                    const int a_dim_0 = 4*a_fetch_rule_round + l1_;
                                    const int a_dim_1 = l0_;
                                    if (8*k_outer + a_dim_1 + 16 < l) {
                                        // a_fetch_rule
                                        a_fetch[(k_outer + 2) % 3][a_dim_0][a_dim_1] =
                                                a[(16*i_outer + a_dim_0)*l + 8*k_outer + a_dim_1 + 16];
                                    }
                                }
                                for (int b_fetch_rule_round =
                                        0; b_fetch_rule_round < 2; ++b_fetch_rule_round) {
                                    const int b_dim_0 = 4*b_fetch_rule_round + l1_;
                                    const int b_dim_1_outer = l0_;
                                    if (8*k_outer + b_dim_0 + 16 < l) {
                                        for (int b_dim_1_inner = 0; b_dim_1_inner < 4; ++b_dim_1_inner) {
                                            // b_fetch_rule
                                            b_fetch[(k_outer + 2) % 3][b_dim_0][4*b_dim_1_outer +
                                                        b_dim_1_inner] =
                                                    b[(8*k_outer + b_dim_0 + 16)*m + 32*j_outer +
                                                        4*b_dim_1_outer + b_dim_1_inner];
                                        }
                                    }
                                }
                            }
                            for (int k_inner = 0; k_inner < min_i32(8, l - 8*k_outer); ++k_inner) {
                                for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                                    for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                                        // insn.k.update
                                        acc_k[l1_][l0_][i_inner_inner][j_inner_inner] +=
                                                a_fetch[k_outer % 3][4*i_inner_outer +
                                                    i_inner_inner][k_inner]*
                                                b_fetch[k_outer % 3][k_inner][4*j_inner_outer +
                                                    j_inner_inner];
                                    }
                                }
                            }
                        }
                    }
                    // barrier: the threads' loops end here
                    // a_fetch: a_fetch_rule writes, insn.k.update reads
                    // b_fetch: b_fetch_rule writes, insn.k.update reads
                    // a_fetch: insn.k.update reads, a_fetch_rule overwrites
                    // b_fetch: insn.k.update reads, b_fetch_rule overwrites
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
                    }
                }
                for (int k_outer_first = 0; k_outer_first < min_i32(2, (l + 7) / 8); ++k_outer_first) {
                    for (int l1_ = 0; l1_ < 4; ++l1_) {
                        for (int l0_ = 0; l0_ < 8; ++l0_) {
                            for (int a_fetch_rule_first_round =
                                    0; a_fetch_rule_first_round < 4; ++a_fetch_rule_first_round) {
                                const int a_dim_0 = 4*a_fetch_rule_first_round + l1_;
                                const int a_dim_1 = l0_;
                                if (16*i_outer + a_dim_0 < n && 8*k_outer_first + a_dim_1 < l) {
                                    // a_fetch_rule_first
                                    a_fetch[k_outer_first][a_dim_0][a_dim_1] =
                                            a[(16*i_outer + a_dim_0)*l + 8*k_outer_first + a_dim_1];
                                }
                            }
                            for (int b_fetch_rule_first_round =
                                    0; b_fetch_rule_first_round < 2; ++b_fetch_rule_first_round) {
                                const int b_dim_0 = 4*b_fetch_rule_first_round + l1_;
                                const int b_dim_1_outer = l0_;
                                for (int b_dim_1_inner = 0; b_dim_1_inner < 4; ++b_dim_1_inner) {
                                    if (32*j_outer + 4*b_dim_1_outer + b_dim_1_inner < m &&
                                            8*k_outer_first + b_dim_0 < l) {
                                        // b_fetch_rule_first
                                        b_fetch[k_outer_first][b_dim_0][4*b_dim_1_outer + b_dim_1_inner] =
                                                b[(8*k_outer_first + b_dim_0)*m + 32*j_outer +
                                                    4*b_dim_1_outer + b_dim_1_inner];
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
                            if (8*k_outer + 16 < l) {
                                for (int a_fetch_rule_round =
                                        0; a_fetch_rule_round < 4; ++a_fetch_rule_round) {
                                    const int a_dim_0 = 4*a_fetch_rule_round + l1_;
                                    const int a_dim_1 = l0_;
                                    if (16*i_outer + a_dim_0 < n && 8*k_outer + a_dim_1 + 16 < l) {
                                        // a_fetch_rule
                                        a_fetch[(k_outer + 2) % 3][a_dim_0][a_dim_1] =
                                                a[(16*i_outer + a_dim_0)*l + 8*k_outer + a_dim_1 + 16];
                                    }
                                }
                                for (int b_fetch_rule_round =
                                        0; b_fetch_rule_round < 2; ++b_fetch_rule_round) {
                                    const int b_dim_0 = 4*b_fetch_rule_round + l1_;
                                    const int b_dim_1_outer = l0_;
                                    for (int b_dim_1_inner = 0; b_dim_1_inner < 4; ++b_dim_1_inner) {
                                        if (32*j_outer + 4*b_dim_1_outer + b_dim_1_inner < m &&
                                                8*k_outer + b_dim_0 + 16 < l) {
                                            // b_fetch_rule
                                            b_fetch[(k_outer + 2) % 3][b_dim_0][4*b_dim_1_outer +
                                                        b_dim_1_inner] =
                                                    b[(8*k_outer + b_dim_0 + 16)*m + 32*j_outer +
                                                        4*b_dim_1_outer + b_dim_1_inner];
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
                                                        a_fetch[k_outer % 3][4*i_inner_outer +
                                                            i_inner_inner][k_inner]*
                                                        b_fetch[k_outer % 3][k_inner][4*j_inner_outer +
                                                            j_inner_inner];
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                    // barrier: the threads' loops end here
                    // a_fetch: a_fetch_rule writes, insn.k.update reads
                    // b_fetch: b_fetch_rule writes, insn.k.update reads
                    // a_fetch: insn.k.update reads, a_fetch_rule overwrites
                    // b_fetch: insn.k.update reads, b_fetch_rule overwrites
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
