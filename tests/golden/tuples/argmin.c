#include <math.h>
typedef struct {
    float value;
    int index;
} tuple_value_f32_index_i32;
static inline tuple_value_f32_index_i32
argmin_f32_i32(tuple_value_f32_index_i32 a, tuple_value_f32_index_i32 b)
{
    return b.value < a.value || (b.value == a.value && b.index < a.index) ||
            (isnan(b.value) && (!isnan(a.value) || b.index < a.index)) ? b : a;
}

void argmin_of_rows(float *restrict least, int *restrict place, const float *restrict x, const int m,
    const int n)
{
    #pragma omp parallel for if(64LL*n*(m / 64 + 1) >= 32768)
    for (int g0_ = 0; g0_ < n; ++g0_) {
        const int i = g0_;
        tuple_value_f32_index_i32 acc_j[64];
        tuple_value_f32_index_i32 acc_j_warp[64];  // combined by shuffles in warps of 32
        tuple_value_f32_index_i32 acc_j_shared[2];

        for (int l0_ = 0; l0_ < 64; ++l0_) {
            const int j_inner = l0_;
            // insn.j.init
            acc_j[l0_] = (tuple_value_f32_index_i32){INFINITY, 2147483647};
            for (int j_outer = 0; j_outer < m / 64; ++j_outer) {
                // insn.j.update
                acc_j[l0_] =
                        argmin_f32_i32(acc_j[l0_],
                        (tuple_value_f32_index_i32){x[i*m + 64*j_outer + j_inner], 64*j_outer + j_inner});
            }
            if (j_inner < m % 64) {
                const int j_outer = m / 64;
                // insn.j.update
                acc_j[l0_] =
                        argmin_f32_i32(acc_j[l0_],
                        (tuple_value_f32_index_i32){x[i*m + 64*j_outer + j_inner], 64*j_outer + j_inner});
            }
            // insn.j.store
            acc_j_warp[j_inner] = acc_j[l0_];
        }
        for (int l0_ = 0; l0_ < 64; ++l0_) {
            const int j_inner = l0_;
            if (j_inner % 32 <= 15) {
                // insn.j.step0
                acc_j_warp[j_inner] = argmin_f32_i32(acc_j_warp[j_inner], acc_j_warp[j_inner + 16]);
            }
        }
        for (int l0_ = 0; l0_ < 64; ++l0_) {
            const int j_inner = l0_;
            if (j_inner % 32 <= 7) {
                // insn.j.step1
                acc_j_warp[j_inner] = argmin_f32_i32(acc_j_warp[j_inner], acc_j_warp[j_inner + 8]);
            }
        }
        for (int l0_ = 0; l0_ < 64; ++l0_) {
            const int j_inner = l0_;
            if (j_inner % 32 <= 3) {
                // insn.j.step2
                acc_j_warp[j_inner] = argmin_f32_i32(acc_j_warp[j_inner], acc_j_warp[j_inner + 4]);
            }
        }
        for (int l0_ = 0; l0_ < 64; ++l0_) {
            const int j_inner = l0_;
            if (j_inner % 32 <= 1) {
                // insn.j.step3
                acc_j_warp[j_inner] = argmin_f32_i32(acc_j_warp[j_inner], acc_j_warp[j_inner + 2]);
            }
        }
        for (int l0_ = 0; l0_ < 64; ++l0_) {
            const int j_inner = l0_;
            if (j_inner % 32 == 0) {
                // insn.j.step4
                acc_j_warp[j_inner] = argmin_f32_i32(acc_j_warp[j_inner], acc_j_warp[j_inner + 1]);
            }
        }
        for (int l0_ = 0; l0_ < 64; ++l0_) {
            const int j_inner = l0_;
            if (j_inner % 32 == 0) {
                // insn.j.put
                acc_j_shared[j_inner / 32] = acc_j_warp[j_inner];
            }
        }
        // barrier: the threads' loops end here
        // acc_j_shared: insn.j.put writes, insn.j.first reads
        // acc_j_shared: insn.j.put writes, insn.j.rest reads
        for (int l0_ = 0; l0_ < 64; ++l0_) {
            tuple_value_f32_index_i32 acc_j_all;
            tuple_value_f32_index_i32 least_place;

            // insn.j.first
            acc_j_all = acc_j_shared[0];
            // insn.j.rest
            acc_j_all = argmin_f32_i32(acc_j_all, acc_j_shared[1]);
            // insn
            least_place = acc_j_all;
            if (l0_ == 0) {
                // insn_0
                least[i] = least_place.value;
                // insn_1
                place[i] = least_place.index;
            }
        }
    }
}
