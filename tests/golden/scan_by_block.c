#include <math.h>

void scan_by_block(const float *restrict x, float *restrict y, const int m, const int n)
{
    if (n < 1 || m < 1)
        return;
    #pragma omp parallel for if(2752LL*n*(m / 128 + 1) >= 32768)
    for (int g0_ = 0; g0_ < n; ++g0_) {
        const int i = g0_;
        float acc_q[64];
        float acc_v[64];
        float own[64];
        float tile[64];
        float before[64];
        float acc_s_warp[64];  // scanned by shuffles in warps of 32
        float acc_s_warp_1[64];
        float acc_s_warp_2[64];
        float acc_s_warp_3[64];
        float acc_s_warp_4[64];
        float acc_s_warp_5[64];
        float acc_s_warp_6[64];
        float acc_s_shared[1];
        float acc_s_before[64];
        float acc_w[64];
        float acc_t_warp[64];  // combined by shuffles in warps of 32
        float acc_t_shared[2];

        for (int l0_ = 0; l0_ < 64; ++l0_) {
            // insn_0.q.init
            acc_q[l0_] = 0.0f;
        }
        for (int r = 0; r < m / 128; ++r) {
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                float acc_s;

                // insn.v.init
                acc_v[l0_] = 0.0f;
                for (int v = 0; v < 2; ++v) {
                    // insn.v.update
                    acc_v[l0_] += x[i*m + 128*r + 2*t + v];
                }
                // insn
                own[l0_] = acc_v[l0_];
                if (1 <= r) {
                    // insn_0.q.update
                    acc_q[l0_] += tile[l0_];
                }
                // insn_0
                before[l0_] = acc_q[l0_];
                // insn_1.s.init
                acc_s = 0.0f;
                if (t <= 62) {
                    // insn_1.s.update
                    acc_s += own[l0_];
                }
                // insn_1.s.store
                acc_s_warp[t] = acc_s;
                // insn_1.s.keep0
                acc_s_warp_1[t] = acc_s_warp[t];
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                if (t % 32 != 0) {
                    // insn_1.s.step0
                    acc_s_warp_1[t] += acc_s_warp[t - 1];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                // insn_1.s.keep1
                acc_s_warp_2[t] = acc_s_warp_1[t];
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                if (2 <= t % 32) {
                    // insn_1.s.step1
                    acc_s_warp_2[t] += acc_s_warp_1[t - 2];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                // insn_1.s.keep2
                acc_s_warp_3[t] = acc_s_warp_2[t];
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                if (4 <= t % 32) {
                    // insn_1.s.step2
                    acc_s_warp_3[t] += acc_s_warp_2[t - 4];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                // insn_1.s.keep3
                acc_s_warp_4[t] = acc_s_warp_3[t];
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                if (8 <= t % 32) {
                    // insn_1.s.step3
                    acc_s_warp_4[t] += acc_s_warp_3[t - 8];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                // insn_1.s.keep4
                acc_s_warp_5[t] = acc_s_warp_4[t];
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                if (16 <= t % 32) {
                    // insn_1.s.step4
                    acc_s_warp_5[t] += acc_s_warp_4[t - 16];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                // insn_1.s.none
                acc_s_warp_6[t] = 0.0f;
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                if (t % 32 != 0) {
                    // insn_1.s.shift
                    acc_s_warp_6[t] = acc_s_warp_5[t - 1];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                if (t == 31) {
                    // insn_1.s.put
                    acc_s_shared[t / 32] = acc_s_warp_5[t];
                }
                // insn_1.s.first
                acc_s_before[l0_] = 0.0f;
            }
            // barrier: the threads' loops end here
            // acc_s_shared: insn_1.s.put writes, insn_1.s.rest reads
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                float acc_s_all;
                float start;
                float acc_t;

                if (32 <= t) {
                    // insn_1.s.rest
                    acc_s_before[l0_] += acc_s_shared[0];
                }
                // insn_1.s.result
                acc_s_all = acc_s_before[l0_] + acc_s_warp_6[t];
                // insn_1
                start = before[l0_] + acc_s_all;
                // insn_2.w.init
                acc_w[l0_] = 0.0f;
                for (int v = 0; v < 2; ++v) {
                    // insn_2.w.update
                    acc_w[l0_] += x[i*m + 128*r + 2*t + v];
                    // insn_2
                    y[i*m + 128*r + 2*t + v] = start + acc_w[l0_];
                }
                // insn_3.t.init
                acc_t = 0.0f;
                // insn_3.t.update
                acc_t += own[l0_];
                // insn_3.t.store
                acc_t_warp[t] = acc_t;
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                if (t % 32 <= 15) {
                    // insn_3.t.step0
                    acc_t_warp[t] += acc_t_warp[t + 16];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                if (t % 32 <= 7) {
                    // insn_3.t.step1
                    acc_t_warp[t] += acc_t_warp[t + 8];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                if (t % 32 <= 3) {
                    // insn_3.t.step2
                    acc_t_warp[t] += acc_t_warp[t + 4];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                if (t % 32 <= 1) {
                    // insn_3.t.step3
                    acc_t_warp[t] += acc_t_warp[t + 2];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                if (t % 32 == 0) {
                    // insn_3.t.step4
                    acc_t_warp[t] += acc_t_warp[t + 1];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                if (t % 32 == 0) {
                    // insn_3.t.put
                    acc_t_shared[t / 32] = acc_t_warp[t];
                }
            }
            // barrier: the threads' loops end here
            // acc_t_shared: insn_3.t.put writes, insn_3.t.first reads
            // acc_t_shared: insn_3.t.put writes, insn_3.t.rest reads
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                float acc_t_all;

                // insn_3.t.first
                acc_t_all = acc_t_shared[0];
                // insn_3.t.rest
                acc_t_all += acc_t_shared[1];
                // insn_3
                tile[l0_] = acc_t_all;
            }
        }
        if (m % 128 != 0) {
            const int r = (m - 1) / 128;
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                float acc_s;

                if (128*r + 2*t < m) {
                    // insn.v.init
                    acc_v[l0_] = 0.0f;
                    for (int v = 0; v < 2; ++v) {
                        if (128*r + 2*t + v < m) {
                            // insn.v.update
                            acc_v[l0_] += x[i*m + 128*r + 2*t + v];
                        }
                    }
                    // insn
                    own[l0_] = acc_v[l0_];
                }
                if (1 <= r) {
                    // insn_0.q.update
                    acc_q[l0_] += tile[l0_];
                }
                // insn_0
                before[l0_] = acc_q[l0_];
                // insn_1.s.init
                acc_s = 0.0f;
                if (128*r + 2*t + 2 < m) {
                    // insn_1.s.update
                    acc_s += own[l0_];
                }
                // insn_1.s.store
                acc_s_warp[t] = acc_s;
                // insn_1.s.keep0
                acc_s_warp_1[t] = acc_s_warp[t];
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                if (t % 32 != 0) {
                    // insn_1.s.step0
                    acc_s_warp_1[t] += acc_s_warp[t - 1];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                // insn_1.s.keep1
                acc_s_warp_2[t] = acc_s_warp_1[t];
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                if (2 <= t % 32) {
                    // insn_1.s.step1
                    acc_s_warp_2[t] += acc_s_warp_1[t - 2];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                // insn_1.s.keep2
                acc_s_warp_3[t] = acc_s_warp_2[t];
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                if (4 <= t % 32) {
                    // insn_1.s.step2
                    acc_s_warp_3[t] += acc_s_warp_2[t - 4];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                // insn_1.s.keep3
                acc_s_warp_4[t] = acc_s_warp_3[t];
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                if (8 <= t % 32) {
                    // insn_1.s.step3
                    acc_s_warp_4[t] += acc_s_warp_3[t - 8];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                // insn_1.s.keep4
                acc_s_warp_5[t] = acc_s_warp_4[t];
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                if (16 <= t % 32) {
                    // insn_1.s.step4
                    acc_s_warp_5[t] += acc_s_warp_4[t - 16];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                // insn_1.s.none
                acc_s_warp_6[t] = 0.0f;
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                if (t % 32 != 0) {
                    // insn_1.s.shift
                    acc_s_warp_6[t] = acc_s_warp_5[t - 1];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                if (t == 31) {
                    // insn_1.s.put
                    acc_s_shared[t / 32] = acc_s_warp_5[t];
                }
                // insn_1.s.first
                acc_s_before[l0_] = 0.0f;
            }
            // barrier: the threads' loops end here
            // acc_s_shared: insn_1.s.put writes, insn_1.s.rest reads
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                float acc_s_all;
                float start;
                float acc_t;

                if (32 <= t) {
                    // insn_1.s.rest
                    acc_s_before[l0_] += acc_s_shared[0];
                }
                // insn_1.s.result
                acc_s_all = acc_s_before[l0_] + acc_s_warp_6[t];
                if (128*r + 2*t < m) {
                    // insn_1
                    start = before[l0_] + acc_s_all;
                    // insn_2.w.init
                    acc_w[l0_] = 0.0f;
                    for (int v = 0; v < 2; ++v) {
                        if (128*r + 2*t + v < m) {
                            // insn_2.w.update
                            acc_w[l0_] += x[i*m + 128*r + 2*t + v];
                            // insn_2
                            y[i*m + 128*r + 2*t + v] = start + acc_w[l0_];
                        }
                    }
                }
                // insn_3.t.init
                acc_t = 0.0f;
                if (128*r + 2*t < m) {
                    // insn_3.t.update
                    acc_t += own[l0_];
                }
                // insn_3.t.store
                acc_t_warp[t] = acc_t;
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                if (t % 32 <= 15) {
                    // insn_3.t.step0
                    acc_t_warp[t] += acc_t_warp[t + 16];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                if (t % 32 <= 7) {
                    // insn_3.t.step1
                    acc_t_warp[t] += acc_t_warp[t + 8];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                if (t % 32 <= 3) {
                    // insn_3.t.step2
                    acc_t_warp[t] += acc_t_warp[t + 4];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                if (t % 32 <= 1) {
                    // insn_3.t.step3
                    acc_t_warp[t] += acc_t_warp[t + 2];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                if (t % 32 == 0) {
                    // insn_3.t.step4
                    acc_t_warp[t] += acc_t_warp[t + 1];
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                if (t % 32 == 0) {
                    // insn_3.t.put
                    acc_t_shared[t / 32] = acc_t_warp[t];
                }
            }
            // barrier: the threads' loops end here
            // acc_t_shared: insn_3.t.put writes, insn_3.t.first reads
            // acc_t_shared: insn_3.t.put writes, insn_3.t.rest reads
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int t = l0_;
                float acc_t_all;

                // insn_3.t.first
                acc_t_all = acc_t_shared[0];
                // insn_3.t.rest
                acc_t_all += acc_t_shared[1];
                // insn_3
                tile[l0_] = acc_t_all;
            }
        }
    }
}
