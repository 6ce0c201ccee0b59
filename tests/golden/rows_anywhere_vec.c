#include <math.h>

void anywhere(const float *restrict a, float *restrict out, const int n)
{
    #pragma omp parallel for if(32LL*n >= 32768)
    for (int g0_ = 0; g0_ < n; ++g0_) {
        const int i = g0_;

        for (int l0_ = 0; l0_ < 2; ++l0_) {
            const int q_inner = l0_;
            for (int q_outer = 0; q_outer < 4; ++q_outer) {
                if (q_outer < 3 || 2*q_outer + q_inner <= 6) {
                    for (int v = 0; v < 4; ++v) {
                        if ((0 < q_outer || i % 4 <= 8*q_outer + 4*q_inner + v) &&
                                (q_outer < 3 || 8*q_outer + 4*q_inner + v <= i % 4 + 24)) {
                            // insn
                            out[25*i + 8*q_outer + 4*q_inner + v - 1*i % 4] =
                                    2.0f*a[25*i + 8*q_outer + 4*q_inner + v - 1*i % 4];
                        }
                    }
                }
            }
        }
    }
}
