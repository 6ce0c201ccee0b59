// proven: order (6 dependences), in bounds, no read before a write, no races; barriers: 1, 1 not needed

extern "C" __global__ void __launch_bounds__(32)
kernel_0(int *__restrict__ a, const int *__restrict__ x, const int n)
{
    const int i_outer = blockIdx.x;
    const int i_inner = threadIdx.x;

    if (32*i_outer + 32 <= n) {  // a full tile
        // insn
        a[32*i_outer + i_inner] = 2*x[32*i_outer + i_inner];
    } else if (32*i_outer + i_inner < n) {
        // insn
        a[32*i_outer + i_inner] = 2*x[32*i_outer + i_inner];
    }
}

extern "C" __global__ void __launch_bounds__(32)
kernel_1(const int *a, int *__restrict__ b, int *__restrict__ c, const int *x, const int n)
{
    const int i_outer = blockIdx.x;
    const int i_inner = threadIdx.x;
    int acc_k;

    if (32*i_outer + 32 <= n) {  // a full tile
        // insn_0.k.init
        acc_k = 0;
        for (int k = 0; k < 3; ++k) {
            // insn_0.k.update
            acc_k += x[k];
        }
        // insn_0
        b[32*i_outer + i_inner] = a[n - 32*i_outer - i_inner - 1] + acc_k;
        // requested between insn_0 and insn_1
        __syncthreads();
        // insn_1
        c[32*i_outer + i_inner] = b[32*i_outer + i_inner];
    } else {
        if (32*i_outer + i_inner < n) {
            // insn_0.k.init
            acc_k = 0;
            for (int k = 0; k < 3; ++k) {
                // insn_0.k.update
                acc_k += x[k];
            }
            // insn_0
            b[32*i_outer + i_inner] = a[n - 32*i_outer - i_inner - 1] + acc_k;
        }
        // requested between insn_0 and insn_1
        __syncthreads();
        if (32*i_outer + i_inner < n) {
            // insn_1
            c[32*i_outer + i_inner] = b[32*i_outer + i_inner];
        }
    }
}
