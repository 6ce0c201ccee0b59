#include <math.h>
static inline int min_i32(int a, int b)
{
    return b < a ? b : a;
}
static inline float power2_f32(float x)
{
    return x*x;
}
static inline float rsqrt_f32(float x)
{
    return 1 / sqrtf(x);
}

void nbody(float *restrict phi, const float *restrict q, const float *restrict x, const float *restrict y,
    const float *restrict z, const int n)
{
    #pragma omp parallel for if(4352LL*((n + 63) / 64)*(n / 64 + 1) >= 32768)
    for (int g0_ = 0; g0_ < (n + 63) / 64; ++g0_) {
        const int i_outer = g0_;
        float xi[64];
        float yi[64];
        float zi[64];
        float acc_j[64];
        float x_tile[64];
        float y_tile[64];
        float z_tile[64];
        float q_tile[64];

        if (64*i_outer + 64 <= n) {  // a full tile
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i_inner = l0_;
                // insn
                xi[l0_] = x[64*i_outer + i_inner];
                // insn_0
                yi[l0_] = y[64*i_outer + i_inner];
                // insn_1
                zi[l0_] = z[64*i_outer + i_inner];
                // insn_2.j.init
                acc_j[l0_] = 0.0f;
            }
            for (int j_outer = 0; j_outer < n / 64; ++j_outer) {
                for (int l0_ = 0; l0_ < 64; ++l0_) {
                    const int x_dim_0 = l0_;
                    // x_tile_rule
                    x_tile[x_dim_0] = x[64*j_outer + x_dim_0];
                    const int y_dim_0 = l0_;
                    // y_tile_rule
                    y_tile[y_dim_0] = y[64*j_outer + y_dim_0];
                    const int z_dim_0 = l0_;
                    // z_tile_rule
                    z_tile[z_dim_0] = z[64*j_outer + z_dim_0];
                    const int q_dim_0 = l0_;
                    // q_tile_rule
                    q_tile[q_dim_0] = q[64*j_outer + q_dim_0];
                }
                // barrier: the threads' loops end here
                // x_tile: x_tile_rule writes, insn_2.j.update reads
                // y_tile: y_tile_rule writes, insn_2.j.update reads
                // z_tile: z_tile_rule writes, insn_2.j.update reads
                // q_tile: q_tile_rule writes, insn_2.j.update reads
                for (int l0_ = 0; l0_ < 64; ++l0_) {
                    for (int j_inner = 0; j_inner < 64; ++j_inner) {
                        // insn_2.j.update
                        acc_j[l0_] +=
                                q_tile[j_inner]*rsqrt_f32(power2_f32(x_tile[j_inner] - xi[l0_]) +
                                power2_f32(y_tile[j_inner] - yi[l0_]) +
                                power2_f32(z_tile[j_inner] - zi[l0_]) + 0.01f);
                    }
                }
                // barrier: the threads' loops end here
                // x_tile: insn_2.j.update reads, x_tile_rule overwrites
                // y_tile: insn_2.j.update reads, y_tile_rule overwrites
                // z_tile: insn_2.j.update reads, z_tile_rule overwrites
                // q_tile: insn_2.j.update reads, q_tile_rule overwrites
            }
            if (n % 64 != 0) {
                const int j_outer = (n - 1) / 64;
                for (int l0_ = 0; l0_ < 64; ++l0_) {
                    const int x_dim_0 = l0_;
                    if (64*j_outer + x_dim_0 < n) {
                        // x_tile_rule
                        x_tile[x_dim_0] = x[64*j_outer + x_dim_0];
                    }
                    const int y_dim_0 = l0_;
                    if (64*j_outer + y_dim_0 < n) {
                        // y_tile_rule
                        y_tile[y_dim_0] = y[64*j_outer + y_dim_0];
                    }
                    const int z_dim_0 = l0_;
                    if (64*j_outer + z_dim_0 < n) {
                        // z_tile_rule
                        z_tile[z_dim_0] = z[64*j_outer + z_dim_0];
                    }
                    const int q_dim_0 = l0_;
                    if (64*j_outer + q_dim_0 < n) {
                        // q_tile_rule
                        q_tile[q_dim_0] = q[64*j_outer + q_dim_0];
                    }
                }
                // barrier: the threads' loops end here
                // x_tile: x_tile_rule writes, insn_2.j.update reads
                // y_tile: y_tile_rule writes, insn_2.j.update reads
                // z_tile: z_tile_rule writes, insn_2.j.update reads
                // q_tile: q_tile_rule writes, insn_2.j.update reads
                for (int l0_ = 0; l0_ < 64; ++l0_) {
                    for (int j_inner = 0; j_inner < n - 64*j_outer; ++j_inner) {
                        // insn_2.j.update
                        acc_j[l0_] +=
                                q_tile[j_inner]*rsqrt_f32(power2_f32(x_tile[j_inner] - xi[l0_]) +
                                power2_f32(y_tile[j_inner] - yi[l0_]) +
                                power2_f32(z_tile[j_inner] - zi[l0_]) + 0.01f);
                    }
                }
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i_inner = l0_;
                // insn_2
                phi[64*i_outer + i_inner] = acc_j[l0_];
            }
        } else {
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i_inner = l0_;
                if (64*i_outer + i_inner < n) {
                    // insn
                    xi[l0_] = x[64*i_outer + i_inner];
                    // insn_0
                    yi[l0_] = y[64*i_outer + i_inner];
                    // insn_1
                    zi[l0_] = z[64*i_outer + i_inner];
                    // insn_2.j.init
                    acc_j[l0_] = 0.0f;
                }
            }
            for (int j_outer = 0; j_outer < (n + 63) / 64; ++j_outer) {
                for (int l0_ = 0; l0_ < 64; ++l0_) {
                    const int x_dim_0 = l0_;
                    if (64*j_outer + x_dim_0 < n) {
                        // x_tile_rule
                        x_tile[x_dim_0] = x[64*j_outer + x_dim_0];
                    }
                    const int y_dim_0 = l0_;
                    if (64*j_outer + y_dim_0 < n) {
                        // y_tile_rule
                        y_tile[y_dim_0] = y[64*j_outer + y_dim_0];
                    }
                    const int z_dim_0 = l0_;
                    if (64*j_outer + z_dim_0 < n) {
                        // z_tile_rule
                        z_tile[z_dim_0] = z[64*j_outer + z_dim_0];
                    }
                    const int q_dim_0 = l0_;
                    if (64*j_outer + q_dim_0 < n) {
                        // q_tile_rule
                        q_tile[q_dim_0] = q[64*j_outer + q_dim_0];
                    }
                }
                // barrier: the threads' loops end here
                // x_tile: x_tile_rule writes, insn_2.j.update reads
                // y_tile: y_tile_rule writes, insn_2.j.update reads
                // z_tile: z_tile_rule writes, insn_2.j.update reads
                // q_tile: q_tile_rule writes, insn_2.j.update reads
                for (int l0_ = 0; l0_ < 64; ++l0_) {
                    const int i_inner = l0_;
                    if (64*i_outer + i_inner < n) {
                        for (int j_inner = 0; j_inner < min_i32(64, n - 64*j_outer); ++j_inner) {
                            // insn_2.j.update
                            acc_j[l0_] +=
                                    q_tile[j_inner]*rsqrt_f32(power2_f32(x_tile[j_inner] - xi[l0_]) +
                                    power2_f32(y_tile[j_inner] - yi[l0_]) +
                                    power2_f32(z_tile[j_inner] - zi[l0_]) + 0.01f);
                        }
                    }
                }
                // barrier: the threads' loops end here
                // x_tile: insn_2.j.update reads, x_tile_rule overwrites
                // y_tile: insn_2.j.update reads, y_tile_rule overwrites
                // z_tile: insn_2.j.update reads, z_tile_rule overwrites
                // q_tile: insn_2.j.update reads, q_tile_rule overwrites
            }
            for (int l0_ = 0; l0_ < 64; ++l0_) {
                const int i_inner = l0_;
                if (64*i_outer + i_inner < n) {
                    // insn_2
                    phi[64*i_outer + i_inner] = acc_j[l0_];
                }
            }
        }
    }
}
