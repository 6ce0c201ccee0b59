#include <math.h>

void transpose(const float *restrict a, float *restrict b, const int m, const int n)
{
    #pragma omp parallel for collapse(2) if(512LL*((n + 15) / 16)*((m + 15) / 16) >= 32768)
    for (int g1_ = 0; g1_ < (n + 15) / 16; ++g1_) {
        for (int g0_ = 0; g0_ < (m + 15) / 16; ++g0_) {
            const int i_outer = g1_;
            const int j_outer = g0_;
            float a_fetch[16][16];

            if (16*j_outer + 16 <= m && 16*i_outer + 16 <= n) {  // a full tile
                for (int l1_ = 0; l1_ < 16; ++l1_) {
                    for (int l0_ = 0; l0_ < 16; ++l0_) {
                        const int a_dim_0 = l1_;
                        const int a_dim_1 = l0_;
                        // a_fetch_rule
                        a_fetch[a_dim_0][a_dim_1] = a[(16*i_outer + a_dim_0)*m + 16*j_outer + a_dim_1];
                    }
                }
                // barrier: the threads' loops end here
                // a_fetch: a_fetch_rule writes, insn reads
                for (int l1_ = 0; l1_ < 16; ++l1_) {
                    for (int l0_ = 0; l0_ < 16; ++l0_) {
                        const int i_inner = l0_;
                        const int j_inner = l1_;
                        // insn
                        b[(16*j_outer + j_inner)*n + 16*i_outer + i_inner] = a_fetch[i_inner][j_inner];
                    }
                }
            } else {
                for (int l1_ = 0; l1_ < 16; ++l1_) {
                    for (int l0_ = 0; l0_ < 16; ++l0_) {
                        const int a_dim_0 = l1_;
                        const int a_dim_1 = l0_;
                        if (16*j_outer + a_dim_1 < m && 16*i_outer + a_dim_0 < n) {
                            // a_fetch_rule
                            a_fetch[a_dim_0][a_dim_1] = a[(16*i_outer + a_dim_0)*m + 16*j_outer + a_dim_1];
                        }
                    }
                }
                // barrier: the threads' loops end here
                // a_fetch: a_fetch_rule writes, insn reads
                for (int l1_ = 0; l1_ < 16; ++l1_) {
                    for (int l0_ = 0; l0_ < 16; ++l0_) {
                        const int i_inner = l0_;
                        const int j_inner = l1_;
                        if (16*j_outer + j_inner < m && 16*i_outer + i_inner < n) {
                            // insn
                            b[(16*j_outer + j_inner)*n + 16*i_outer + i_inner] = a_fetch[i_inner][j_inner];
                        }
                    }
                }
            }
        }
    }
}
