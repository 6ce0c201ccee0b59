#include <math.h>

void axpy(const float *restrict x, float *restrict y, const float a, const int n)
{
    #pragma omp parallel for if(128LL*((n + 127) / 128) >= 32768)
    for (int g0_ = 0; g0_ < (n + 127) / 128; ++g0_) {
        const int i_outer_outer = g0_;

        if (128*i_outer_outer + 128 <= n) {  // a full tile
            for (int l0_ = 0; l0_ < 32; ++l0_) {
                const int i_outer_inner = l0_;
                for (int i_inner = 0; i_inner < 4; ++i_inner) {
                    // insn
                    y[128*i_outer_outer + 4*i_outer_inner + i_inner] =
                            a*x[128*i_outer_outer + 4*i_outer_inner + i_inner] +
                            y[128*i_outer_outer + 4*i_outer_inner + i_inner];
                }
            }
        } else {
            for (int l0_ = 0; l0_ < 32; ++l0_) {
                const int i_outer_inner = l0_;
                if (128*i_outer_outer + 4*i_outer_inner < n) {
                    for (int i_inner = 0; i_inner < 4; ++i_inner) {
                        if (128*i_outer_outer + 4*i_outer_inner + i_inner < n) {
                            // insn
                            y[128*i_outer_outer + 4*i_outer_inner + i_inner] =
                                    a*x[128*i_outer_outer + 4*i_outer_inner + i_inner] +
                                    y[128*i_outer_outer + 4*i_outer_inner + i_inner];
                        }
                    }
                }
            }
        }
    }
}
