#include <math.h>

void kernel_0(int *restrict a, const int *restrict x, const int n)
{
    #pragma omp parallel for if(32LL*((n + 31) / 32) >= 32768)
    for (int g0_ = 0; g0_ < (n + 31) / 32; ++g0_) {
        const int i_outer = g0_;

        if (32*i_outer + 32 <= n) {  // a full tile
            for (int l0_ = 0; l0_ < 32; ++l0_) {
                const int i_inner = l0_;
                // insn
                a[32*i_outer + i_inner] = 2*x[32*i_outer + i_inner];
            }
        } else {
            for (int l0_ = 0; l0_ < 32; ++l0_) {
                const int i_inner = l0_;
                if (32*i_outer + i_inner < n) {
                    // insn
                    a[32*i_outer + i_inner] = 2*x[32*i_outer + i_inner];
                }
            }
        }
    }
}

void kernel_1(const int *restrict a, int *restrict b, int *restrict c, const int *restrict x, const int n)
{
    #pragma omp parallel for if(192LL*((n + 31) / 32) >= 32768)
    for (int g0_ = 0; g0_ < (n + 31) / 32; ++g0_) {
        const int i_outer = g0_;
        int acc_k[32];

        if (32*i_outer + 32 <= n) {  // a full tile
            for (int l0_ = 0; l0_ < 32; ++l0_) {
                const int i_inner = l0_;
                // insn_0.k.init
                acc_k[l0_] = 0;
                for (int k = 0; k < 3; ++k) {
                    // insn_0.k.update
                    acc_k[l0_] += x[k];
                }
                // insn_0
                b[32*i_outer + i_inner] = a[n - 32*i_outer - i_inner - 1] + acc_k[l0_];
            }
            // barrier: the threads' loops end here
            // requested between insn_0 and insn_1
            for (int l0_ = 0; l0_ < 32; ++l0_) {
                const int i_inner = l0_;
                // insn_1
                c[32*i_outer + i_inner] = b[32*i_outer + i_inner];
            }
        } else {
            for (int l0_ = 0; l0_ < 32; ++l0_) {
                const int i_inner = l0_;
                if (32*i_outer + i_inner < n) {
                    // insn_0.k.init
                    acc_k[l0_] = 0;
                    for (int k = 0; k < 3; ++k) {
                        // insn_0.k.update
                        acc_k[l0_] += x[k];
                    }
                    // insn_0
                    b[32*i_outer + i_inner] = a[n - 32*i_outer - i_inner - 1] + acc_k[l0_];
                }
            }
            // barrier: the threads' loops end here
            // requested between insn_0 and insn_1
            for (int l0_ = 0; l0_ < 32; ++l0_) {
                const int i_inner = l0_;
                if (32*i_outer + i_inner < n) {
                    // insn_1
                    c[32*i_outer + i_inner] = b[32*i_outer + i_inner];
                }
            }
        }
    }
}
