// proven: order (9 dependences), in bounds, no read before a write, no races

extern "C" __global__ void __launch_bounds__(32)
kernel_0(const int *__restrict__ a, int *__restrict__ part_0, const int n)
{
    const int block = blockIdx.x;
    const int i_inner = threadIdx.x;
    int acc_i_inner;
    int acc_i_inner_all;
    int acc_i_inner_warp{};  // combined by shuffles in the warp

    if (32*block + 32 <= n) {  // a full tile
        // part_0_rule.i_inner.init
        acc_i_inner = 0;
        // part_0_rule.i_inner.update
        acc_i_inner += a[32*block + i_inner];
        // part_0_rule.i_inner.store ... part_0_rule.i_inner.result: shuffles combine acc_i_inner of 32 lanes; all of them get the result
        acc_i_inner_warp = acc_i_inner;
        acc_i_inner_warp += __shfl_xor_sync(0xffffffff, acc_i_inner_warp, 16);
        acc_i_inner_warp += __shfl_xor_sync(0xffffffff, acc_i_inner_warp, 8);
        acc_i_inner_warp += __shfl_xor_sync(0xffffffff, acc_i_inner_warp, 4);
        acc_i_inner_warp += __shfl_xor_sync(0xffffffff, acc_i_inner_warp, 2);
        acc_i_inner_warp += __shfl_xor_sync(0xffffffff, acc_i_inner_warp, 1);
        acc_i_inner_all = acc_i_inner_warp;
        if ((int)threadIdx.x == 0) {
            // part_0_rule
            part_0[block] = acc_i_inner_all;
        }
    } else {
        // part_0_rule.i_inner.init
        acc_i_inner = 0;
        if (32*block + i_inner < n) {
            // part_0_rule.i_inner.update
            acc_i_inner += a[32*block + i_inner];
        }
        // part_0_rule.i_inner.store ... part_0_rule.i_inner.result: shuffles combine acc_i_inner of 32 lanes; all of them get the result
        acc_i_inner_warp = acc_i_inner;
        acc_i_inner_warp += __shfl_xor_sync(0xffffffff, acc_i_inner_warp, 16);
        acc_i_inner_warp += __shfl_xor_sync(0xffffffff, acc_i_inner_warp, 8);
        acc_i_inner_warp += __shfl_xor_sync(0xffffffff, acc_i_inner_warp, 4);
        acc_i_inner_warp += __shfl_xor_sync(0xffffffff, acc_i_inner_warp, 2);
        acc_i_inner_warp += __shfl_xor_sync(0xffffffff, acc_i_inner_warp, 1);
        acc_i_inner_all = acc_i_inner_warp;
        if ((int)threadIdx.x == 0) {
            // part_0_rule
            part_0[block] = acc_i_inner_all;
        }
    }
}

extern "C" __global__ void __launch_bounds__(1)
kernel_1(int *__restrict__ y, const int *__restrict__ part_0, const int n)
{
    int acc_i;

    // insn.i.init
    acc_i = 0;
    for (int i_outer = 0; i_outer < (n + 31) / 32; ++i_outer) {
        // insn.i.update
        acc_i += part_0[i_outer];
    }
    // insn
    y[0] = acc_i;
}
