#include <math.h>

void conditionals(const float *restrict x, float *restrict y, const int n)
{
    #pragma omp parallel for if(160LL*((n + 31) / 32) >= 32768)
    for (int g0_ = 0; g0_ < (n + 31) / 32; ++g0_) {
        const int i_outer = g0_;

        if (1 <= i_outer && 32*i_outer + 32 <= n) {  // a full tile
            for (int l0_ = 0; l0_ < 32; ++l0_) {
                const int i_inner = l0_;
                float t;
                _Bool cond;

                // insn
                t = x[32*i_outer + i_inner];
                // insn_cond
                cond = t > 0.5f;
                if (cond) {
                    // insn_0
                    y[32*i_outer + i_inner] = sqrtf(t);
                } else {
                    // insn_2
                    y[32*i_outer + i_inner] = (32*i_outer + i_inner) % 3 == 0 ? t*t :
                            (float)((32*i_outer + i_inner) / 2);
                }
            }
        } else {
            for (int l0_ = 0; l0_ < 32; ++l0_) {
                const int i_inner = l0_;
                float t;
                _Bool cond;

                if (32*i_outer + i_inner < n) {
                    // insn
                    t = x[32*i_outer + i_inner];
                    // insn_cond
                    cond = t > 0.5f;
                    if (cond) {
                        // insn_0
                        y[32*i_outer + i_inner] = sqrtf(t);
                    }
                }
                if (i_inner <= 9 && i_inner < n && i_outer == 0) {
                    if (!cond) {
                        // insn_1
                        y[32*i_outer + i_inner] = -1.0f;
                    }
                }
                if (10 <= 32*i_outer + i_inner && 32*i_outer + i_inner < n) {
                    if (!cond) {
                        // insn_2
                        y[32*i_outer + i_inner] = (32*i_outer + i_inner) % 3 == 0 ? t*t :
                                (float)((32*i_outer + i_inner) / 2);
                    }
                }
            }
        }
    }
}
