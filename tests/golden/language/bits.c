#include <math.h>
static inline int shift_left_i32(int a, int n)
{
    return (unsigned int)n < 32 ? (int)((unsigned int)a << n) : 0;
}

void kernel(const int *restrict x, const short *restrict s, int *restrict w, int *restrict y, const int n)
{
    #pragma omp parallel for if(8LL*((n + 3) / 4) >= 32768)
    for (int g0_ = 0; g0_ < (n + 3) / 4; ++g0_) {
        const int i_outer = g0_;

        if (4*i_outer + 4 <= n) {  // a full tile
            for (int l0_ = 0; l0_ < 4; ++l0_) {
                const int i_inner = l0_;
                // insn
                y[4*i_outer + i_inner] = ((4*i_outer + i_inner) & 1) == 0 ? x[(4*i_outer + i_inner) << 1] :
                        x[(4*i_outer + i_inner) >> 1];
                // insn_0
                w[4*i_outer + i_inner] =
                        x[((4*i_outer + i_inner) ^ 5) & 15] | (short)shift_left_i32((int)s[4*i_outer +
                            i_inner], 4);
            }
        } else {
            for (int l0_ = 0; l0_ < 4; ++l0_) {
                const int i_inner = l0_;
                if (4*i_outer + i_inner < n) {
                    // insn
                    y[4*i_outer + i_inner] = ((4*i_outer + i_inner) & 1) == 0 ?
                            x[(4*i_outer + i_inner) << 1] : x[(4*i_outer + i_inner) >> 1];
                    // insn_0
                    w[4*i_outer + i_inner] =
                            x[((4*i_outer + i_inner) ^ 5) & 15] | (short)shift_left_i32((int)s[4*i_outer +
                                i_inner], 4);
                }
            }
        }
    }
}
