#include <math.h>
static inline float power2_f32(float x)
{
    return x*x;
}
static inline float rsqrt_f32(float x)
{
    return 1 / sqrtf(x);
}

void layer_norm_block(const float *restrict x, float *restrict y, const int m, const int n)
{
    #pragma omp parallel for if(192LL*n*(m / 64 + 1) >= 32768)
    for (int g0_ = 0; g0_ < n; ++g0_) {
        const int i = g0_;
        float acc_k[64];
        float acc_k_warp[64];  // combined by shuffles in warps of 32
        float acc_k_shared[2];
        float mean[64];
        float acc_k_0[64];
        float acc_k_0_warp[64];  // combined by shuffles in warps of 32
        float acc_k_0_shared[2];

        for (int l0_ = 0; l0_ < 64; ++l0_) {
            const int k_inner = l0_;
            // insn.k.init
            acc_k[l0_] = 0.0f;
            for (int k_outer = 0; k_outer < m / 64; ++k_outer) {
                // insn.k.update
                acc_k[l0_] += x[i*m + 64*k_outer + k_inner];
            }
            if (k_inner < m % 64) {
                const int k_outer = m / 64;
                // insn.k.update
                acc_k[l0_] += x[i*m + 64*k_outer + k_inner];
            }
            // insn.k.store
            acc_k_warp[k_inner] = acc_k[l0_];
        }
        for (int l0_ = 0; l0_ < 64; ++l0_) {
            const int k_inner = l0_;
            if (k_inner % 32 <= 15) {
                // insn.k.step0
                acc_k_warp[k_inner] += acc_k_warp[k_inner + 16];
            }
        }
        for (int l0_ = 0; l0_ < 64; ++l0_) {
            const int k_inner = l0_;
            if (k_inner % 32 <= 7) {
                // insn.k.step1
                acc_k_warp[k_inner] += acc_k_warp[k_inner + 8];
            }
        }
        for (int l0_ = 0; l0_ < 64; ++l0_) {
            const int k_inner = l0_;
            if (k_inner % 32 <= 3) {
                // insn.k.step2
                acc_k_warp[k_inner] += acc_k_warp[k_inner + 4];
            }
        }
        for (int l0_ = 0; l0_ < 64; ++l0_) {
            const int k_inner = l0_;
            if (k_inner % 32 <= 1) {
                // insn.k.step3
                acc_k_warp[k_inner] += acc_k_warp[k_inner + 2];
            }
        }
        for (int l0_ = 0; l0_ < 64; ++l0_) {
            const int k_inner = l0_;
            if (k_inner % 32 == 0) {
                // insn.k.step4
                acc_k_warp[k_inner] += acc_k_warp[k_inner + 1];
            }
        }
        for (int l0_ = 0; l0_ < 64; ++l0_) {
            const int k_inner = l0_;
            if (k_inner % 32 == 0) {
                // insn.k.put
                acc_k_shared[k_inner / 32] = acc_k_warp[k_inner];
            }
        }
        // barrier: the threads' loops end here
        // acc_k_shared: insn.k.put writes, insn.k.first reads
        // acc_k_shared: insn.k.put writes, insn.k.rest reads
        for (int l0_ = 0; l0_ < 64; ++l0_) {
            const int k_inner = l0_;
            float acc_k_all;

            // insn.k.first
            acc_k_all = acc_k_shared[0];
            // insn.k.rest
            acc_k_all += acc_k_shared[1];
            // insn
            mean[l0_] = acc_k_all / m;
            // insn_0.k.init
            acc_k_0[l0_] = 0.0f;
            for (int k_outer = 0; k_outer < m / 64; ++k_outer) {
                // insn_0.k.update
                acc_k_0[l0_] += power2_f32(x[i*m + 64*k_outer + k_inner] - mean[l0_]);
            }
            if (k_inner < m % 64) {
                const int k_outer = m / 64;
                // insn_0.k.update
                acc_k_0[l0_] += power2_f32(x[i*m + 64*k_outer + k_inner] - mean[l0_]);
            }
            // insn_0.k.store
            acc_k_0_warp[k_inner] = acc_k_0[l0_];
        }
        for (int l0_ = 0; l0_ < 64; ++l0_) {
            const int k_inner = l0_;
            if (k_inner % 32 <= 15) {
                // insn_0.k.step0
                acc_k_0_warp[k_inner] += acc_k_0_warp[k_inner + 16];
            }
        }
        for (int l0_ = 0; l0_ < 64; ++l0_) {
            const int k_inner = l0_;
            if (k_inner % 32 <= 7) {
                // insn_0.k.step1
                acc_k_0_warp[k_inner] += acc_k_0_warp[k_inner + 8];
            }
        }
        for (int l0_ = 0; l0_ < 64; ++l0_) {
            const int k_inner = l0_;
            if (k_inner % 32 <= 3) {
                // insn_0.k.step2
                acc_k_0_warp[k_inner] += acc_k_0_warp[k_inner + 4];
            }
        }
        for (int l0_ = 0; l0_ < 64; ++l0_) {
            const int k_inner = l0_;
            if (k_inner % 32 <= 1) {
                // insn_0.k.step3
                acc_k_0_warp[k_inner] += acc_k_0_warp[k_inner + 2];
            }
        }
        for (int l0_ = 0; l0_ < 64; ++l0_) {
            const int k_inner = l0_;
            if (k_inner % 32 == 0) {
                // insn_0.k.step4
                acc_k_0_warp[k_inner] += acc_k_0_warp[k_inner + 1];
            }
        }
        for (int l0_ = 0; l0_ < 64; ++l0_) {
            const int k_inner = l0_;
            if (k_inner % 32 == 0) {
                // insn_0.k.put
                acc_k_0_shared[k_inner / 32] = acc_k_0_warp[k_inner];
            }
        }
        // barrier: the threads' loops end here
        // acc_k_0_shared: insn_0.k.put writes, insn_0.k.first reads
        // acc_k_0_shared: insn_0.k.put writes, insn_0.k.rest reads
        for (int l0_ = 0; l0_ < 64; ++l0_) {
            const int j_inner = l0_;
            float acc_k_0_all;
            float var;
            float scale;

            // insn_0.k.first
            acc_k_0_all = acc_k_0_shared[0];
            // insn_0.k.rest
            acc_k_0_all += acc_k_0_shared[1];
            // insn_0
            var = acc_k_0_all / m;
            // insn_1
            scale = rsqrt_f32(var + 1e-5f);
            for (int j_outer = 0; j_outer < m / 64; ++j_outer) {
                // insn_2
                y[i*m + 64*j_outer + j_inner] = (x[i*m + 64*j_outer + j_inner] - mean[l0_])*scale;
            }
            if (j_inner < m % 64) {
                const int j_outer = m / 64;
                // insn_2
                y[i*m + 64*j_outer + j_inner] = (x[i*m + 64*j_outer + j_inner] - mean[l0_])*scale;
            }
        }
    }
}
