// proven: order (11 dependences), in bounds, no read before a write, no races; barriers: 2, each needed

__device__ __forceinline__ float power2_f32(float x)
{
    return x*x;
}
// rsqrtf of a number that is not subnormal, for which it would test, and scale: the same bits
__device__ __forceinline__ float rsqrt_normal_f32(float x)
{
    float result;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

extern "C" __global__ void __launch_bounds__(64)
nbody(float *__restrict__ phi, const float *__restrict__ q, const float *__restrict__ x,
    const float *__restrict__ y, const float *__restrict__ z, const int n)
{
    const int i_outer = blockIdx.x;
    const int i_inner = threadIdx.x;
    float xi;
    float yi;
    float zi;
    float acc_j;
    __shared__ float x_tile[64];
    __shared__ float y_tile[64];
    __shared__ float z_tile[64];
    __shared__ float q_tile[64];

    if (64*i_outer + 64 <= n) {  // a full tile
        // insn
        xi = x[64*i_outer + i_inner];
        // insn_0
        yi = y[64*i_outer + i_inner];
        // insn_1
        zi = z[64*i_outer + i_inner];
        // insn_2.j.init
        acc_j = 0.0f;
        for (int j_outer = 0; j_outer < n / 64; ++j_outer) {
            const int x_dim_0 = threadIdx.x;
            // x_tile_rule
            x_tile[x_dim_0] = x[64*j_outer + x_dim_0];
            const int y_dim_0 = threadIdx.x;
            // y_tile_rule
            y_tile[y_dim_0] = y[64*j_outer + y_dim_0];
            const int z_dim_0 = threadIdx.x;
            // z_tile_rule
            z_tile[z_dim_0] = z[64*j_outer + z_dim_0];
            const int q_dim_0 = threadIdx.x;
            // q_tile_rule
            q_tile[q_dim_0] = q[64*j_outer + q_dim_0];
            // x_tile: x_tile_rule writes, insn_2.j.update reads
            // y_tile: y_tile_rule writes, insn_2.j.update reads
            // z_tile: z_tile_rule writes, insn_2.j.update reads
            // q_tile: q_tile_rule writes, insn_2.j.update reads
            __syncthreads();
            for (int j_inner = 0; j_inner < 64; ++j_inner) {
                // insn_2.j.update
                acc_j += q_tile[j_inner]*rsqrt_normal_f32(power2_f32(x_tile[j_inner] - xi) +
                        power2_f32(y_tile[j_inner] - yi) + power2_f32(z_tile[j_inner] - zi) + 0.01f);
            }
            // x_tile: insn_2.j.update reads, x_tile_rule overwrites
            // y_tile: insn_2.j.update reads, y_tile_rule overwrites
            // z_tile: insn_2.j.update reads, z_tile_rule overwrites
            // q_tile: insn_2.j.update reads, q_tile_rule overwrites
            __syncthreads();
        }
        if (n % 64 != 0) {
            const int j_outer = (n - 1) / 64;
            const int x_dim_0 = threadIdx.x;
            if (64*j_outer + x_dim_0 < n) {
                // x_tile_rule
                x_tile[x_dim_0] = x[64*j_outer + x_dim_0];
            }
            const int y_dim_0 = threadIdx.x;
            if (64*j_outer + y_dim_0 < n) {
                // y_tile_rule
                y_tile[y_dim_0] = y[64*j_outer + y_dim_0];
            }
            const int z_dim_0 = threadIdx.x;
            if (64*j_outer + z_dim_0 < n) {
                // z_tile_rule
                z_tile[z_dim_0] = z[64*j_outer + z_dim_0];
            }
            const int q_dim_0 = threadIdx.x;
            if (64*j_outer + q_dim_0 < n) {
                // q_tile_rule
                q_tile[q_dim_0] = q[64*j_outer + q_dim_0];
            }
            // x_tile: x_tile_rule writes, insn_2.j.update reads
            // y_tile: y_tile_rule writes, insn_2.j.update reads
            // z_tile: z_tile_rule writes, insn_2.j.update reads
            // q_tile: q_tile_rule writes, insn_2.j.update reads
            __syncthreads();
            for (int j_inner = 0; j_inner < n - 64*j_outer; ++j_inner) {
                // insn_2.j.update
                acc_j += q_tile[j_inner]*rsqrt_normal_f32(power2_f32(x_tile[j_inner] - xi) +
                        power2_f32(y_tile[j_inner] - yi) + power2_f32(z_tile[j_inner] - zi) + 0.01f);
            }
        }
        // insn_2
        phi[64*i_outer + i_inner] = acc_j;
    } else {
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
            const int x_dim_0 = threadIdx.x;
            if (64*j_outer + x_dim_0 < n) {
                // x_tile_rule
                x_tile[x_dim_0] = x[64*j_outer + x_dim_0];
            }
            const int y_dim_0 = threadIdx.x;
            if (64*j_outer + y_dim_0 < n) {
                // y_tile_rule
                y_tile[y_dim_0] = y[64*j_outer + y_dim_0];
            }
            const int z_dim_0 = threadIdx.x;
            if (64*j_outer + z_dim_0 < n) {
                // z_tile_rule
                z_tile[z_dim_0] = z[64*j_outer + z_dim_0];
            }
            const int q_dim_0 = threadIdx.x;
            if (64*j_outer + q_dim_0 < n) {
                // q_tile_rule
                q_tile[q_dim_0] = q[64*j_outer + q_dim_0];
            }
            // x_tile: x_tile_rule writes, insn_2.j.update reads
            // y_tile: y_tile_rule writes, insn_2.j.update reads
            // z_tile: z_tile_rule writes, insn_2.j.update reads
            // q_tile: q_tile_rule writes, insn_2.j.update reads
            __syncthreads();
            if (64*i_outer + i_inner < n) {
                for (int j_inner = 0; j_inner < min(64, n - 64*j_outer); ++j_inner) {
                    // insn_2.j.update
                    acc_j += q_tile[j_inner]*rsqrt_normal_f32(power2_f32(x_tile[j_inner] - xi) +
                            power2_f32(y_tile[j_inner] - yi) + power2_f32(z_tile[j_inner] - zi) + 0.01f);
                }
            }
            // x_tile: insn_2.j.update reads, x_tile_rule overwrites
            // y_tile: insn_2.j.update reads, y_tile_rule overwrites
            // z_tile: insn_2.j.update reads, z_tile_rule overwrites
            // q_tile: insn_2.j.update reads, q_tile_rule overwrites
            __syncthreads();
        }
        if (64*i_outer + i_inner < n) {
            // insn_2
            phi[64*i_outer + i_inner] = acc_j;
        }
    }
}
