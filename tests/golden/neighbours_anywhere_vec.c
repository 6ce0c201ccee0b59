#include <math.h>

void neighbours(const float *restrict a, float *restrict out, const int n)
{
    if (n < 3)
        return;
    #pragma omp parallel for collapse(2) if(32LL*(n / 2) >= 32768)
    for (int g1_ = 0; g1_ < n / 2; ++g1_) {
        for (int g0_ = 0; g0_ < 2; ++g0_) {
            const int i_outer = g1_;
            const int j_outer_outer = g0_;

            if (1 <= i_outer && 2*i_outer + 2 < n) {  // a full tile
                for (int l0_ = 0; l0_ < 2; ++l0_) {
                    const int j_outer_inner = l0_;
                    for (int i_inner = 0; i_inner < 2; ++i_inner) {
                        if (2*(i_outer % 2) + i_inner <= 8*j_outer_outer + 4*j_outer_inner + 2 &&
                                8*j_outer_outer + 4*j_outer_inner <= 2*(i_outer % 2) + i_inner + 11) {
                            for (int j_inner = 0; j_inner < 4; ++j_inner) {
                                if (2*(i_outer % 2) + i_inner < 8*j_outer_outer + 4*j_outer_inner +
                                        j_inner &&
                                        8*j_outer_outer + 4*j_outer_inner + j_inner <= 2*(i_outer % 2) +
                                        i_inner + 11) {
                                    // insn
                                    out[26*i_outer + 13*i_inner + 8*j_outer_outer + 4*j_outer_inner +
                                                j_inner - 2*(i_outer % 2) - i_inner] =
                                            a[26*i_outer + 13*i_inner + 8*j_outer_outer + 4*j_outer_inner +
                                                j_inner - 2*(i_outer % 2) - i_inner - 13] +
                                            a[26*i_outer + 13*i_inner + 8*j_outer_outer + 4*j_outer_inner +
                                                j_inner - 2*(i_outer % 2) - i_inner + 13] +
                                            a[26*i_outer + 13*i_inner + 8*j_outer_outer + 4*j_outer_inner +
                                                j_inner - 2*(i_outer % 2) - i_inner - 1] +
                                            a[26*i_outer + 13*i_inner + 8*j_outer_outer + 4*j_outer_inner +
                                                j_inner - 2*(i_outer % 2) - i_inner + 1] -
                                            4.0f*a[26*i_outer + 13*i_inner + 8*j_outer_outer +
                                                4*j_outer_inner + j_inner - 2*(i_outer % 2) - i_inner];
                                }
                            }
                        }
                    }
                }
            } else {
                for (int l0_ = 0; l0_ < 2; ++l0_) {
                    const int j_outer_inner = l0_;
                    if (8*j_outer_outer + 4*j_outer_inner + 2*((i_outer + 1) % 2) + 2*i_outer <= n + 11) {
                        for (int i_inner = 0; i_inner < 2; ++i_inner) {
                            if (2*i_outer + i_inner + 2 <= n && 1 <= 2*i_outer + i_inner &&
                                    i_inner <= 8*j_outer_outer + 4*j_outer_inner + 2*((i_outer + 1) % 2) &&
                                    8*j_outer_outer + 4*j_outer_inner + 2*((i_outer + 1) % 2) <= i_inner +
                                    13) {
                                for (int j_inner = 0; j_inner < 4; ++j_inner) {
                                    if (i_inner + 3 <= 8*j_outer_outer + 4*j_outer_inner +
                                            2*((i_outer + 1) % 2) + j_inner &&
                                            8*j_outer_outer + 4*j_outer_inner + 2*((i_outer + 1) % 2) +
                                            j_inner <= i_inner + 13) {
                                        // insn
                                        out[26*i_outer + 13*i_inner + 8*j_outer_outer + 4*j_outer_inner +
                                                    j_inner - 2*(i_outer % 2) - i_inner] =
                                                a[26*i_outer + 13*i_inner + 8*j_outer_outer +
                                                    4*j_outer_inner +
                                                    j_inner - 2*(i_outer % 2) - i_inner - 13] +
                                                a[26*i_outer + 13*i_inner + 8*j_outer_outer +
                                                    4*j_outer_inner + j_inner - 2*(i_outer % 2) - i_inner +
                                                    13] +
                                                a[26*i_outer + 13*i_inner + 8*j_outer_outer +
                                                    4*j_outer_inner +
                                                    j_inner - 2*(i_outer % 2) - i_inner - 1] +
                                                a[26*i_outer + 13*i_inner + 8*j_outer_outer +
                                                    4*j_outer_inner + j_inner - 2*(i_outer % 2) - i_inner +
                                                    1] -
                                                4.0f*a[26*i_outer + 13*i_inner + 8*j_outer_outer +
                                                    4*j_outer_inner + j_inner - 2*(i_outer % 2) - i_inner];
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
