// proven: order (37 dependences), in bounds, no read before a write, no races

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

extern "C" __global__ void __launch_bounds__(128)
nbody_0(float *__restrict__ phi, const float *__restrict__ q, const float *__restrict__ x,
    const float *__restrict__ y, const float *__restrict__ z, float *__restrict__ body, const int n)
{
    const int k_outer = blockIdx.x;
    const int k_inner = threadIdx.x;

    if (128*k_outer + 128 <= n) {  // a full tile
        // clear
        phi[128*k_outer + k_inner] = 0.0f;
        alignas(16) float body_vec[4];
        #pragma unroll
        for (int c = 0; c < 4; ++c) {
            // insn
            body_vec[c] = c == 0 ? x[128*k_outer + k_inner] : c == 1 ? y[128*k_outer + k_inner] : c == 2 ?
                    z[128*k_outer + k_inner] : q[128*k_outer + k_inner];
        }
        *reinterpret_cast<float4 *>(&body[512*k_outer + 4*k_inner]) =
                *reinterpret_cast<const float4 *>(body_vec);
    } else if (128*k_outer + k_inner < n) {
        // clear
        phi[128*k_outer + k_inner] = 0.0f;
        alignas(16) float body_vec[4];
        #pragma unroll
        for (int c = 0; c < 4; ++c) {
            // insn
            body_vec[c] = c == 0 ? x[128*k_outer + k_inner] : c == 1 ? y[128*k_outer + k_inner] : c == 2 ?
                    z[128*k_outer + k_inner] : q[128*k_outer + k_inner];
        }
        *reinterpret_cast<float4 *>(&body[512*k_outer + 4*k_inner]) =
                *reinterpret_cast<const float4 *>(body_vec);
    }
}

