// proven: order (11 dependences), in bounds, no read before a write, no races

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif

extern "C" __global__ void __launch_bounds__(32)
softmax(const float *__restrict__ x, float *__restrict__ y, const int m, const int n)
{
    const int i_outer = blockIdx.x;
    const int i_inner = threadIdx.x;
    float acc_k;
    float top;
    float acc_k_0;
    float total;

    if (32*i_outer + 32 <= n) {  // a full tile
        // insn.k.init
        acc_k = -INFINITY;
        for (int k = 0; k < m; ++k) {
            // insn.k.update
            acc_k = fmaxf(acc_k, x[(32*i_outer + i_inner)*m + k]);
        }
        // insn
        top = acc_k;
        // insn_0.k.init
        acc_k_0 = 0.0f;
        for (int k = 0; k < m; ++k) {
            // insn_0.k.update
            acc_k_0 += expf(x[(32*i_outer + i_inner)*m + k] - top);
        }
        // insn_0
        total = acc_k_0;
        for (int j = 0; j < m; ++j) {
            // insn_1
            y[(32*i_outer + i_inner)*m + j] = expf(x[(32*i_outer + i_inner)*m + j] - top) / total;
        }
    } else if (32*i_outer + i_inner < n) {
        // insn.k.init
        acc_k = -INFINITY;
        for (int k = 0; k < m; ++k) {
            // insn.k.update
            acc_k = fmaxf(acc_k, x[(32*i_outer + i_inner)*m + k]);
        }
        // insn
        top = acc_k;
        // insn_0.k.init
        acc_k_0 = 0.0f;
        for (int k = 0; k < m; ++k) {
            // insn_0.k.update
            acc_k_0 += expf(x[(32*i_outer + i_inner)*m + k] - top);
        }
        // insn_0
        total = acc_k_0;
        for (int j = 0; j < m; ++j) {
            // insn_1
            y[(32*i_outer + i_inner)*m + j] = expf(x[(32*i_outer + i_inner)*m + j] - top) / total;
        }
    }
}
