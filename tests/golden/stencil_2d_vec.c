#include <math.h>

void stencil_2d_vec(const float *restrict a, float *restrict out, const int m, const int n)
{
    if (n < 3 || m < 3)
        return;
    #pragma omp parallel for collapse(2) if(128LL*((n + 2) / 4)*((m + 30) / 32) >= 32768)
    for (int g1_ = 0; g1_ < (n + 2) / 4; ++g1_) {
        for (int g0_ = 0; g0_ < (m + 30) / 32; ++g0_) {
            const int i_outer = g1_;
            const int j_outer_outer = g0_;

            if (1 <= j_outer_outer && 32*j_outer_outer + 32 < m && 1 <= i_outer &&
                    4*i_outer + 4 < n) {  // a full tile
                for (int l1_ = 0; l1_ < 4; ++l1_) {
                    for (int l0_ = 0; l0_ < 8; ++l0_) {
                        const int i_inner = l1_;
                        const int j_outer_inner = l0_;
                        for (int j_inner = 0; j_inner < 4; ++j_inner) {
                            // insn
                            out[(4*i_outer + i_inner)*m + 32*j_outer_outer + 4*j_outer_inner + j_inner] =
                                    a[(4*i_outer + i_inner)*m + 32*j_outer_outer + 4*j_outer_inner +
                                        j_inner - 1] +
                                    a[(4*i_outer + i_inner)*m + 32*j_outer_outer + 4*j_outer_inner +
                                        j_inner + 1] +
                                    a[(4*i_outer + i_inner - 1)*m + 32*j_outer_outer + 4*j_outer_inner +
                                        j_inner] +
                                    a[(4*i_outer + i_inner + 1)*m + 32*j_outer_outer + 4*j_outer_inner +
                                        j_inner] -
                                    4.0f*a[(4*i_outer + i_inner)*m + 32*j_outer_outer + 4*j_outer_inner +
                                        j_inner];
                        }
                    }
                }
            } else {
                for (int l1_ = 0; l1_ < 4; ++l1_) {
                    for (int l0_ = 0; l0_ < 8; ++l0_) {
                        const int i_inner = l1_;
                        const int j_outer_inner = l0_;
                        if (32*j_outer_outer + 4*j_outer_inner + 2 <= m && 4*i_outer + i_inner + 2 <= n &&
                                1 <= 4*i_outer + i_inner) {
                            for (int j_inner = 0; j_inner < 4; ++j_inner) {
                                if (32*j_outer_outer + 4*j_outer_inner + j_inner + 2 <= m &&
                                        1 <= 32*j_outer_outer + 4*j_outer_inner + j_inner) {
                                    // insn
                                    out[(4*i_outer + i_inner)*m + 32*j_outer_outer + 4*j_outer_inner +
                                                j_inner] =
                                            a[(4*i_outer + i_inner)*m + 32*j_outer_outer + 4*j_outer_inner +
                                                j_inner - 1] +
                                            a[(4*i_outer + i_inner)*m + 32*j_outer_outer + 4*j_outer_inner +
                                                j_inner + 1] +
                                            a[(4*i_outer + i_inner - 1)*m + 32*j_outer_outer +
                                                4*j_outer_inner + j_inner] +
                                            a[(4*i_outer + i_inner + 1)*m + 32*j_outer_outer +
                                                4*j_outer_inner + j_inner] -
                                            4.0f*a[(4*i_outer + i_inner)*m + 32*j_outer_outer +
                                                4*j_outer_inner + j_inner];
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
