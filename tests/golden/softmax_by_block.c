#include <math.h>

void softmax_block(const float *restrict x, float *restrict y, const int m, const int n)
{
    #pragma omp parallel for if(144LL*n*(m / 48 + 1) >= 32768)
    for (int g0_ = 0; g0_ < n; ++g0_) {
        const int i = g0_;
        float acc_k[48];
        float acc_k_warp[48];  // combined by shuffles in warps of 32
        float acc_k_shared[2];
        float top[48];
        float acc_k_0[48];
        float acc_k_0_warp[48];  // combined by shuffles in warps of 32
        float acc_k_0_shared[2];

        for (int l0_ = 0; l0_ < 48; ++l0_) {
            const int k_inner = l0_;
            // insn.k.init
            acc_k[l0_] = -INFINITY;
            for (int k_outer = 0; k_outer < m / 48; ++k_outer) {
                // insn.k.update
                acc_k[l0_] = fmaxf(acc_k[l0_], x[i*m + 48*k_outer + k_inner]);
            }
            if (k_inner < m % 48) {
                const int k_outer = m / 48;
                // insn.k.update
                acc_k[l0_] = fmaxf(acc_k[l0_], x[i*m + 48*k_outer + k_inner]);
            }
            // insn.k.store
            acc_k_warp[k_inner] = acc_k[l0_];
        }
        for (int l0_ = 0; l0_ < 48; ++l0_) {
            const int k_inner = l0_;
            if (k_inner <= 15) {
                // insn.k.step0
                acc_k_warp[k_inner] = fmaxf(acc_k_warp[k_inner], acc_k_warp[k_inner + 16]);
            }
        }
        for (int l0_ = 0; l0_ < 48; ++l0_) {
            const int k_inner = l0_;
            if (k_inner % 32 <= 7) {
                // insn.k.step1
                acc_k_warp[k_inner] = fmaxf(acc_k_warp[k_inner], acc_k_warp[k_inner + 8]);
            }
        }
        for (int l0_ = 0; l0_ < 48; ++l0_) {
            const int k_inner = l0_;
            if (k_inner % 32 <= 3) {
                // insn.k.step2
                acc_k_warp[k_inner] = fmaxf(acc_k_warp[k_inner], acc_k_warp[k_inner + 4]);
            }
        }
        for (int l0_ = 0; l0_ < 48; ++l0_) {
            const int k_inner = l0_;
            if (k_inner % 32 <= 1) {
                // insn.k.step3
                acc_k_warp[k_inner] = fmaxf(acc_k_warp[k_inner], acc_k_warp[k_inner + 2]);
            }
        }
        for (int l0_ = 0; l0_ < 48; ++l0_) {
            const int k_inner = l0_;
            if (k_inner % 32 == 0) {
                // insn.k.step4
                acc_k_warp[k_inner] = fmaxf(acc_k_warp[k_inner], acc_k_warp[k_inner + 1]);
            }
        }
        for (int l0_ = 0; l0_ < 48; ++l0_) {
            const int k_inner = l0_;
            if (k_inner % 32 == 0) {
                // insn.k.put
                acc_k_shared[k_inner / 32] = acc_k_warp[k_inner];
            }
        }
        // barrier: the threads' loops end here
        // acc_k_shared: insn.k.put writes, insn.k.first reads
        // acc_k_shared: insn.k.put writes, insn.k.rest reads
        for (int l0_ = 0; l0_ < 48; ++l0_) {
            const int k_inner = l0_;
            float acc_k_all;

            // insn.k.first
            acc_k_all = acc_k_shared[0];
            // insn.k.rest
            acc_k_all = fmaxf(acc_k_all, acc_k_shared[1]);
            // insn
            top[l0_] = acc_k_all;
            // insn_0.k.init
            acc_k_0[l0_] = 0.0f;
            for (int k_outer = 0; k_outer < m / 48; ++k_outer) {
                // insn_0.k.update
                acc_k_0[l0_] += expf(x[i*m + 48*k_outer + k_inner] - top[l0_]);
            }
            if (k_inner < m % 48) {
                const int k_outer = m / 48;
                // insn_0.k.update
                acc_k_0[l0_] += expf(x[i*m + 48*k_outer + k_inner] - top[l0_]);
            }
            // insn_0.k.store
            acc_k_0_warp[k_inner] = acc_k_0[l0_];
        }
        for (int l0_ = 0; l0_ < 48; ++l0_) {
            const int k_inner = l0_;
            if (k_inner <= 15) {
                // insn_0.k.step0
                acc_k_0_warp[k_inner] += acc_k_0_warp[k_inner + 16];
            }
        }
        for (int l0_ = 0; l0_ < 48; ++l0_) {
            const int k_inner = l0_;
            if (k_inner % 32 <= 7) {
                // insn_0.k.step1
                acc_k_0_warp[k_inner] += acc_k_0_warp[k_inner + 8];
            }
        }
        for (int l0_ = 0; l0_ < 48; ++l0_) {
            const int k_inner = l0_;
            if (k_inner % 32 <= 3) {
                // insn_0.k.step2
                acc_k_0_warp[k_inner] += acc_k_0_warp[k_inner + 4];
            }
        }
        for (int l0_ = 0; l0_ < 48; ++l0_) {
            const int k_inner = l0_;
            if (k_inner % 32 <= 1) {
                // insn_0.k.step3
                acc_k_0_warp[k_inner] += acc_k_0_warp[k_inner + 2];
            }
        }
        for (int l0_ = 0; l0_ < 48; ++l0_) {
            const int k_inner = l0_;
            if (k_inner % 32 == 0) {
                // insn_0.k.step4
                acc_k_0_warp[k_inner] += acc_k_0_warp[k_inner + 1];
            }
        }
        for (int l0_ = 0; l0_ < 48; ++l0_) {
            const int k_inner = l0_;
            if (k_inner % 32 == 0) {
                // insn_0.k.put
                acc_k_0_shared[k_inner / 32] = acc_k_0_warp[k_inner];
            }
        }
        // barrier: the threads' loops end here
        // acc_k_0_shared: insn_0.k.put writes, insn_0.k.first reads
        // acc_k_0_shared: insn_0.k.put writes, insn_0.k.rest reads
        for (int l0_ = 0; l0_ < 48; ++l0_) {
            const int j_inner = l0_;
            float acc_k_0_all;
            float total;

            // insn_0.k.first
            acc_k_0_all = acc_k_0_shared[0];
            // insn_0.k.rest
            acc_k_0_all += acc_k_0_shared[1];
            // insn_0
            total = acc_k_0_all;
            for (int j_outer = 0; j_outer < m / 48; ++j_outer) {
                // insn_1
                y[i*m + 48*j_outer + j_inner] = expf(x[i*m + 48*j_outer + j_inner] - top[l0_]) / total;
            }
            if (j_inner < m % 48) {
                const int j_outer = m / 48;
                // insn_1
                y[i*m + 48*j_outer + j_inner] = expf(x[i*m + 48*j_outer + j_inner] - top[l0_]) / total;
            }
        }
    }
}
