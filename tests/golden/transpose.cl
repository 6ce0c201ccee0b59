// proven: order (1 dependence), in bounds, no read before a write, no races; barriers: 1, each needed

#define gid(AXIS) ((uint)get_group_id(AXIS))
#define lid(AXIS) ((uint)get_local_id(AXIS))

__kernel __attribute__((reqd_work_group_size(16, 16, 1)))
void transpose(__global const float *restrict a, __global float *restrict b, const int m, const int n)
{
    const int i_outer = gid(1);
    const int j_outer = gid(0);
    const int i_inner = lid(0);
    const int j_inner = lid(1);
    __local float a_fetch[16][16];

    if (16*j_outer + 16 <= m && 16*i_outer + 16 <= n) {  // a full tile
        const int a_dim_0 = lid(1);
        const int a_dim_1 = lid(0);
        // a_fetch_rule
        a_fetch[a_dim_0][a_dim_1] = a[(16*i_outer + a_dim_0)*m + 16*j_outer + a_dim_1];
    } else {
        const int a_dim_0 = lid(1);
        const int a_dim_1 = lid(0);
        if (16*j_outer + a_dim_1 < m && 16*i_outer + a_dim_0 < n) {
            // a_fetch_rule
            a_fetch[a_dim_0][a_dim_1] = a[(16*i_outer + a_dim_0)*m + 16*j_outer + a_dim_1];
        }
    }
    // a_fetch: a_fetch_rule writes, insn reads
    barrier(CLK_LOCAL_MEM_FENCE);
    if (16*j_outer + j_inner < m && 16*i_outer + i_inner < n) {
        // insn
        b[(16*j_outer + j_inner)*n + 16*i_outer + i_inner] = a_fetch[i_inner][j_inner];
    }
}
