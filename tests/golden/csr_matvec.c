#include <math.h>

void csr_matvec(const int *restrict col, const int *restrict rowptr, const float *restrict val,
    const float *restrict x, float *restrict y, const int n)
{
    #pragma omp parallel for if(4352LL*((n + 63) / 64) >= 32768)
    for (int g0_ = 0; g0_ < (n + 63) / 64; ++g0_) {
        const int i_outer = g0_;

        if (64*i_outer + 64 <= n) {  // a full tile
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i_inner = l0_;
                int first;
                int last;
                float acc_jj;

                // insn
                first = rowptr[64*i_outer + i_inner];
                // insn_0
                last = rowptr[64*i_outer + i_inner + 1];
                // insn_1.jj.init
                acc_jj = 0.0f;
                for (int jj = first; jj < last; ++jj) {
                    // insn_1.jj.update
                    acc_jj += val[jj]*x[col[jj]];
                }
                // insn_1
                y[64*i_outer + i_inner] = acc_jj;
            }
        } else {
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i_inner = l0_;
                int first;
                int last;
                float acc_jj;

                if (64*i_outer + i_inner < n) {
                    // insn
                    first = rowptr[64*i_outer + i_inner];
                    // insn_0
                    last = rowptr[64*i_outer + i_inner + 1];
                    // insn_1.jj.init
                    acc_jj = 0.0f;
                    for (int jj = first; jj < last; ++jj) {
                        // insn_1.jj.update
                        acc_jj += val[jj]*x[col[jj]];
                    }
                    // insn_1
                    y[64*i_outer + i_inner] = acc_jj;
                }
            }
        }
    }
}
