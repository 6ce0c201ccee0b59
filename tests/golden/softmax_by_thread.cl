// proven: order (11 dependences), in bounds, no read before a write, no races

#define gid(AXIS) ((uint)get_group_id(AXIS))
#define lid(AXIS) ((uint)get_local_id(AXIS))

__kernel __attribute__((reqd_work_group_size(32, 1, 1)))
void softmax(__global const float *restrict x, __global float *restrict y, const int m, const int n)
{
    const int i_outer = gid(0);
    const int i_inner = lid(0);
    float acc_k;
    float top;
    float acc_k_0;
    float total;

    if (32*i_outer + 32 <= n) {  // a full tile
        // insn.k.init
        acc_k = -INFINITY;
        for (int k = 0; k < m; ++k) {
            // insn.k.update
            acc_k = fmax(acc_k, x[(32*i_outer + i_inner)*m + k]);
        }
        // insn
        top = acc_k;
        // insn_0.k.init
        acc_k_0 = 0.0f;
        for (int k = 0; k < m; ++k) {
            // insn_0.k.update
            acc_k_0 += exp(x[(32*i_outer + i_inner)*m + k] - top);
        }
        // insn_0
        total = acc_k_0;
        for (int j = 0; j < m; ++j) {
            // insn_1
            y[(32*i_outer + i_inner)*m + j] = exp(x[(32*i_outer + i_inner)*m + j] - top) / total;
        }
    } else if (32*i_outer + i_inner < n) {
        // insn.k.init
        acc_k = -INFINITY;
        for (int k = 0; k < m; ++k) {
            // insn.k.update
            acc_k = fmax(acc_k, x[(32*i_outer + i_inner)*m + k]);
        }
        // insn
        top = acc_k;
        // insn_0.k.init
        acc_k_0 = 0.0f;
        for (int k = 0; k < m; ++k) {
            // insn_0.k.update
            acc_k_0 += exp(x[(32*i_outer + i_inner)*m + k] - top);
        }
        // insn_0
        total = acc_k_0;
        for (int j = 0; j < m; ++j) {
            // insn_1
            y[(32*i_outer + i_inner)*m + j] = exp(x[(32*i_outer + i_inner)*m + j] - top) / total;
        }
    }
}
