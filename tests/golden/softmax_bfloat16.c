#include <math.h>
typedef unsigned short bfloat16;  // the upper half of a float
static inline float from_bf16(bfloat16 x)
{
    const union { unsigned int bits; float value; } result = {(unsigned int)x << 16};
    return result.value;
}
// to the nearest bfloat16, ties to even
static inline bfloat16 to_bf16(float x)
{
    const union { float value; unsigned int bits; } from = {x};
    if (x != x)
        return (bfloat16)(from.bits >> 16 | 0x40u);
    return (bfloat16)((from.bits + 0x7fffu + (from.bits >> 16 & 1u)) >> 16);
}
static inline float round_bf16(float x)
{
    return from_bf16(to_bf16(x));
}

void softmax_bfloat16(const bfloat16 *restrict x, bfloat16 *restrict y, const int m, const int n)
{
    #pragma omp parallel for if(144LL*n*(m / 48 + 1) >= 32768)
    for (int g0_ = 0; g0_ < n; ++g0_) {
        const int i = g0_;
        bfloat16 acc_k[48];
        bfloat16 acc_k_warp[48];  // combined by shuffles in warps of 32
        bfloat16 acc_k_shared[2];
        bfloat16 top[48];
        float acc_k_0[48];
        float acc_k_0_warp[48];  // combined by shuffles in warps of 32
        float acc_k_0_shared[2];

        for (int l0_ = 0; l0_ < 48; ++l0_) {
            const int k_inner = l0_;
            // insn.k.init
            acc_k[l0_] = to_bf16(-INFINITY);
            for (int k_outer = 0; k_outer < m / 48; ++k_outer) {
                // insn.k.update
                acc_k[l0_] = to_bf16(fmaxf(from_bf16(acc_k[l0_]), from_bf16(x[i*m + 48*k_outer + k_inner])));
            }
            if (k_inner < m % 48) {
                const int k_outer = m / 48;
                // insn.k.update
                acc_k[l0_] = to_bf16(fmaxf(from_bf16(acc_k[l0_]), from_bf16(x[i*m + 48*k_outer + k_inner])));
            }
            // insn.k.store
            acc_k_warp[k_inner] = acc_k[l0_];
        }
        for (int l0_ = 0; l0_ < 48; ++l0_) {
            const int k_inner = l0_;
            if (k_inner <= 15) {
                // insn.k.step0
                acc_k_warp[k_inner] =
                        to_bf16(fmaxf(from_bf16(acc_k_warp[k_inner]), from_bf16(acc_k_warp[k_inner + 16])));
            }
        }
        for (int l0_ = 0; l0_ < 48; ++l0_) {
            const int k_inner = l0_;
            if (k_inner % 32 <= 7) {
                // insn.k.step1
                acc_k_warp[k_inner] =
                        to_bf16(fmaxf(from_bf16(acc_k_warp[k_inner]), from_bf16(acc_k_warp[k_inner + 8])));
            }
        }
        for (int l0_ = 0; l0_ < 48; ++l0_) {
            const int k_inner = l0_;
            if (k_inner % 32 <= 3) {
                // insn.k.step2
                acc_k_warp[k_inner] =
                        to_bf16(fmaxf(from_bf16(acc_k_warp[k_inner]), from_bf16(acc_k_warp[k_inner + 4])));
            }
        }
        for (int l0_ = 0; l0_ < 48; ++l0_) {
            const int k_inner = l0_;
            if (k_inner % 32 <= 1) {
                // insn.k.step3
                acc_k_warp[k_inner] =
                        to_bf16(fmaxf(from_bf16(acc_k_warp[k_inner]), from_bf16(acc_k_warp[k_inner + 2])));
            }
        }
        for (int l0_ = 0; l0_ < 48; ++l0_) {
            const int k_inner = l0_;
            if (k_inner % 32 == 0) {
                // insn.k.step4
                acc_k_warp[k_inner] =
                        to_bf16(fmaxf(from_bf16(acc_k_warp[k_inner]), from_bf16(acc_k_warp[k_inner + 1])));
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
            bfloat16 acc_k_all;

            // insn.k.first
            acc_k_all = acc_k_shared[0];
            // insn.k.rest
            acc_k_all = to_bf16(fmaxf(from_bf16(acc_k_all), from_bf16(acc_k_shared[1])));
            // insn
            top[l0_] = acc_k_all;
            // insn_0.k.init
            acc_k_0[l0_] = 0.0f;
            for (int k_outer = 0; k_outer < m / 48; ++k_outer) {
                // insn_0.k.update
                acc_k_0[l0_] +=
                        expf(round_bf16(from_bf16(x[i*m + 48*k_outer + k_inner]) - from_bf16(top[l0_])));
            }
            if (k_inner < m % 48) {
                const int k_outer = m / 48;
                // insn_0.k.update
                acc_k_0[l0_] +=
                        expf(round_bf16(from_bf16(x[i*m + 48*k_outer + k_inner]) - from_bf16(top[l0_])));
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
                y[i*m + 48*j_outer + j_inner] =
                        to_bf16(round_bf16(0.5f*from_bf16(x[i*m + 48*j_outer + j_inner])) +
                        expf(round_bf16(from_bf16(x[i*m + 48*j_outer + j_inner]) -
                        from_bf16(top[l0_]))) / total);
            }
            if (j_inner < m % 48) {
                const int j_outer = m / 48;
                // insn_1
                y[i*m + 48*j_outer + j_inner] =
                        to_bf16(round_bf16(0.5f*from_bf16(x[i*m + 48*j_outer + j_inner])) +
                        expf(round_bf16(from_bf16(x[i*m + 48*j_outer + j_inner]) -
                        from_bf16(top[l0_]))) / total);
            }
        }
    }
}
