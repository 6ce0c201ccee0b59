// proven: order (11 dependences), in bounds, no read before a write, no races; barriers: 2, each needed

#define gid(AXIS) ((uint)get_group_id(AXIS))
#define lid(AXIS) ((uint)get_local_id(AXIS))
static inline float power2_f32(float x)
{
    return x*x;
}

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void nbody(__global float *restrict phi, __global const float *restrict q, __global const float *restrict x,
    __global const float *restrict y, __global const float *restrict z, const int n)
{
    const int i_outer = gid(0);
    const int i_inner = lid(0);
    float xi;
    float yi;
    float zi;
    float acc_j;
    __local float x_tile[64];
    __local float y_tile[64];
    __local float z_tile[64];
    __local float q_tile[64];

    if (64*i_outer + i_inner < n) {
        // insn
        xi = x[64*i_outer + i_inner];
        // insn_0
        yi = y[64*i_outer + i_inner];
        // insn_1
        zi = z[64*i_outer + i_inner];
        // insn_2.j.init
        acc_j = 0.0f;
    }
    for (int j_outer = 0; j_outer < (n + 63) / 64; ++j_outer) {
        if (64*j_outer + 64 <= n) {  // a full tile
            const int x_dim_0 = lid(0);
            // x_tile_rule
            x_tile[x_dim_0] = x[64*j_outer + x_dim_0];
        } else {
            const int x_dim_0 = lid(0);
            if (64*j_outer + x_dim_0 < n) {
                // x_tile_rule
                x_tile[x_dim_0] = x[64*j_outer + x_dim_0];
            }
        }
        if (64*j_outer + 64 <= n) {  // a full tile
            const int y_dim_0 = lid(0);
            // y_tile_rule
            y_tile[y_dim_0] = y[64*j_outer + y_dim_0];
        } else {
            const int y_dim_0 = lid(0);
            if (64*j_outer + y_dim_0 < n) {
                // y_tile_rule
                y_tile[y_dim_0] = y[64*j_outer + y_dim_0];
            }
        }
        if (64*j_outer + 64 <= n) {  // a full tile
            const int z_dim_0 = lid(0);
            // z_tile_rule
            z_tile[z_dim_0] = z[64*j_outer + z_dim_0];
        } else {
            const int z_dim_0 = lid(0);
            if (64*j_outer + z_dim_0 < n) {
                // z_tile_rule
                z_tile[z_dim_0] = z[64*j_outer + z_dim_0];
            }
        }
        if (64*j_outer + 64 <= n) {  // a full tile
            const int q_dim_0 = lid(0);
            // q_tile_rule
            q_tile[q_dim_0] = q[64*j_outer + q_dim_0];
        } else {
            const int q_dim_0 = lid(0);
            if (64*j_outer + q_dim_0 < n) {
                // q_tile_rule
                q_tile[q_dim_0] = q[64*j_outer + q_dim_0];
            }
        }
        // x_tile: x_tile_rule writes, insn_2.j.update reads
        // y_tile: y_tile_rule writes, insn_2.j.update reads
        // z_tile: z_tile_rule writes, insn_2.j.update reads
        // q_tile: q_tile_rule writes, insn_2.j.update reads
        barrier(CLK_LOCAL_MEM_FENCE);
        if (64*i_outer + i_inner < n) {
            for (int j_inner = 0; j_inner < min(64, n - 64*j_outer); ++j_inner) {
                // insn_2.j.update
                acc_j += q_tile[j_inner]*rsqrt(power2_f32(x_tile[j_inner] - xi) +
                        power2_f32(y_tile[j_inner] - yi) + power2_f32(z_tile[j_inner] - zi) + 0.01f);
            }
        }
        // x_tile: insn_2.j.update reads, x_tile_rule overwrites
        // y_tile: insn_2.j.update reads, y_tile_rule overwrites
        // z_tile: insn_2.j.update reads, z_tile_rule overwrites
        // q_tile: insn_2.j.update reads, q_tile_rule overwrites
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (64*i_outer + i_inner < n) {
        // insn_2
        phi[64*i_outer + i_inner] = acc_j;
    }
}
