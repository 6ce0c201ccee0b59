// proven: order (1 dependence), in bounds, no read before a write, no races; barriers: 1, each needed

extern "C" __global__ void __launch_bounds__(256)
stencil_3d(const float *__restrict__ a, float *__restrict__ out, const int l, const int m, const int n)
{
    const int i_outer = blockIdx.z;
    const int j_outer = blockIdx.y;
    const int k_outer = blockIdx.x;
    const int i_inner = threadIdx.z;
    const int j_inner = threadIdx.y;
    const int k_inner = threadIdx.x;
    __shared__ float a_fetch[6][6][18];

    if (1 <= k_outer && 16*k_outer + 16 < l && 1 <= j_outer && 4*j_outer + 4 < m && 1 <= i_outer &&
            4*i_outer + 4 < n) {  // a full tile
        #pragma unroll
        for (int a_fetch_rule_round = 0; a_fetch_rule_round < 3; ++a_fetch_rule_round) {
            const int a_fetch_rule_point = 256*a_fetch_rule_round + 64*threadIdx.z + 16*threadIdx.y +
                    threadIdx.x;
            if (a_fetch_rule_point < 648) {
                const int a_dim_0 = a_fetch_rule_point / 108;
                const int a_dim_1 = a_fetch_rule_point / 18 % 6;
                const int a_dim_2 = a_fetch_rule_point % 18;
                // a_fetch_rule
                a_fetch[a_dim_0][a_dim_1][a_dim_2] =
                        a[((4*i_outer + a_dim_0 - 1)*m + 4*j_outer + a_dim_1 - 1)*l + 16*k_outer +
                            a_dim_2 - 1];
            }
        }
        // a_fetch: a_fetch_rule writes, insn reads
        __syncthreads();
        // insn
        out[((4*i_outer + i_inner)*m + 4*j_outer + j_inner)*l + 16*k_outer + k_inner] =
                a_fetch[i_inner][j_inner + 1][k_inner + 1] +
                a_fetch[i_inner + 2][j_inner + 1][k_inner + 1] +
                a_fetch[i_inner + 1][j_inner][k_inner + 1] +
                a_fetch[i_inner + 1][j_inner + 2][k_inner + 1] +
                a_fetch[i_inner + 1][j_inner + 1][k_inner] +
                a_fetch[i_inner + 1][j_inner + 1][k_inner + 2] -
                6.0f*a_fetch[i_inner + 1][j_inner + 1][k_inner + 1];
    } else {
        #pragma unroll
        for (int a_fetch_rule_round = 0; a_fetch_rule_round < 3; ++a_fetch_rule_round) {
            const int a_fetch_rule_point = 256*a_fetch_rule_round + 64*threadIdx.z + 16*threadIdx.y +
                    threadIdx.x;
            if (a_fetch_rule_point < 648) {
                const int a_dim_0 = a_fetch_rule_point / 108;
                const int a_dim_1 = a_fetch_rule_point / 18 % 6;
                const int a_dim_2 = a_fetch_rule_point % 18;
                if (1 <= 16*k_outer + a_dim_2 && 16*k_outer + a_dim_2 <= l && 1 <= 4*j_outer + a_dim_1 &&
                        4*j_outer + a_dim_1 <= m && 1 <= 4*i_outer + a_dim_0 && 4*i_outer + a_dim_0 <= n) {
                    // a_fetch_rule
                    a_fetch[a_dim_0][a_dim_1][a_dim_2] =
                            a[((4*i_outer + a_dim_0 - 1)*m + 4*j_outer + a_dim_1 - 1)*l + 16*k_outer +
                                a_dim_2 - 1];
                }
            }
        }
        // a_fetch: a_fetch_rule writes, insn reads
        __syncthreads();
        if (16*k_outer + k_inner + 2 <= l && 1 <= 16*k_outer + k_inner && 4*j_outer + j_inner + 2 <= m &&
                1 <= 4*j_outer + j_inner && 4*i_outer + i_inner + 2 <= n && 1 <= 4*i_outer + i_inner) {
            // insn
            out[((4*i_outer + i_inner)*m + 4*j_outer + j_inner)*l + 16*k_outer + k_inner] =
                    a_fetch[i_inner][j_inner + 1][k_inner + 1] +
                    a_fetch[i_inner + 2][j_inner + 1][k_inner + 1] +
                    a_fetch[i_inner + 1][j_inner][k_inner + 1] +
                    a_fetch[i_inner + 1][j_inner + 2][k_inner + 1] +
                    a_fetch[i_inner + 1][j_inner + 1][k_inner] +
                    a_fetch[i_inner + 1][j_inner + 1][k_inner + 2] -
                    6.0f*a_fetch[i_inner + 1][j_inner + 1][k_inner + 1];
        }
    }
}
