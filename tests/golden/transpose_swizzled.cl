// proven: order (1 dependence), in bounds, no read before a write, no races; barriers: 1, each needed
// vector accesses: b at multiples of 16 bytes, row by row; other calls run a text without them

#define gid(AXIS) ((uint)get_group_id(AXIS))
#define lid(AXIS) ((uint)get_local_id(AXIS))

__kernel __attribute__((reqd_work_group_size(32, 32, 1)))
void transpose_swizzled(__global const float *restrict a, __global float *restrict b, const int m,
    const int n)
{
    const int i_outer = gid(1);
    const int j_outer = gid(0);
    const int a_dim_0_outer = lid(1);
    const int a_dim_1 = lid(0);
    const int i_inner_outer = lid(0);
    const int j_inner = lid(1);
    __local __attribute__((aligned(16))) float a_fetch[32][32];  // column c of row r is at c ^ (4*(r % 8))

    if (a_dim_0_outer <= 7 && 32*j_outer + a_dim_1 < m && 32*i_outer + 4*a_dim_0_outer < n) {
        if (32*j_outer + 32 <= m && 32*i_outer + 32 <= n) {  // a full tile
            #pragma unroll
            for (int a_dim_0_inner = 0; a_dim_0_inner < 4; ++a_dim_0_inner) {
                // a_fetch_rule
                a_fetch[a_dim_1][(4*a_dim_0_outer + a_dim_0_inner) ^ (4*(a_dim_1 % 8))] =
                        a[(32*i_outer + 4*a_dim_0_outer + a_dim_0_inner)*m + 32*j_outer + a_dim_1];
            }
        } else {
            #pragma unroll
            for (int a_dim_0_inner = 0; a_dim_0_inner < 4; ++a_dim_0_inner) {
                if (32*i_outer + 4*a_dim_0_outer + a_dim_0_inner < n) {
                    // a_fetch_rule
                    a_fetch[a_dim_1][(4*a_dim_0_outer + a_dim_0_inner) ^ (4*(a_dim_1 % 8))] =
                            a[(32*i_outer + 4*a_dim_0_outer + a_dim_0_inner)*m + 32*j_outer + a_dim_1];
                }
            }
        }
    }
    // a_fetch: a_fetch_rule writes, insn reads
    barrier(CLK_LOCAL_MEM_FENCE);
    if (i_inner_outer <= 7 && 32*j_outer + j_inner < m && 32*i_outer + 4*i_inner_outer < n) {
        if (32*j_outer + 32 <= m && 32*i_outer + 32 <= n) {  // a full tile
            float a_fetch_vec[4] __attribute__((aligned(16)));
            float b_vec[4] __attribute__((aligned(16)));
            *(float4 *)a_fetch_vec =
                    *(__local const float4 *)&a_fetch[j_inner][(4*i_inner_outer) ^ (4*(j_inner % 8))];
            #pragma unroll
            for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                // insn
                b_vec[i_inner_inner] = a_fetch_vec[i_inner_inner];
            }
            *(__global float4 *)&b[(32*j_outer + j_inner)*n + 32*i_outer + 4*i_inner_outer] =
                    *(const float4 *)b_vec;
        } else {
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
