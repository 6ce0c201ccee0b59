#include <math.h>
static inline int max_i32(int a, int b)
{
    return a < b ? b : a;
}

void kernel(const double *restrict x, const double *restrict w, double *restrict y, const int m, const int n)
{
    if (n < 1 || m < 1)
        return;
    #pragma omp parallel for if(72LL*((m + 3) / 4)*(max_i32(1, n)) >= 32768)
    for (int g0_ = 0; g0_ < (m + 3) / 4; ++g0_) {
        const int j_outer = g0_;
        double w_fetch[8][4];
        double acc_k[max_i32(1, n)][4];

        if (4*j_outer + 4 <= m) {  // a full tile
            for (int l1_ = 0; l1_ < max_i32(1, n); ++l1_) {
                for (int l0_ = 0; l0_ < 4; ++l0_) {
                    const int i = l1_;
                    if (l1_ == 0) {
                        for (int w_fetch_rule_round = 0; w_fetch_rule_round < 8; ++w_fetch_rule_round) {
                            const int w_dim_0 = w_fetch_rule_round;
                            const int w_dim_1 = l0_;
                            // w_fetch_rule
                            w_fetch[w_dim_0][w_dim_1] = w[w_dim_0*m + 4*j_outer + w_dim_1];
                        }
                    }
                    if (i < n) {
                        // insn.k.init
                        acc_k[l1_][l0_] = 0.0;
                    }
                }
            }
            // barrier: the threads' loops end here
            // w_fetch: w_fetch_rule writes, insn.k.update reads
            for (int l1_ = 0; l1_ < max_i32(1, n); ++l1_) {
                for (int l0_ = 0; l0_ < 4; ++l0_) {
                    const int i = l1_;
                    const int j_inner = l0_;
                    if (i < n) {
                        for (int k = 0; k < 8; ++k) {
                            // insn.k.update
                            acc_k[l1_][l0_] += x[8*i + k]*w_fetch[k][j_inner];
                        }
                        // insn
                        y[i*m + 4*j_outer + j_inner] = acc_k[l1_][l0_];
                    }
                }
            }
        } else {
            for (int l1_ = 0; l1_ < max_i32(1, n); ++l1_) {
                for (int l0_ = 0; l0_ < 4; ++l0_) {
                    const int i = l1_;
                    const int j_inner = l0_;
                    if (l1_ == 0) {
                        for (int w_fetch_rule_round = 0; w_fetch_rule_round < 8; ++w_fetch_rule_round) {
                            const int w_dim_0 = w_fetch_rule_round;
                            const int w_dim_1 = l0_;
                            if (4*j_outer + w_dim_1 < m) {
                                // w_fetch_rule
                                w_fetch[w_dim_0][w_dim_1] = w[w_dim_0*m + 4*j_outer + w_dim_1];
                            }
                        }
                    }
                    if (i < n && 4*j_outer + j_inner < m) {
                        // insn.k.init
                        acc_k[l1_][l0_] = 0.0;
                    }
                }
            }
            // barrier: the threads' loops end here
            // w_fetch: w_fetch_rule writes, insn.k.update reads
            for (int l1_ = 0; l1_ < max_i32(1, n); ++l1_) {
                for (int l0_ = 0; l0_ < 4; ++l0_) {
                    const int i = l1_;
                    const int j_inner = l0_;
                    if (i < n && 4*j_outer + j_inner < m) {
                        for (int k = 0; k < 8; ++k) {
                            // insn.k.update
                            acc_k[l1_][l0_] += x[8*i + k]*w_fetch[k][j_inner];
                        }
                        // insn
                        y[i*m + 4*j_outer + j_inner] = acc_k[l1_][l0_];
                    }
                }
            }
        }
    }
}
