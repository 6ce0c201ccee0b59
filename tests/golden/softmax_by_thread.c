#include <math.h>

void softmax(const float *restrict x, float *restrict y, const int m, const int n)
{
    #pragma omp parallel for if(96LL*((n + 31) / 32)*(m + 1) >= 32768)
    for (int g0_ = 0; g0_ < (n + 31) / 32; ++g0_) {
        const int i_outer = g0_;

        if (32*i_outer + 32 <= n) {  // a full tile
            for (int l0_ = 0; l0_ < 32; ++l0_) {
                const int i_inner = l0_;
                float acc_k;
                float top;
                float acc_k_0;
                float total;

                // insn.k.init
                acc_k = -INFINITY;
                for (int k = 0; k < m; ++k) {
                    // insn.k.update
                    acc_k = fmaxf(acc_k, x[(32*i_outer + i_inner)*m + k]);
                }
                // insn
                top = acc_k;
                // insn_0.k.init
                acc_k_0 = 0.0f;
                for (int k = 0; k < m; ++k) {
                    // insn_0.k.update
                    acc_k_0 += expf(x[(32*i_outer + i_inner)*m + k] - top);
                }
                // insn_0
                total = acc_k_0;
                for (int j = 0; j < m; ++j) {
                    // insn_1
                    y[(32*i_outer + i_inner)*m + j] = expf(x[(32*i_outer + i_inner)*m + j] - top) / total;
                }
            }
        } else {
            for (int l0_ = 0; l0_ < 32; ++l0_) {
                const int i_inner = l0_;
                float acc_k;
                float top;
                float acc_k_0;
                float total;

                if (32*i_outer + i_inner < n) {
                    // insn.k.init
                    acc_k = -INFINITY;
                    for (int k = 0; k < m; ++k) {
                        // insn.k.update
                        acc_k = fmaxf(acc_k, x[(32*i_outer + i_inner)*m + k]);
                    }
                    // insn
                    top = acc_k;
                    // insn_0.k.init
                    acc_k_0 = 0.0f;
                    for (int k = 0; k < m; ++k) {
                        // insn_0.k.update
                        acc_k_0 += expf(x[(32*i_outer + i_inner)*m + k] - top);
                    }
                    // insn_0
                    total = acc_k_0;
                    for (int j = 0; j < m; ++j) {
                        // insn_1
                        y[(32*i_outer + i_inner)*m + j] = expf(x[(32*i_outer + i_inner)*m + j] - top) / total;
                    }
                }
            }
        }
    }
}
