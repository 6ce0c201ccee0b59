#include <math.h>

void matmul_by_warps(const double *restrict a, const double *restrict b, double *restrict c, const int l,
    const int m, const int n)
{
    #pragma omp parallel for collapse(2) if(5120LL*((n + 15) / 16)*((m + 15) / 16)*((l + 15) / 16 + 1) >= 32768)
    for (int g1_ = 0; g1_ < (n + 15) / 16; ++g1_) {
        for (int g0_ = 0; g0_ < (m + 15) / 16; ++g0_) {
            const int i_block = g1_;
            const int j_block = g0_;
            double acc_k[64][2][2];
            double a_padded_0[16][16];
            double b_padded_0[16][16];
            double a_padded_0_next[64][4];
            double b_padded_0_next[64][4];

            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int a_padded_dim_0_l0 = l0_ / 16;
                const int a_padded_dim_1 = l0_ % 16;
                const int b_padded_dim_0_l0 = l0_ / 16;
                const int b_padded_dim_1 = l0_ % 16;
                for (int j_reg = 0; j_reg < 2; ++j_reg) {
                    for (int j_box_item = 0; j_box_item < 2; ++j_box_item) {
                        // insn.k.init
                        acc_k[l0_][j_reg][j_box_item] = 0.0;
                    }
                }
                const int k_outer_first = 0;
                for (int a_padded_dim_0_round = 0; a_padded_dim_0_round < 4; ++a_padded_dim_0_round) {
                    // a_padded_0_rule_first
                    a_padded_0[4*a_padded_dim_0_round + a_padded_dim_0_l0][a_padded_dim_1] = 16*i_block +
                            4*a_padded_dim_0_round + a_padded_dim_0_l0 < n &&
                            16*k_outer_first + a_padded_dim_1 < l ?
                            a[(16*i_block + 4*a_padded_dim_0_round + a_padded_dim_0_l0)*l +
                                16*k_outer_first + a_padded_dim_1] : 0.0;
                }
                for (int b_padded_dim_0_round = 0; b_padded_dim_0_round < 4; ++b_padded_dim_0_round) {
                    // b_padded_0_rule_first
                    b_padded_0[4*b_padded_dim_0_round + b_padded_dim_0_l0][b_padded_dim_1] =
                            16*k_outer_first + 4*b_padded_dim_0_round + b_padded_dim_0_l0 < l &&
                            16*j_block + b_padded_dim_1 < m ?
                            b[(16*k_outer_first + 4*b_padded_dim_0_round + b_padded_dim_0_l0)*m +
                                16*j_block + b_padded_dim_1] : 0.0;
                }
            }
            // barrier: the threads' loops end here
            // a_padded_0: a_padded_0_rule_first writes, insn.k.update reads
            // b_padded_0: b_padded_0_rule_first writes, insn.k.update reads
            for (int k_outer = 0; k_outer < (l + 15) / 16; ++k_outer) {
                if (16*k_outer + 16 < l) {
                    for (int l0_ = 0; l0_ < 64; ++l0_) {
                        const int a_padded_dim_0_l0 = l0_ / 16;
                        const int a_padded_dim_1 = l0_ % 16;
                        const int b_padded_dim_0_l0 = l0_ / 16;
                        const int b_padded_dim_1 = l0_ % 16;
                        for (int a_padded_dim_0_round = 0; a_padded_dim_0_round < 4; ++a_padded_dim_0_round) {
                            // a_padded_0_load
                            a_padded_0_next[l0_][a_padded_dim_0_round] = 16*i_block +
                                    4*a_padded_dim_0_round + a_padded_dim_0_l0 < n &&
                                    16*k_outer + a_padded_dim_1 + 16 < l ?
                                    a[(16*i_block + 4*a_padded_dim_0_round + a_padded_dim_0_l0)*l +
                                        16*k_outer + a_padded_dim_1 + 16] : 0.0;
                        }
                        for (int b_padded_dim_0_round = 0; b_padded_dim_0_round < 4; ++b_padded_dim_0_round) {
                            // b_padded_0_load
                            b_padded_0_next[l0_][b_padded_dim_0_round] = 16*k_outer +
                                    4*b_padded_dim_0_round + b_padded_dim_0_l0 + 16 < l &&
                                    16*j_block + b_padded_dim_1 < m ?
                                    b[(16*k_outer + 4*b_padded_dim_0_round + b_padded_dim_0_l0 + 16)*m +
                                        16*j_block + b_padded_dim_1] : 0.0;
                        }
                    }
                }
                for (int k_step = 0; k_step < 4; ++k_step) {
                    for (int j_reg = 0; j_reg < 2; ++j_reg) {
                        for (int l0_ = 0; l0_ < 64; ++l0_) {
                            const int i_warp = l0_ / 32;
                            const int i_box = l0_ / 4 % 8;
                            const int j_box_lane = l0_ % 4;
                            for (int k_box = 0; k_box < 4; ++k_box) {
                                for (int j_box_item = 0; j_box_item < 2; ++j_box_item) {
                                    // insn.k.update
                                    acc_k[l0_][j_reg][j_box_item] +=
                                            a_padded_0[8*i_warp + i_box][4*k_step + k_box]*
                                            b_padded_0[4*k_step + k_box][8*j_reg + 2*j_box_lane + j_box_item];
                                }
                            }
                        }
                    }
                }
                // barrier: the threads' loops end here
                // a_padded_0: insn.k.update reads, a_padded_0_rule overwrites
                // b_padded_0: insn.k.update reads, b_padded_0_rule overwrites
                if (16*k_outer + 16 < l) {
                    for (int l0_ = 0; l0_ < 64; ++l0_) {
                        const int a_padded_dim_0_l0 = l0_ / 16;
                        const int a_padded_dim_1 = l0_ % 16;
                        const int b_padded_dim_0_l0 = l0_ / 16;
                        const int b_padded_dim_1 = l0_ % 16;
                        for (int a_padded_dim_0_round = 0; a_padded_dim_0_round < 4; ++a_padded_dim_0_round) {
                            // a_padded_0_rule
                            a_padded_0[4*a_padded_dim_0_round + a_padded_dim_0_l0][a_padded_dim_1] =
                                    a_padded_0_next[l0_][a_padded_dim_0_round];
                        }
                        for (int b_padded_dim_0_round = 0; b_padded_dim_0_round < 4; ++b_padded_dim_0_round) {
                            // b_padded_0_rule
                            b_padded_0[4*b_padded_dim_0_round + b_padded_dim_0_l0][b_padded_dim_1] =
                                    b_padded_0_next[l0_][b_padded_dim_0_round];
                        }
                    }
                }
                // barrier: the threads' loops end here
                // a_padded_0: a_padded_0_rule writes, insn.k.update reads
                // b_padded_0: b_padded_0_rule writes, insn.k.update reads
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i_warp = l0_ / 32;
                const int i_box = l0_ / 4 % 8;
                const int j_box_lane = l0_ % 4;
                if (16*j_block + 2*j_box_lane < m && 16*i_block + 8*i_warp + i_box < n) {
                    for (int j_reg = 0; j_reg < 2; ++j_reg) {
                        for (int j_box_item = 0; j_box_item < 2; ++j_box_item) {
                            if (16*j_block + 8*j_reg + 2*j_box_lane + j_box_item < m) {
                                // insn
                                c[(16*i_block + 8*i_warp + i_box)*m + 16*j_block + 8*j_reg + 2*j_box_lane +
                                            j_box_item] = acc_k[l0_][j_reg][j_box_item];
                            }
                        }
                    }
                }
            }
        }
    }
}
