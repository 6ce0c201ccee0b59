// proven: order (1 dependence), in bounds, no read before a write, no races; barriers: 1, each needed

extern "C" __global__ void __launch_bounds__(256)
transpose(const float *__restrict__ a, float *__restrict__ b, const int m, const int n)
{
    const int i_outer = blockIdx.y;
    const int j_outer = blockIdx.x;
    const int i_inner = threadIdx.x;
    const int j_inner = threadIdx.y;
    __shared__ float a_fetch[16][16];

    if (16*j_outer + 16 <= m && 16*i_outer + 16 <= n) {  // a full tile
        const int a_dim_0 = threadIdx.y;
        const int a_dim_1 = threadIdx.x;
        // a_fetch_rule
        a_fetch[a_dim_0][a_dim_1] = a[(16*i_outer + a_dim_0)*m + 16*j_outer + a_dim_1];
        // a_fetch: a_fetch_rule writes, insn reads
        __syncthreads();
        // insn
        b[(16*j_outer + j_inner)*n + 16*i_outer + i_inner] = a_fetch[i_inner][j_inner];
    } else {
        const int a_dim_0 = threadIdx.y;
        const int a_dim_1 = threadIdx.x;
        if (16*j_outer + a_dim_1 < m && 16*i_outer + a_dim_0 < n) {
            // a_fetch_rule
            a_fetch[a_dim_0][a_dim_1] = a[(16*i_outer + a_dim_0)*m + 16*j_outer + a_dim_1];
        }
        // a_fetch: a_fetch_rule writes, insn reads
        __syncthreads();
        if (16*j_outer + j_inner < m && 16*i_outer + i_inner < n) {
            // insn
            b[(16*j_outer + j_inner)*n + 16*i_outer + i_inner] = a_fetch[i_inner][j_inner];
        }
    }
}
