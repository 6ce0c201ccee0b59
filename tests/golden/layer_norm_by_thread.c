#include <math.h>
static inline float power2_f32(float x)
{
    return x*x;
}
static inline float rsqrt_f32(float x)
{
    return 1 / sqrtf(x);
}

void layer_norm(const float *restrict x, float *restrict y, const int m, const int n)
{
    #pragma omp parallel for if(96LL*((n + 31) / 32)*(m + 1) >= 32768)
    for (int g0_ = 0; g0_ < (n + 31) / 32; ++g0_) {
        const int i_outer = g0_;

        if (32*i_outer + 32 <= n) {  // a full tile
            for (int l0_ = 0; l0_ < 32; ++l0_) {
                const int i_inner = l0_;
                float acc_k;
                float mean;
                float acc_k_0;
                float var;
                float scale;

                // insn.k.init
                acc_k = 0.0f;
                for (int k = 0; k < m; ++k) {
                    // insn.k.update
                    acc_k += x[(32*i_outer + i_inner)*m + k];
                }
                // insn
                mean = acc_k / m;
                // insn_0.k.init
                acc_k_0 = 0.0f;
                for (int k = 0; k < m; ++k) {
                    // insn_0.k.update
                    acc_k_0 += power2_f32(x[(32*i_outer + i_inner)*m + k] - mean);
                }
                // insn_0
                var = acc_k_0 / m;
                // insn_1
                scale = rsqrt_f32(var + 1e-5f);
                for (int j = 0; j < m; ++j) {
                    // insn_2
                    y[(32*i_outer + i_inner)*m + j] = (x[(32*i_outer + i_inner)*m + j] - mean)*scale;
                }
            }
        } else {
            for (int l0_ = 0; l0_ < 32; ++l0_) {
                const int i_inner = l0_;
                float acc_k;
                float mean;
                float acc_k_0;
                float var;
                float scale;

                if (32*i_outer + i_inner < n) {
                    // insn.k.init
                    acc_k = 0.0f;
                    for (int k = 0; k < m; ++k) {
                        // insn.k.update
                        acc_k += x[(32*i_outer + i_inner)*m + k];
                    }
                    // insn
                    mean = acc_k / m;
                    // insn_0.k.init
                    acc_k_0 = 0.0f;
                    for (int k = 0; k < m; ++k) {
                        // insn_0.k.update
                        acc_k_0 += power2_f32(x[(32*i_outer + i_inner)*m + k] - mean);
                    }
                    // insn_0
                    var = acc_k_0 / m;
                    // insn_1
                    scale = rsqrt_f32(var + 1e-5f);
                    for (int j = 0; j < m; ++j) {
                        // insn_2
                        y[(32*i_outer + i_inner)*m + j] = (x[(32*i_outer + i_inner)*m + j] - mean)*scale;
                    }
                }
            }
        }
    }
}
