#include <math.h>

void vector_add(const float *restrict x, const float *restrict y, float *restrict z, const int n)
{
    #pragma omp parallel for if(128LL*((n + 127) / 128) >= 32768)
    for (int g0_ = 0; g0_ < (n + 127) / 128; ++g0_) {
        const int i_outer = g0_;

        if (128*i_outer + 128 <= n) {  // a full tile
            for (int l0_ = 0; l0_ < 128; ++l0_) {
                const int i_inner = l0_;
                // insn
                z[128*i_outer + i_inner] = x[128*i_outer + i_inner] + y[128*i_outer + i_inner];
            }
        } else {
            for (int l0_ = 0; l0_ < 128; ++l0_) {
                const int i_inner = l0_;
                if (128*i_outer + i_inner < n) {
                    // insn
                    z[128*i_outer + i_inner] = x[128*i_outer + i_inner] + y[128*i_outer + i_inner];
                }
            }
        }
    }
}
