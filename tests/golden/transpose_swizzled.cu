// proven: order (1 dependence), in bounds, no read before a write, no races; barriers: 1, each needed
// vector accesses: b at multiples of 16 bytes, row by row; other calls run a text without them

extern "C" __global__ void __launch_bounds__(1024)
transpose_swizzled(const float *__restrict__ a, float *__restrict__ b, const int m, const int n)
{
    const int i_outer = blockIdx.y;
    const int j_outer = blockIdx.x;
    const int a_dim_0_outer = threadIdx.y;
    const int a_dim_1 = threadIdx.x;
    const int i_inner_outer = threadIdx.x;
    const int j_inner = threadIdx.y;
    __shared__ __align__(16) float a_fetch[32][32];  // column c of row r is at c ^ (4*(r % 8))

    if (32*j_outer + 32 <= m && 32*i_outer + 32 <= n) {  // a full tile
        if (a_dim_0_outer <= 7) {
            #pragma unroll
            for (int a_dim_0_inner = 0; a_dim_0_inner < 4; ++a_dim_0_inner) {
                // a_fetch_rule
                a_fetch[a_dim_1][(4*a_dim_0_outer + a_dim_0_inner) ^ (4*(a_dim_1 % 8))] =
                        a[(32*i_outer + 4*a_dim_0_outer + a_dim_0_inner)*m + 32*j_outer + a_dim_1];
            }
        }
        // a_fetch: a_fetch_rule writes, insn reads
        __syncthreads();
        if (i_inner_outer <= 7) {
            alignas(16) float a_fetch_vec[4];
            alignas(16) float b_vec[4];
            *reinterpret_cast<float4 *>(a_fetch_vec) =
                    *reinterpret_cast<const float4 *>(&a_fetch[j_inner][(4*i_inner_outer) ^ (4*(j_inner % 8))]);
            #pragma unroll
            for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                // insn
                b_vec[i_inner_inner] = a_fetch_vec[i_inner_inner];
            }
            *reinterpret_cast<float4 *>(&b[(32*j_outer + j_inner)*n + 32*i_outer + 4*i_inner_outer]) =
                    *reinterpret_cast<const float4 *>(b_vec);
        }
    } else {
        if (a_dim_0_outer <= 7 && 32*j_outer + a_dim_1 < m && 32*i_outer + 4*a_dim_0_outer < n) {
            #pragma unroll
            for (int a_dim_0_inner = 0; a_dim_0_inner < 4; ++a_dim_0_inner) {
                if (32*i_outer + 4*a_dim_0_outer + a_dim_0_inner < n) {
                    // a_fetch_rule
                    a_fetch[a_dim_1][(4*a_dim_0_outer + a_dim_0_inner) ^ (4*(a_dim_1 % 8))] =
                            a[(32*i_outer + 4*a_dim_0_outer + a_dim_0_inner)*m + 32*j_outer + a_dim_1];
                }
            }
        }
        // a_fetch: a_fetch_rule writes, insn reads
        __syncthreads();
        if (i_inner_outer <= 7 && 32*j_outer + j_inner < m && 32*i_outer + 4*i_inner_outer < n) {
            #pragma unroll
            for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                if (32*i_outer + 4*i_inner_outer + i_inner_inner < n) {
                    // insn
                    b[(32*j_outer + j_inner)*n + 32*i_outer + 4*i_inner_outer + i_inner_inner] =
                            a_fetch[j_inner][(4*i_inner_outer + i_inner_inner) ^ (4*(j_inner % 8))];
                }
            }
        }
    }
}
