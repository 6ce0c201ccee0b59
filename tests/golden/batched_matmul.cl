// proven: order (6 dependences), in bounds, no read before a write, no races; barriers: 1, each needed

#define gid(AXIS) ((uint)get_group_id(AXIS))
#define lid(AXIS) ((uint)get_local_id(AXIS))

__kernel __attribute__((reqd_work_group_size(10, 16, 1)))
void elementwise_operator(__global const float *restrict d, __global float *restrict r,
    __global const float *restrict u, const int ne)
{
    const int e_outer = gid(0);
    const int e_inner = lid(1);
    const int i = lid(0);
    __local float d_fetch[10][10];
    __local float u_fetch[16][10];
    float acc_j;

    const int d_dim_0 = lid(1);
    if (d_dim_0 < 10) {
        const int d_dim_1 = lid(0);
        // d_fetch_rule
        d_fetch[d_dim_0][d_dim_1] = d[10*d_dim_0 + d_dim_1];
    }
    if (16*e_outer + 16 <= ne) {  // a full tile
        const int u_dim_0 = lid(1);
        const int u_dim_1 = lid(0);
        // u_fetch_rule
        u_fetch[u_dim_0][u_dim_1] = u[160*e_outer + 10*u_dim_0 + u_dim_1];
    } else {
        const int u_dim_0 = lid(1);
        const int u_dim_1 = lid(0);
        if (16*e_outer + u_dim_0 < ne) {
            // u_fetch_rule
            u_fetch[u_dim_0][u_dim_1] = u[160*e_outer + 10*u_dim_0 + u_dim_1];
        }
    }
    if (16*e_outer + e_inner < ne) {
        // insn.j.init
        acc_j = 0.0f;
    }
    // d_fetch: d_fetch_rule writes, insn.j.update reads
    // u_fetch: u_fetch_rule writes, insn.j.update reads
    barrier(CLK_LOCAL_MEM_FENCE);
    if (16*e_outer + e_inner < ne) {
        for (int j = 0; j < 10; ++j) {
            // insn.j.update
            acc_j += d_fetch[i][j]*u_fetch[e_inner][j];
        }
        // insn
        r[160*e_outer + 10*e_inner + i] = acc_j;
    }
}
