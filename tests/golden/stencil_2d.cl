// proven: order (1 dependence), in bounds, no read before a write, no races; barriers: 1, each needed

#define gid(AXIS) ((uint)get_group_id(AXIS))
#define lid(AXIS) ((uint)get_local_id(AXIS))

__kernel __attribute__((reqd_work_group_size(16, 16, 1)))
void stencil_2d(__global const float *restrict a, __global float *restrict out, const int m, const int n)
{
    const int i_outer = gid(1);
    const int j_outer = gid(0);
    const int i_inner = lid(1);
    const int j_inner = lid(0);
    __local float a_fetch[18][18];

    if (1 <= j_outer && 16*j_outer + 16 < m && 1 <= i_outer && 16*i_outer + 16 < n) {  // a full tile
        #pragma unroll
        for (int a_fetch_rule_round = 0; a_fetch_rule_round < 2; ++a_fetch_rule_round) {
            const int a_fetch_rule_point = 256*a_fetch_rule_round + 16*lid(1) + lid(0);
            if (a_fetch_rule_point < 324) {
                const int a_dim_0 = a_fetch_rule_point / 18;
                const int a_dim_1 = a_fetch_rule_point % 18;
                // a_fetch_rule
                a_fetch[a_dim_0][a_dim_1] = a[(16*i_outer + a_dim_0 - 1)*m + 16*j_outer + a_dim_1 - 1];
            }
        }
    } else {
        #pragma unroll
        for (int a_fetch_rule_round = 0; a_fetch_rule_round < 2; ++a_fetch_rule_round) {
            const int a_fetch_rule_point = 256*a_fetch_rule_round + 16*lid(1) + lid(0);
            if (a_fetch_rule_point < 324) {
                const int a_dim_0 = a_fetch_rule_point / 18;
                const int a_dim_1 = a_fetch_rule_point % 18;
                if (1 <= 16*j_outer + a_dim_1 && 16*j_outer + a_dim_1 <= m && 1 <= 16*i_outer + a_dim_0 &&
                        16*i_outer + a_dim_0 <= n) {
                    // a_fetch_rule
                    a_fetch[a_dim_0][a_dim_1] = a[(16*i_outer + a_dim_0 - 1)*m + 16*j_outer + a_dim_1 - 1];
                }
            }
        }
    }
    // a_fetch: a_fetch_rule writes, insn reads
    barrier(CLK_LOCAL_MEM_FENCE);
    if (16*j_outer + j_inner + 2 <= m && 1 <= 16*j_outer + j_inner && 16*i_outer + i_inner + 2 <= n &&
            1 <= 16*i_outer + i_inner) {
        // insn
        out[(16*i_outer + i_inner)*m + 16*j_outer + j_inner] = a_fetch[i_inner + 1][j_inner] +
                a_fetch[i_inner + 1][j_inner + 2] + a_fetch[i_inner][j_inner + 1] +
                a_fetch[i_inner + 2][j_inner + 1] - 4.0f*a_fetch[i_inner + 1][j_inner + 1];
    }
}
