// proven: order (5 dependences), in bounds, no read before a write, no races; barriers: 1, each needed

extern "C" __global__ void __launch_bounds__(16)
kernel(const int *__restrict__ a, const int *__restrict__ b, const int *__restrict__ c, int *__restrict__ y,
    const int m, const int n)
{
    const int k_outer = blockIdx.x;
    const int f_dim_0 = threadIdx.x;
    const int k_inner = threadIdx.x;
    int acc_j;
    __shared__ int f_0[16];

    if (4*k_outer + 4 <= n) {  // a full tile
        // f_0_rule.j.init
        acc_j = 0;
        for (int j = 0; j < m; ++j) {
            // f_0_rule.j.update
            acc_j += a[f_dim_0*m + j]*b[j];
        }
        // f_0_rule
        f_0[f_dim_0] = acc_j;
        // f_0: f_0_rule writes, insn reads
        __syncwarp();
        if (k_inner <= 3) {
            for (int i = 0; i < 16; ++i) {
                // insn
                y[64*k_outer + 16*k_inner + i] = 2*f_0[i] + c[4*k_outer + k_inner];
            }
        }
    } else {
        // f_0_rule.j.init
        acc_j = 0;
        for (int j = 0; j < m; ++j) {
            // f_0_rule.j.update
            acc_j += a[f_dim_0*m + j]*b[j];
        }
        // f_0_rule
        f_0[f_dim_0] = acc_j;
        // f_0: f_0_rule writes, insn reads
        __syncwarp();
        if (k_inner <= 3 && 4*k_outer + k_inner < n) {
            for (int i = 0; i < 16; ++i) {
                // insn
                y[64*k_outer + 16*k_inner + i] = 2*f_0[i] + c[4*k_outer + k_inner];
            }
        }
    }
}
