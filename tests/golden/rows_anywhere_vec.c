#include <math.h>

void anywhere(const float *restrict a, float *restrict out, const int n)
{
    #pragma omp parallel for collapse(2)
    for (int g1_ = 0; g1_ < n; ++g1_) {
        for (int g0_ = 0; g0_ < 2; ++g0_) {
            const int i = g1_;
            const int q_outer = g0_;

            for (int l0_ = 0; l0_ < 3; ++l0_) {
                const int q_inner = l0_;
                if (3*q_outer + q_inner <= 3) {
                    for (int v = 0; v < 4; ++v) {
                        if (i % 4 <= 12*q_outer + 4*q_inner + v && 12*q_outer + 4*q_inner + v <= i % 4 + 12) {
                            // insn
                            out[13*i + 12*q_outer + 4*q_inner + v - 1*i % 4] =
                                    2.0f*a[13*i + 12*q_outer + 4*q_inner + v - 1*i % 4];
                        }
                    }
                }
            }
        }
    }
}
