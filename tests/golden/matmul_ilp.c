#include <math.h>

void matmul(const float *restrict a, const float *restrict b, float *restrict c, const int l, const int m,
    const int n)
{
    #pragma omp parallel for collapse(2) if(1024LL*((n + 15) / 16)*((m + 63) / 64)*(l + 1) >= 32768)
    for (int g1_ = 0; g1_ < (n + 15) / 16; ++g1_) {
        for (int g0_ = 0; g0_ < (m + 63) / 64; ++g0_) {
            const int i_outer = g1_;
            const int j_outer = g0_;

            if (64*j_outer + 64 <= m && 16*i_outer + 16 <= n) {  // a full tile
                for (int l1_ = 0; l1_ < 4; ++l1_) {
                    for (int l0_ = 0; l0_ < 16; ++l0_) {
                        const int i_inner_outer = l1_;
                        const int j_inner_inner = l0_;
                        float acc_k[4][4];

                        for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                            for (int j_inner_outer = 0; j_inner_outer < 4; ++j_inner_outer) {
                                // insn.k.init
                                acc_k[i_inner_inner][j_inner_outer] = 0.0f;
                            }
                        }
                        for (int k = 0; k < l; ++k) {
                            for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                                for (int j_inner_outer = 0; j_inner_outer < 4; ++j_inner_outer) {
                                    // insn.k.update
                                    acc_k[i_inner_inner][j_inner_outer] +=
                                            a[(16*i_outer + 4*i_inner_outer + i_inner_inner)*l + k]*
                                            b[k*m + 64*j_outer + 16*j_inner_outer + j_inner_inner];
                                }
                            }
                        }
                        for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                            for (int j_inner_outer = 0; j_inner_outer < 4; ++j_inner_outer) {
                                // insn
                                c[(16*i_outer + 4*i_inner_outer + i_inner_inner)*m + 64*j_outer +
                                            16*j_inner_outer + j_inner_inner] =
                                        acc_k[i_inner_inner][j_inner_outer];
                            }
                        }
                    }
                }
            } else {
                for (int l1_ = 0; l1_ < 4; ++l1_) {
                    for (int l0_ = 0; l0_ < 16; ++l0_) {
                        const int i_inner_outer = l1_;
                        const int j_inner_inner = l0_;
                        float acc_k[4][4];

                        if (64*j_outer + j_inner_inner < m && 16*i_outer + 4*i_inner_outer < n) {
                            for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                                for (int j_inner_outer = 0; j_inner_outer < 4; ++j_inner_outer) {
                                    if (64*j_outer + 16*j_inner_outer + j_inner_inner < m &&
                                            16*i_outer + 4*i_inner_outer + i_inner_inner < n) {
                                        // insn.k.init
                                        acc_k[i_inner_inner][j_inner_outer] = 0.0f;
                                    }
                                }
                            }
                            for (int k = 0; k < l; ++k) {
                                for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                                    for (int j_inner_outer = 0; j_inner_outer < 4; ++j_inner_outer) {
                                        if (64*j_outer + 16*j_inner_outer + j_inner_inner < m &&
                                                16*i_outer + 4*i_inner_outer + i_inner_inner < n) {
                                            // insn.k.update
                                            acc_k[i_inner_inner][j_inner_outer] +=
                                                    a[(16*i_outer + 4*i_inner_outer + i_inner_inner)*l + k]*
                                                    b[k*m + 64*j_outer + 16*j_inner_outer + j_inner_inner];
                                        }
                                    }
                                }
                            }
                            for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                                for (int j_inner_outer = 0; j_inner_outer < 4; ++j_inner_outer) {
                                    if (64*j_outer + 16*j_inner_outer + j_inner_inner < m &&
                                            16*i_outer + 4*i_inner_outer + i_inner_inner < n) {
                                        // insn
                                        c[(16*i_outer + 4*i_inner_outer + i_inner_inner)*m + 64*j_outer +
                                                    16*j_inner_outer + j_inner_inner] =
                                                acc_k[i_inner_inner][j_inner_outer];
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