extern "C" __global__ void __launch_bounds__(128)
nbody_1(float *__restrict__ phi, const float *q, const float *x, const float *y, const float *z,
    const float *body, const int n)
{
    const int i_outer = blockIdx.x;
    const int i_warp = threadIdx.y;
    const int j_lane = threadIdx.x;
    float xi[8];
    float yi[8];
    float zi[8];
    float qi[8];
    float phi_buf_0[8];
    float other[4];
    float root;
    float phi_buf;

    if (32*i_outer + 32 <= n) {  // a full tile
        #pragma unroll
        for (int i_item = 0; i_item < 8; ++i_item) {
            // insn_0
            xi[i_item] = x[32*i_outer + 8*i_warp + i_item];
            // insn_1
            yi[i_item] = y[32*i_outer + 8*i_warp + i_item];
            // insn_2
            zi[i_item] = z[32*i_outer + 8*i_warp + i_item];
            // insn_3
            qi[i_item] = q[32*i_outer + 8*i_warp + i_item];
        }
        #pragma unroll
        for (int phi_init_0 = 0; phi_init_0 < 8; ++phi_init_0) {
            // init_phi_0
            phi_buf_0[phi_init_0] = 0.0f;
        }
        if (32*i_outer + 64 <= 32*(i_outer % 2) + n) {
            const int j_outer_first = i_outer / 2;
            #pragma unroll
            for (int j_item = 0; j_item < 2; ++j_item) {
                alignas(16) float body_vec[4];
                *reinterpret_cast<float4 *>(body_vec) =
                        *reinterpret_cast<const float4 *>(&body[4*j_lane + 128*j_item + 256*j_outer_first]);
                #pragma unroll
                for (int part = 0; part < 4; ++part) {
                    // other_rule_first
                    other[part] = body_vec[part];
                }
                #pragma unroll
                for (int i_item = 0; i_item < 8; ++i_item) {
                    // insn_4_first
                    root = rsqrt_normal_f32(0.01f + power2_f32(other[0] - xi[i_item]) +
                            power2_f32(other[1] - yi[i_item]) + power2_f32(other[2] - zi[i_item]));
                    // at_i_first
                    phi_buf_0[i_item] += other[3]*root;
                }
            }
        } else {
            const int j_outer_first = i_outer / 2;
            #pragma unroll
            for (int j_item = 0; j_item < 2; ++j_item) {
                if (32*j_item + 32*i_outer + j_lane < n) {
                    alignas(16) float body_vec[4];
                    *reinterpret_cast<float4 *>(body_vec) =
                            *reinterpret_cast<const float4 *>(&body[4*j_lane + 128*j_item +
                                256*j_outer_first]);
                    #pragma unroll
                    for (int part = 0; part < 4; ++part) {
                        // other_rule_first
                        other[part] = body_vec[part];
                    }
                    #pragma unroll
                    for (int i_item = 0; i_item < 8; ++i_item) {
                        // insn_4_first
                        root = rsqrt_normal_f32(0.01f + power2_f32(other[0] - xi[i_item]) +
                                power2_f32(other[1] - yi[i_item]) + power2_f32(other[2] - zi[i_item]));
                        // at_i_first
                        phi_buf_0[i_item] += other[3]*root;
                    }
                }
            }
        }
        for (int j_outer = i_outer / 2 + 1; j_outer < n / 64; ++j_outer) {
            #pragma unroll
            for (int j_item = 0; j_item < 2; ++j_item) {
                alignas(16) float body_vec[4];
                *reinterpret_cast<float4 *>(body_vec) =
                        *reinterpret_cast<const float4 *>(&body[4*j_lane + 128*j_item + 256*j_outer]);
                #pragma unroll
                for (int part = 0; part < 4; ++part) {
                    // other_rule
                    other[part] = body_vec[part];
                }
                // init_phi
                phi_buf = 0.0f;
                #pragma unroll
                for (int i_item = 0; i_item < 8; ++i_item) {
                    // insn_4
                    root = rsqrt_normal_f32(0.01f + power2_f32(other[0] - xi[i_item]) +
                            power2_f32(other[1] - yi[i_item]) + power2_f32(other[2] - zi[i_item]));
                    // at_i
                    phi_buf_0[i_item] += other[3]*root;
                    // at_j
                    phi_buf += qi[i_item]*root;
                }
                // store_phi
                atomicAdd(&phi[j_lane + 32*j_item + 64*j_outer], phi_buf);
            }
        }
        if ((32*i_outer + 96 <= n && j_lane < (n + 64) % 64) ||
                (n <= 32*i_outer + 95 && 32*((i_outer + 1) % 2) + 32*i_outer + j_lane + 32 < n)) {
            const int j_outer = n / 64;
            #pragma unroll
            for (int j_item = 0; j_item < 2; ++j_item) {
                if (64*j_outer + 32*j_item + j_lane < n) {
                    alignas(16) float body_vec[4];
                    *reinterpret_cast<float4 *>(body_vec) =
                            *reinterpret_cast<const float4 *>(&body[4*j_lane + 128*j_item + 256*j_outer]);
                    #pragma unroll
                    for (int part = 0; part < 4; ++part) {
                        // other_rule
                        other[part] = body_vec[part];
                    }
                    // init_phi
                    phi_buf = 0.0f;
                    #pragma unroll
                    for (int i_item = 0; i_item < 8; ++i_item) {
                        // insn_4
                        root = rsqrt_normal_f32(0.01f + power2_f32(other[0] - xi[i_item]) +
                                power2_f32(other[1] - yi[i_item]) + power2_f32(other[2] - zi[i_item]));
                        // at_i
                        phi_buf_0[i_item] += other[3]*root;
                        // at_j
                        phi_buf += qi[i_item]*root;
                    }
                    // store_phi
                    atomicAdd(&phi[j_lane + 32*j_item + 64*j_outer], phi_buf);
                }
            }
        }
        #pragma unroll
        for (int phi_store_0 = 0; phi_store_0 < 8; ++phi_store_0) {
            // store_phi_0
            atomicAdd(&phi[8*i_warp + 32*i_outer + phi_store_0], phi_buf_0[phi_store_0]);
        }
    } else {
        if (32*i_outer + 8*i_warp < n) {
            #pragma unroll
            for (int i_item = 0; i_item < 8; ++i_item) {
                if (32*i_outer + 8*i_warp + i_item < n) {
                    // insn_0
                    xi[i_item] = x[32*i_outer + 8*i_warp + i_item];
                    // insn_1
                    yi[i_item] = y[32*i_outer + 8*i_warp + i_item];
                    // insn_2
                    zi[i_item] = z[32*i_outer + 8*i_warp + i_item];
                    // insn_3
                    qi[i_item] = q[32*i_outer + 8*i_warp + i_item];
                }
            }
            if (32*((i_outer + 1) % 2) + 32*i_outer + j_lane <= n + 31) {
                #pragma unroll
                for (int phi_init_0 = 0; phi_init_0 < 8; ++phi_init_0) {
                    if (32*i_outer + 8*i_warp + phi_init_0 < n) {
                        // init_phi_0
                        phi_buf_0[phi_init_0] = 0.0f;
                    }
                }
            }
            if (32*i_outer + j_lane < 32*(i_outer % 2) + n) {
                const int j_outer_first = i_outer / 2;
                #pragma unroll
                for (int j_item = 0; j_item < 2; ++j_item) {
                    if (64*j_outer_first + 32*j_item + j_lane < n) {
                        alignas(16) float body_vec[4];
                        *reinterpret_cast<float4 *>(body_vec) =
                                *reinterpret_cast<const float4 *>(&body[4*j_lane + 128*j_item +
                                    256*j_outer_first]);
                        #pragma unroll
                        for (int part = 0; part < 4; ++part) {
                            // other_rule_first
                            other[part] = body_vec[part];
                        }
                        #pragma unroll
                        for (int i_item = 0; i_item < 8; ++i_item) {
                            if (32*i_outer + 8*i_warp + i_item < n) {
                                // insn_4_first
                                root = rsqrt_normal_f32(0.01f + power2_f32(other[0] - xi[i_item]) +
                                        power2_f32(other[1] - yi[i_item]) +
                                        power2_f32(other[2] - zi[i_item]));
                                // at_i_first
                                phi_buf_0[i_item] += other[3]*root;
                            }
                        }
                    }
                }
            }
        }
        for (int j_outer = i_outer / 2 + 1; j_outer < (-j_lane + n + 63) / 64; ++j_outer) {
            #pragma unroll
            for (int j_item = 0; j_item < 2; ++j_item) {
                if (64*j_outer + 32*j_item + j_lane < n) {
                    alignas(16) float body_vec[4];
                    *reinterpret_cast<float4 *>(body_vec) =
                            *reinterpret_cast<const float4 *>(&body[4*j_lane + 128*j_item + 256*j_outer]);
                    #pragma unroll
                    for (int part = 0; part < 4; ++part) {
                        // other_rule
                        other[part] = body_vec[part];
                    }
                    // init_phi
                    phi_buf = 0.0f;
                    #pragma unroll
                    for (int i_item = 0; i_item < 8; ++i_item) {
                        // insn_4
                        root = rsqrt_normal_f32(0.01f + power2_f32(other[0] - xi[i_item]) +
                                power2_f32(other[1] - yi[i_item]) + power2_f32(other[2] - zi[i_item]));
                        // at_i
                        phi_buf_0[i_item] += other[3]*root;
                        // at_j
                        phi_buf += qi[i_item]*root;
                    }
                    // store_phi
                    atomicAdd(&phi[j_lane + 32*j_item + 64*j_outer], phi_buf);
                }
            }
        }
        if (32*i_outer + 8*i_warp < n) {
            if (32*((i_outer + 1) % 2) + 32*i_outer + j_lane <= n + 31) {
                #pragma unroll
                for (int phi_store_0 = 0; phi_store_0 < 8; ++phi_store_0) {
                    if (32*i_outer + 8*i_warp + phi_store_0 < n) {
                        // store_phi_0
                        atomicAdd(&phi[8*i_warp + 32*i_outer + phi_store_0], phi_buf_0[phi_store_0]);
                    }
                }
            }
        }
    }
}
