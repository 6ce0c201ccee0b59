#include <math.h>

void scale(const float *restrict a, float *restrict out, const int n)
{
    #pragma omp parallel for if(128LL*((n + 127) / 128) >= 32768)
    for (int g0_ = 0; g0_ < (n + 127) / 128; ++g0_) {
        const int i_outer = g0_;

        if (128*i_outer + 128 <= n) {  // a full tile
            for (int l0_ = 0; l0_ < 128; ++l0_) {
                const int i_inner = l0_;
                // insn
                out[128*i_outer + i_inner] = 2.0f*a[128*i_outer + i_inner];
            }
        } else {
            for (int l0_ = 0; l0_ < 128; ++l0_) {
                const int i_inner = l0_;
                if (128*i_outer + i_inner < n) {
                    // insn
                    out[128*i_outer + i_inner] = 2.0f*a[128*i_outer + i_inner];
                }
            }
        }
    }
}
