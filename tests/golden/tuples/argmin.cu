// proven: order (6 dependences), in bounds, no read before a write, no races; barriers: 1, each needed

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
typedef struct {
    float value;
    int index;
} tuple_value_f32_index_i32;
__device__ __forceinline__ tuple_value_f32_index_i32
argmin_f32_i32(tuple_value_f32_index_i32 a, tuple_value_f32_index_i32 b)
{
    return b.value < a.value || (b.value == a.value && b.index < a.index) ||
            (isnan(b.value) && (!isnan(a.value) || b.index < a.index)) ? b : a;
}

extern "C" __global__ void __launch_bounds__(64)
argmin_of_rows(float *__restrict__ least, int *__restrict__ place, const float *__restrict__ x, const int m,
    const int n)
{
    const int i = blockIdx.x;
    const int j_inner = threadIdx.x;
    tuple_value_f32_index_i32 acc_j;
    __shared__ tuple_value_f32_index_i32 acc_j_shared[2];
    tuple_value_f32_index_i32 acc_j_all;
    tuple_value_f32_index_i32 least_place;
    tuple_value_f32_index_i32 acc_j_warp{};  // combined by shuffles in warps of 32

    // insn.j.init
    acc_j = tuple_value_f32_index_i32{INFINITY, 2147483647};
    for (int j_outer = 0; j_outer < m / 64; ++j_outer) {
        // insn.j.update
        acc_j = argmin_f32_i32(acc_j, tuple_value_f32_index_i32{x[i*m + 64*j_outer + j_inner],
                64*j_outer + j_inner});
    }
    if (j_inner < m % 64) {
        const int j_outer = m / 64;
        // insn.j.update
        acc_j = argmin_f32_i32(acc_j, tuple_value_f32_index_i32{x[i*m + 64*j_outer + j_inner],
                64*j_outer + j_inner});
    }
    // insn.j.store ... insn.j.step4: shuffles combine acc_j of 32 lanes; the first one gets the result
    acc_j_warp = acc_j;
    acc_j_warp =
            argmin_f32_i32(acc_j_warp,
            tuple_value_f32_index_i32{__shfl_down_sync(0xffffffff, acc_j_warp.value, 16),
            __shfl_down_sync(0xffffffff, acc_j_warp.index, 16)});
    acc_j_warp =
            argmin_f32_i32(acc_j_warp,
            tuple_value_f32_index_i32{__shfl_down_sync(0xffffffff, acc_j_warp.value, 8),
            __shfl_down_sync(0xffffffff, acc_j_warp.index, 8)});
    acc_j_warp =
            argmin_f32_i32(acc_j_warp,
            tuple_value_f32_index_i32{__shfl_down_sync(0xffffffff, acc_j_warp.value, 4),
            __shfl_down_sync(0xffffffff, acc_j_warp.index, 4)});
    acc_j_warp =
            argmin_f32_i32(acc_j_warp,
            tuple_value_f32_index_i32{__shfl_down_sync(0xffffffff, acc_j_warp.value, 2),
            __shfl_down_sync(0xffffffff, acc_j_warp.index, 2)});
    acc_j_warp =
            argmin_f32_i32(acc_j_warp,
            tuple_value_f32_index_i32{__shfl_down_sync(0xffffffff, acc_j_warp.value, 1),
            __shfl_down_sync(0xffffffff, acc_j_warp.index, 1)});
    if (j_inner % 32 == 0) {
        // insn.j.put
        acc_j_shared[j_inner / 32] = acc_j_warp;
    }
    // acc_j_shared: insn.j.put writes, insn.j.first reads
    // acc_j_shared: insn.j.put writes, insn.j.rest reads
    __syncthreads();
    // insn.j.first
    acc_j_all = acc_j_shared[0];
    // insn.j.rest
    acc_j_all = argmin_f32_i32(acc_j_all, acc_j_shared[1]);
    // insn
    least_place = acc_j_all;
    if ((int)threadIdx.x == 0) {
        // insn_0
        least[i] = least_place.value;
        // insn_1
        place[i] = least_place.index;
    }
}
