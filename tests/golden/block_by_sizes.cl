// proven: order (5 dependences), in bounds, no read before a write, no races; barriers: 1, each needed

#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define gid(AXIS) ((uint)get_group_id(AXIS))
#define lid(AXIS) ((uint)get_local_id(AXIS))

__kernel
void kernel_(__global const double *restrict x, __global const double *restrict w,
    __global double *restrict y, const int m, const int n)
{
    const int j_outer = gid(0);
    const int i = lid(1);
    const int j_inner = lid(0);
    __local double w_fetch[8][4];
    double acc_k;

    if (4*j_outer + 4 <= m) {  // a full tile
        if ((int)lid(1) == 0) {
            #pragma unroll
            for (int w_fetch_rule_round = 0; w_fetch_rule_round < 8; ++w_fetch_rule_round) {
                const int w_dim_0 = w_fetch_rule_round;
                const int w_dim_1 = lid(0);
                // w_fetch_rule
                w_fetch[w_dim_0][w_dim_1] = w[w_dim_0*m + 4*j_outer + w_dim_1];
            }
        }
    } else if ((int)lid(1) == 0) {
        #pragma unroll
        for (int w_fetch_rule_round = 0; w_fetch_rule_round < 8; ++w_fetch_rule_round) {
            const int w_dim_0 = w_fetch_rule_round;
            const int w_dim_1 = lid(0);
            if (4*j_outer + w_dim_1 < m) {
                // w_fetch_rule
                w_fetch[w_dim_0][w_dim_1] = w[w_dim_0*m + 4*j_outer + w_dim_1];
            }
        }
    }
    if (i < n && 4*j_outer + j_inner < m) {
        // insn.k.init
        acc_k = 0.0;
    }
    // w_fetch: w_fetch_rule writes, insn.k.update reads
    barrier(CLK_LOCAL_MEM_FENCE);
    if (i < n && 4*j_outer + j_inner < m) {
        for (int k = 0; k < 8; ++k) {
            // insn.k.update
            acc_k += x[8*i + k]*w_fetch[k][j_inner];
        }
        // insn
        y[i*m + 4*j_outer + j_inner] = acc_k;
    }
}
