#include <math.h>

void elementwise_operator(const float *restrict d, float *restrict r, const float *restrict u, const int ne)
{
    #pragma omp parallel for if(2240LL*((ne + 15) / 16) >= 32768)
    for (int g0_ = 0; g0_ < (ne + 15) / 16; ++g0_) {
        const int e_outer = g0_;
        float d_fetch[10][10];
        float u_fetch[16][10];
        float acc_j[16][10];

        if (16*e_outer + 16 <= ne) {  // a full tile
            for (int l1_ = 0; l1_ < 16; ++l1_) {
                for (int l0_ = 0; l0_ < 10; ++l0_) {
                    const int d_dim_0 = l1_;
                    if (d_dim_0 < 10) {
                        const int d_dim_1 = l0_;
                        // d_fetch_rule
                        d_fetch[d_dim_0][d_dim_1] = d[10*d_dim_0 + d_dim_1];
                    }
                    const int u_dim_0 = l1_;
                    const int u_dim_1 = l0_;
                    // u_fetch_rule
                    u_fetch[u_dim_0][u_dim_1] = u[160*e_outer + 10*u_dim_0 + u_dim_1];
                    // insn.j.init
                    acc_j[l1_][l0_] = 0.0f;
                }
            }
            // barrier: the threads' loops end here
            // d_fetch: d_fetch_rule writes, insn.j.update reads
            // u_fetch: u_fetch_rule writes, insn.j.update reads
            for (int l1_ = 0; l1_ < 16; ++l1_) {
                for (int l0_ = 0; l0_ < 10; ++l0_) {
                    const int e_inner = l1_;
                    const int i = l0_;
                    for (int j = 0; j < 10; ++j) {
                        // insn.j.update
                        acc_j[l1_][l0_] += d_fetch[i][j]*u_fetch[e_inner][j];
                    }
                    // insn
                    r[160*e_outer + 10*e_inner + i] = acc_j[l1_][l0_];
                }
            }
        } else {
            for (int l1_ = 0; l1_ < 16; ++l1_) {
                for (int l0_ = 0; l0_ < 10; ++l0_) {
                    const int e_inner = l1_;
                    const int d_dim_0 = l1_;
                    if (d_dim_0 < 10) {
                        const int d_dim_1 = l0_;
                        // d_fetch_rule
                        d_fetch[d_dim_0][d_dim_1] = d[10*d_dim_0 + d_dim_1];
                    }
                    const int u_dim_0 = l1_;
                    const int u_dim_1 = l0_;
                    if (16*e_outer + u_dim_0 < ne) {
                        // u_fetch_rule
                        u_fetch[u_dim_0][u_dim_1] = u[160*e_outer + 10*u_dim_0 + u_dim_1];
                    }
                    if (16*e_outer + e_inner < ne) {
                        // insn.j.init
                        acc_j[l1_][l0_] = 0.0f;
                    }
                }
            }
            // barrier: the threads' loops end here
            // d_fetch: d_fetch_rule writes, insn.j.update reads
            // u_fetch: u_fetch_rule writes, insn.j.update reads
            for (int l1_ = 0; l1_ < 16; ++l1_) {
                for (int l0_ = 0; l0_ < 10; ++l0_) {
                    const int e_inner = l1_;
                    const int i = l0_;
                    if (16*e_outer + e_inner < ne) {
                        for (int j = 0; j < 10; ++j) {
                            // insn.j.update
                            acc_j[l1_][l0_] += d_fetch[i][j]*u_fetch[e_inner][j];
                        }
                        // insn
                        r[160*e_outer + 10*e_inner + i] = acc_j[l1_][l0_];
                    }
                }
            }
        }
    }
}
