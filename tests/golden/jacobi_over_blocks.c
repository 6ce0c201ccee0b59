#include <math.h>

void jacobi_0(const float *restrict u, float *restrict v, const int n)
{
    #pragma omp parallel for if(128LL*((n + 126) / 128) >= 32768)
    for (int g0_ = 0; g0_ < (n + 126) / 128; ++g0_) {
        const int i_outer = g0_;

        if (1 <= i_outer && 128*i_outer + 128 < n) {  // a full tile
            for (int l0_ = 0; l0_ < 128; ++l0_) {
                const int i_inner = l0_;
                // insn
                v[128*i_outer + i_inner] =
                        (u[128*i_outer + i_inner - 1] + u[128*i_outer + i_inner] +
                        u[128*i_outer + i_inner + 1]) / 3.0f;
            }
        } else {
            for (int l0_ = 0; l0_ < 128; ++l0_) {
                const int i_inner = l0_;
                if (128*i_outer + i_inner + 2 <= n && 1 <= 128*i_outer + i_inner) {
                    // insn
                    v[128*i_outer + i_inner] =
                            (u[128*i_outer + i_inner - 1] + u[128*i_outer + i_inner] +
                            u[128*i_outer + i_inner + 1]) / 3.0f;
                }
            }
        }
    }
}

void jacobi_1(float *restrict u, const float *restrict v, const int n)
{
    #pragma omp parallel for if(128LL*((n + 126) / 128) >= 32768)
    for (int g0_ = 0; g0_ < (n + 126) / 128; ++g0_) {
        const int j_outer = g0_;

        if (1 <= j_outer && 128*j_outer + 128 < n) {  // a full tile
            for (int l0_ = 0; l0_ < 128; ++l0_) {
                const int j_inner = l0_;
                // insn_0
                u[128*j_outer + j_inner] = v[128*j_outer + j_inner];
            }
        } else {
            for (int l0_ = 0; l0_ < 128; ++l0_) {
                const int j_inner = l0_;
                if (128*j_outer + j_inner + 2 <= n && 1 <= 128*j_outer + j_inner) {
                    // insn_0
                    u[128*j_outer + j_inner] = v[128*j_outer + j_inner];
                }
            }
        }
    }
}
