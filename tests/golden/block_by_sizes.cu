// proven: order (5 dependences), in bounds, no read before a write, no races; barriers: 1, each needed

extern "C" __global__ void __launch_bounds__(1024)
kernel(const double *__restrict__ x, const double *__restrict__ w, double *__restrict__ y, const int m,
    const int n)
{
    const int j_outer = blockIdx.x;
    const int i = threadIdx.y;
    const int j_inner = threadIdx.x;
    __shared__ double w_fetch[8][4];
    double acc_k;

    if (4*j_outer + 4 <= m) {  // a full tile
        if ((int)threadIdx.y == 0) {
            #pragma unroll
            for (int w_fetch_rule_round = 0; w_fetch_rule_round < 8; ++w_fetch_rule_round) {
                const int w_dim_0 = w_fetch_rule_round;
                const int w_dim_1 = threadIdx.x;
                // w_fetch_rule
                w_fetch[w_dim_0][w_dim_1] = w[w_dim_0*m + 4*j_outer + w_dim_1];
            }
        }
        if (i < n) {
            // insn.k.init
            acc_k = 0.0;
        }
        // w_fetch: w_fetch_rule writes, insn.k.update reads
        __syncthreads();
        if (i < n) {
            for (int k = 0; k < 8; ++k) {
                // insn.k.update
                acc_k += x[8*i + k]*w_fetch[k][j_inner];
            }
            // insn
            y[i*m + 4*j_outer + j_inner] = acc_k;
        }
    } else {
        if ((int)threadIdx.y == 0) {
            #pragma unroll
            for (int w_fetch_rule_round = 0; w_fetch_rule_round < 8; ++w_fetch_rule_round) {
                const int w_dim_0 = w_fetch_rule_round;
                const int w_dim_1 = threadIdx.x;
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
        __syncthreads();
        if (i < n && 4*j_outer + j_inner < m) {
            for (int k = 0; k < 8; ++k) {
                // insn.k.update
                acc_k += x[8*i + k]*w_fetch[k][j_inner];
            }
            // insn
            y[i*m + 4*j_outer + j_inner] = acc_k;
        }
    }
}
