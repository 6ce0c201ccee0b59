// proven: order (6 dependences), in bounds, no read before a write, no races; barriers: 1, each needed

extern "C" __global__ void __launch_bounds__(160)
elementwise_operator(const float *__restrict__ d, float *__restrict__ r, const float *__restrict__ u,
    const int ne)
{
    const int e_outer = blockIdx.x;
    const int e_inner = threadIdx.y;
    const int i = threadIdx.x;
    __shared__ float d_fetch[10][10];
    __shared__ float u_fetch[16][10];
    float acc_j;

    if (16*e_outer + 16 <= ne) {  // a full tile
        const int d_dim_0 = threadIdx.y;
        if (d_dim_0 < 10) {
            const int d_dim_1 = threadIdx.x;
            // d_fetch_rule
            d_fetch[d_dim_0][d_dim_1] = d[10*d_dim_0 + d_dim_1];
        }
        const int u_dim_0 = threadIdx.y;
        const int u_dim_1 = threadIdx.x;
        // u_fetch_rule
        u_fetch[u_dim_0][u_dim_1] = u[160*e_outer + 10*u_dim_0 + u_dim_1];
        // insn.j.init
        acc_j = 0.0f;
        // d_fetch: d_fetch_rule writes, insn.j.update reads
        // u_fetch: u_fetch_rule writes, insn.j.update reads
        __syncthreads();
        for (int j = 0; j < 10; ++j) {
            // insn.j.update
            acc_j += d_fetch[i][j]*u_fetch[e_inner][j];
        }
        // insn
        r[160*e_outer + 10*e_inner + i] = acc_j;
    } else {
        const int d_dim_0 = threadIdx.y;
        if (d_dim_0 < 10) {
            const int d_dim_1 = threadIdx.x;
            // d_fetch_rule
            d_fetch[d_dim_0][d_dim_1] = d[10*d_dim_0 + d_dim_1];
        }
        const int u_dim_0 = threadIdx.y;
        const int u_dim_1 = threadIdx.x;
        if (16*e_outer + u_dim_0 < ne) {
            // u_fetch_rule
            u_fetch[u_dim_0][u_dim_1] = u[160*e_outer + 10*u_dim_0 + u_dim_1];
        }
        if (16*e_outer + e_inner < ne) {
            // insn.j.init
            acc_j = 0.0f;
        }
        // d_fetch: d_fetch_rule writes, insn.j.update reads
        // u_fetch: u_fetch_rule writes, insn.j.update reads
        __syncthreads();
        if (16*e_outer + e_inner < ne) {
            for (int j = 0; j < 10; ++j) {
                // insn.j.update
                acc_j += d_fetch[i][j]*u_fetch[e_inner][j];
            }
            // insn
            r[160*e_outer + 10*e_inner + i] = acc_j;
        }
    }
}
