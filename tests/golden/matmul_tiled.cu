// proven: order (6 dependences), in bounds, no read before a write, no races; barriers: 2, each needed

extern "C" __global__ void __launch_bounds__(256)
matmul(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, const int l,
    const int m, const int n)
{
    const int i_outer = blockIdx.y;
    const int j_outer = blockIdx.x;
    const int i_inner = threadIdx.y;
    const int j_inner = threadIdx.x;
    float acc_k;
    __shared__ float a_fetch[16][16];
    __shared__ float b_fetch[16][16];

    if (16*j_outer + 16 <= m && 16*i_outer + 16 <= n) {  // a full tile
        // insn.k.init
        acc_k = 0.0f;
        for (int k_outer = 0; k_outer < l / 16; ++k_outer) {
            const int a_dim_0 = threadIdx.y;
            const int a_dim_1 = threadIdx.x;
            // a_fetch_rule
            a_fetch[a_dim_0][a_dim_1] = a[(16*i_outer + a_dim_0)*l + 16*k_outer + a_dim_1];
            const int b_dim_0 = threadIdx.y;
            const int b_dim_1 = threadIdx.x;
            // b_fetch_rule
            b_fetch[b_dim_0][b_dim_1] = b[(16*k_outer + b_dim_0)*m + 16*j_outer + b_dim_1];
            // a_fetch: a_fetch_rule writes, insn.k.update reads
            // b_fetch: b_fetch_rule writes, insn.k.update reads
            __syncthreads();
            for (int k_inner = 0; k_inner < 16; ++k_inner) {
                // insn.k.update
                acc_k += a_fetch[i_inner][k_inner]*b_fetch[k_inner][j_inner];
            }
            // a_fetch: insn.k.update reads, a_fetch_rule overwrites
            // b_fetch: insn.k.update reads, b_fetch_rule overwrites
            __syncthreads();
        }
        if (l % 16 != 0) {
            const int k_outer = (l - 1) / 16;
            const int a_dim_0 = threadIdx.y;
            const int a_dim_1 = threadIdx.x;
            if (16*k_outer + a_dim_1 < l) {
                // a_fetch_rule
                a_fetch[a_dim_0][a_dim_1] = a[(16*i_outer + a_dim_0)*l + 16*k_outer + a_dim_1];
            }
            const int b_dim_0 = threadIdx.y;
            const int b_dim_1 = threadIdx.x;
            if (16*k_outer + b_dim_0 < l) {
                // b_fetch_rule
                b_fetch[b_dim_0][b_dim_1] = b[(16*k_outer + b_dim_0)*m + 16*j_outer + b_dim_1];
            }
            // a_fetch: a_fetch_rule writes, insn.k.update reads
            // b_fetch: b_fetch_rule writes, insn.k.update reads
            __syncthreads();
            for (int k_inner = 0; k_inner < l - 16*k_outer; ++k_inner) {
                // insn.k.update
                acc_k += a_fetch[i_inner][k_inner]*b_fetch[k_inner][j_inner];
            }
        }
        // insn
        c[(16*i_outer + i_inner)*m + 16*j_outer + j_inner] = acc_k;
    } else {
        if (16*j_outer + j_inner < m && 16*i_outer + i_inner < n) {
            // insn.k.init
            acc_k = 0.0f;
        }
        for (int k_outer = 0; k_outer < (l + 15) / 16; ++k_outer) {
            const int a_dim_0 = threadIdx.y;
            const int a_dim_1 = threadIdx.x;
            if (16*i_outer + a_dim_0 < n && 16*k_outer + a_dim_1 < l) {
                // a_fetch_rule
                a_fetch[a_dim_0][a_dim_1] = a[(16*i_outer + a_dim_0)*l + 16*k_outer + a_dim_1];
            }
            const int b_dim_0 = threadIdx.y;
            const int b_dim_1 = threadIdx.x;
            if (16*j_outer + b_dim_1 < m && 16*k_outer + b_dim_0 < l) {
                // b_fetch_rule
                b_fetch[b_dim_0][b_dim_1] = b[(16*k_outer + b_dim_0)*m + 16*j_outer + b_dim_1];
            }
            // a_fetch: a_fetch_rule writes, insn.k.update reads
            // b_fetch: b_fetch_rule writes, insn.k.update reads
            __syncthreads();
            if (16*j_outer + j_inner < m && 16*i_outer + i_inner < n) {
                for (int k_inner = 0; k_inner < min(16, l - 16*k_outer); ++k_inner) {
                    // insn.k.update
                    acc_k += a_fetch[i_inner][k_inner]*b_fetch[k_inner][j_inner];
                }
            }
            // a_fetch: insn.k.update reads, a_fetch_rule overwrites
            // b_fetch: insn.k.update reads, b_fetch_rule overwrites
            __syncthreads();
        }
        if (16*j_outer + j_inner < m && 16*i_outer + i_inner < n) {
            // insn
            c[(16*i_outer + i_inner)*m + 16*j_outer + j_inner] = acc_k;
        }
    }
}
