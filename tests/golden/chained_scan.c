#include <math.h>

void chained_scan(const float *restrict x, float *restrict y, float *restrict whole, const int n)
{
    for (int g0_ = 0; g0_ < (n + 63) / 64; ++g0_) {
        const int b = g0_;
        float before[64];
        float acc_k_warp[64];  // combined by shuffles in warps of 32
        float acc_k_shared[2];
        float acc_j_warp[64];  // scanned by shuffles in warps of 32
        float acc_j_warp_1[64];
        float acc_j_warp_2[64];
        float acc_j_warp_3[64];
        float acc_j_warp_4[64];
        float acc_j_warp_5[64];
        float acc_j_shared[1];
        float acc_j_before[64];

        if (64*b + 64 <= n) {  // a full tile
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int k = l0_;
                float acc_a;
                float acc_k;

                // insn.a.init
                acc_a = 0.0f;
                if (1 <= b) {
                    const int a = b - 1;
                    // insn.a.update
                    acc_a += whole[a];
                }
                // insn
                before[l0_] = acc_a;
                // insn_0.k.init
                acc_k = 0.0f;
                // insn_0.k.update
                acc_k += x[64*b + k];
                // insn_0.k.store
                acc_k_warp[k] = acc_k;
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int k = l0_;
                if (k % 32 <= 15) {
                    // insn_0.k.step0
                    acc_k_warp[k] += acc_k_warp[k + 16];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int k = l0_;
                if (k % 32 <= 7) {
                    // insn_0.k.step1
                    acc_k_warp[k] += acc_k_warp[k + 8];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int k = l0_;
                if (k % 32 <= 3) {
                    // insn_0.k.step2
                    acc_k_warp[k] += acc_k_warp[k + 4];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int k = l0_;
                if (k % 32 <= 1) {
                    // insn_0.k.step3
                    acc_k_warp[k] += acc_k_warp[k + 2];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int k = l0_;
                if (k % 32 == 0) {
                    // insn_0.k.step4
                    acc_k_warp[k] += acc_k_warp[k + 1];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int k = l0_;
                if (k % 32 == 0) {
                    // insn_0.k.put
                    acc_k_shared[k / 32] = acc_k_warp[k];
                }
            }
            // barrier: the threads' loops end here
            // acc_k_shared: insn_0.k.put writes, insn_0.k.first reads
            // acc_k_shared: insn_0.k.put writes, insn_0.k.rest reads
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int k = l0_;
                const int i = l0_;
                float acc_k_all;
                float acc_j;

                // insn_0.k.first
                acc_k_all = acc_k_shared[0];
                // insn_0.k.rest
                acc_k_all += acc_k_shared[1];
                if (l0_ == 0) {
                    // insn_0
                    whole[b] = before[l0_] + acc_k_all;
                }
                // insn_1.j.init
                acc_j = 0.0f;
                // insn_1.j.update
                acc_j += x[64*b + i];
                // insn_1.j.store
                acc_j_warp[i] = acc_j;
                // insn_1.j.keep0
                acc_j_warp_1[i] = acc_j_warp[i];
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i = l0_;
                if (i % 32 != 0) {
                    // insn_1.j.step0
                    acc_j_warp_1[i] += acc_j_warp[i - 1];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i = l0_;
                // insn_1.j.keep1
                acc_j_warp_2[i] = acc_j_warp_1[i];
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i = l0_;
                if (2 <= i % 32) {
                    // insn_1.j.step1
                    acc_j_warp_2[i] += acc_j_warp_1[i - 2];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i = l0_;
                // insn_1.j.keep2
                acc_j_warp_3[i] = acc_j_warp_2[i];
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i = l0_;
                if (4 <= i % 32) {
                    // insn_1.j.step2
                    acc_j_warp_3[i] += acc_j_warp_2[i - 4];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i = l0_;
                // insn_1.j.keep3
                acc_j_warp_4[i] = acc_j_warp_3[i];
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i = l0_;
                if (8 <= i % 32) {
                    // insn_1.j.step3
                    acc_j_warp_4[i] += acc_j_warp_3[i - 8];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i = l0_;
                // insn_1.j.keep4
                acc_j_warp_5[i] = acc_j_warp_4[i];
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i = l0_;
                if (16 <= i % 32) {
                    // insn_1.j.step4
                    acc_j_warp_5[i] += acc_j_warp_4[i - 16];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i = l0_;
                if (i == 31) {
                    // insn_1.j.put
                    acc_j_shared[i / 32] = acc_j_warp_5[i];
                }
                // insn_1.j.first
                acc_j_before[l0_] = 0.0f;
            }
            // barrier: the threads' loops end here
            // acc_j_shared: insn_1.j.put writes, insn_1.j.rest reads
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i = l0_;
                float acc_j_all;

                if (32 <= i) {
                    // insn_1.j.rest
                    acc_j_before[l0_] += acc_j_shared[0];
                }
                // insn_1.j.result
                acc_j_all = acc_j_before[l0_] + acc_j_warp_5[i];
                // insn_1
                y[64*b + i] = before[l0_] + acc_j_all;
            }
        } else {
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int k = l0_;
                float acc_a;
                float acc_k;

                // insn.a.init
                acc_a = 0.0f;
                if (1 <= b) {
                    const int a = b - 1;
                    // insn.a.update
                    acc_a += whole[a];
                }
                // insn
                before[l0_] = acc_a;
                // insn_0.k.init
                acc_k = 0.0f;
                if (64*b + k < n) {
                    // insn_0.k.update
                    acc_k += x[64*b + k];
                }
                // insn_0.k.store
                acc_k_warp[k] = acc_k;
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int k = l0_;
                if (k % 32 <= 15) {
                    // insn_0.k.step0
                    acc_k_warp[k] += acc_k_warp[k + 16];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int k = l0_;
                if (k % 32 <= 7) {
                    // insn_0.k.step1
                    acc_k_warp[k] += acc_k_warp[k + 8];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int k = l0_;
                if (k % 32 <= 3) {
                    // insn_0.k.step2
                    acc_k_warp[k] += acc_k_warp[k + 4];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int k = l0_;
                if (k % 32 <= 1) {
                    // insn_0.k.step3
                    acc_k_warp[k] += acc_k_warp[k + 2];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int k = l0_;
                if (k % 32 == 0) {
                    // insn_0.k.step4
                    acc_k_warp[k] += acc_k_warp[k + 1];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int k = l0_;
                if (k % 32 == 0) {
                    // insn_0.k.put
                    acc_k_shared[k / 32] = acc_k_warp[k];
                }
            }
            // barrier: the threads' loops end here
            // acc_k_shared: insn_0.k.put writes, insn_0.k.first reads
            // acc_k_shared: insn_0.k.put writes, insn_0.k.rest reads
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int k = l0_;
                const int i = l0_;
                float acc_k_all;
                float acc_j;

                // insn_0.k.first
                acc_k_all = acc_k_shared[0];
                // insn_0.k.rest
                acc_k_all += acc_k_shared[1];
                if (l0_ == 0) {
                    // insn_0
                    whole[b] = before[l0_] + acc_k_all;
                }
                // insn_1.j.init
                acc_j = 0.0f;
                if (64*b + i < n) {
                    // insn_1.j.update
                    acc_j += x[64*b + i];
                }
                // insn_1.j.store
                acc_j_warp[i] = acc_j;
                // insn_1.j.keep0
                acc_j_warp_1[i] = acc_j_warp[i];
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i = l0_;
                if (i % 32 != 0) {
                    // insn_1.j.step0
                    acc_j_warp_1[i] += acc_j_warp[i - 1];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i = l0_;
                // insn_1.j.keep1
                acc_j_warp_2[i] = acc_j_warp_1[i];
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i = l0_;
                if (2 <= i % 32) {
                    // insn_1.j.step1
                    acc_j_warp_2[i] += acc_j_warp_1[i - 2];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i = l0_;
                // insn_1.j.keep2
                acc_j_warp_3[i] = acc_j_warp_2[i];
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i = l0_;
                if (4 <= i % 32) {
                    // insn_1.j.step2
                    acc_j_warp_3[i] += acc_j_warp_2[i - 4];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i = l0_;
                // insn_1.j.keep3
                acc_j_warp_4[i] = acc_j_warp_3[i];
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i = l0_;
                if (8 <= i % 32) {
                    // insn_1.j.step3
                    acc_j_warp_4[i] += acc_j_warp_3[i - 8];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i = l0_;
                // insn_1.j.keep4
                acc_j_warp_5[i] = acc_j_warp_4[i];
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i = l0_;
                if (16 <= i % 32) {
                    // insn_1.j.step4
                    acc_j_warp_5[i] += acc_j_warp_4[i - 16];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i = l0_;
                if (i == 31) {
                    // insn_1.j.put
                    acc_j_shared[i / 32] = acc_j_warp_5[i];
                }
                // insn_1.j.first
                acc_j_before[l0_] = 0.0f;
            }
            // barrier: the threads' loops end here
            // acc_j_shared: insn_1.j.put writes, insn_1.j.rest reads
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i = l0_;
                float acc_j_all;

                if (32 <= i) {
                    // insn_1.j.rest
                    acc_j_before[l0_] += acc_j_shared[0];
                }
                // insn_1.j.result
                acc_j_all = acc_j_before[l0_] + acc_j_warp_5[i];
                if (64*b + i < n) {
                    // insn_1
                    y[64*b + i] = before[l0_] + acc_j_all;
                }
            }
        }
    }
}
