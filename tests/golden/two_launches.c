#include <math.h>

void two_launches_0(const float *restrict x, float *restrict t, const int n)
{
    #pragma omp parallel for if(64LL*((n + 63) / 64) >= 32768)
    for (int g0_ = 0; g0_ < (n + 63) / 64; ++g0_) {
        const int i_outer = g0_;

        if (64*i_outer + 64 <= n) {  // a full tile
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i_inner = l0_;
                // insn
                t[64*i_outer + i_inner] = 2.0f*x[64*i_outer + i_inner];
            }
        } else {
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i_inner = l0_;
                if (64*i_outer + i_inner < n) {
                    // insn
                    t[64*i_outer + i_inner] = 2.0f*x[64*i_outer + i_inner];
                }
            }
        }
    }
}

void two_launches_1(float *restrict y, const float *restrict t, const int n)
{
    if (n < 3)
        return;
    #pragma omp parallel for if(64LL*((n + 62) / 64) >= 32768)
    for (int g0_ = 0; g0_ < (n + 62) / 64; ++g0_) {
        const int j_outer = g0_;

        if (1 <= j_outer && 64*j_outer + 64 < n) {  // a full tile
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int j_inner = l0_;
                // insn_0
                y[64*j_outer + j_inner] = t[64*j_outer + j_inner - 1] + t[64*j_outer + j_inner + 1];
            }
        } else {
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int j_inner = l0_;
                if (64*j_outer + j_inner + 2 <= n && 1 <= 64*j_outer + j_inner) {
                    // insn_0
                    y[64*j_outer + j_inner] = t[64*j_outer + j_inner - 1] + t[64*j_outer + j_inner + 1];
                }
            }
        }
    }
}
