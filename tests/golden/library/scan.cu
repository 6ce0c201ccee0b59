// proven: order (67 dependences), in bounds, no read before a write, no races; barriers: 2, each needed
// vector accesses: x, y at multiples of 16 bytes, row by row; other calls run a text without them

// a value that one block passes to another: 4 bytes of it in each word, below a flag that is set once they are there
template <typename T> struct flagged {
    using type = T;
    static constexpr int count = (sizeof(T) + 3) / 4;
    unsigned long long words[count];
};
template <typename T> __device__ __forceinline__ void store_with_flag(flagged<T> *to, typename flagged<T>::type value)
{
    unsigned int parts[flagged<T>::count] = {};
    memcpy(parts, &value, sizeof(T));
    for (int i = 0; i < flagged<T>::count; ++i)
        asm volatile("st.relaxed.gpu.global.u64 [%0], %1;"
                     :: "l"(&to->words[i]), "l"(1ull << 32 | parts[i]) : "memory");
}
template <typename T> __device__ __forceinline__ T wait_for(const flagged<T> *from)
{
    unsigned int parts[flagged<T>::count];
    for (int i = 0; i < flagged<T>::count; ++i) {
        unsigned long long word;
        do
            asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(&from->words[i]) : "memory");
        while (word >> 32 == 0);
        parts[i] = word;
    }
    T value;
    memcpy(&value, parts, sizeof(T));
    return value;
}
// the number of this block among those of the launch, in the order in which they start
__device__ __forceinline__ unsigned int take_ticket(unsigned int *started)
{
    __shared__ unsigned int number;
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0)
        number = atomicAdd(started, 1);
    __syncthreads();
    return number;
}

extern "C" __global__ void __launch_bounds__(128)
scan(const float *__restrict__ x, float *__restrict__ y, flagged<float> *__restrict__ sums,
    flagged<float> *__restrict__ groups, flagged<float> *__restrict__ before,
    unsigned int *__restrict__ scan_started, const int n)
{
    const unsigned int block = take_ticket(scan_started);
    const int b = block;
    const int w = threadIdx.y;
    const int l = threadIdx.x;
    const int f = threadIdx.y;
    const int q = threadIdx.x;
    const int c = threadIdx.x;
    float kept[16][4];
    float acc_e;
    float own[16];
    float acc_r_l;
    float acc_r_l_all;
    __shared__ float warp[4];
    float acc_a;
    float tile[1];
    float acc_o;
    float row[16];
    float above;
    float acc_l;
    float acc_l_all;
    float acc_h;
    float acc_h_all;
    float left[16];
    float acc_q;
    float acc_q_all;
    float near;
    float acc_c;
    float acc_c_all;
    float far;
    float acc_z;
    __shared__ float base[1];
    float acc_p;
    float start;
    float first;
    float acc_k;
    float done[16][4];
    float acc_r_l_warp{};  // combined by shuffles in rows of 32
    float acc_l_warp{};  // combined by shuffles in rows of 32
    float acc_h_warp{}, acc_h_warp_other;  // scanned by shuffles in warps
    float acc_h_warp_1{}, acc_h_warp_1_other;
    float acc_h_warp_2{}, acc_h_warp_2_other;
    float acc_h_warp_3{}, acc_h_warp_3_other;
    float acc_h_warp_4{}, acc_h_warp_4_other;
    float acc_h_warp_5{}, acc_h_warp_5_other;
    float acc_h_warp_6{};
    float acc_q_warp{};  // combined by shuffles in rows of 32
    float acc_c_warp{};  // combined by shuffles in rows of 32

    if (8192*b + 2048*w + 4*l < n) {
        if (8192*b + 8192 <= n) {  // a full tile
            #pragma unroll
            for (int u = 0; u < 16; ++u) {
                alignas(16) float x_vec[4];
                *reinterpret_cast<float4 *>(x_vec) =
                        *reinterpret_cast<const float4 *>(&x[8192*b + 2048*w + 128*u + 4*l]);
                #pragma unroll
                for (int v = 0; v < 4; ++v) {
                    // load
                    kept[u][v] = x_vec[v];
                }
            }
        } else {
            #pragma unroll
            for (int u = 0; u < 16; ++u) {
                #pragma unroll
                for (int v = 0; v < 4; ++v) {
                    if (8192*b + 2048*w + 128*u + 4*l + v < n) {
                        // load
                        kept[u][v] = x[8192*b + 2048*w + 128*u + 4*l + v];
                    }
                }
            }
        }
    }
    if (8192*b + 8192 <= n) {  // a full tile
        #pragma unroll
        for (int u = 0; u < 16; ++u) {
            // own.e.init
            acc_e = 0.0f;
            #pragma unroll
            for (int e = 0; e < 4; ++e) {
                // own.e.update
                acc_e += kept[u][e];
            }
            // own
            own[u] = acc_e;
        }
    } else {
        #pragma unroll
        for (int u = 0; u < 16; ++u) {
            // own.e.init
            acc_e = 0.0f;
            if (8192*b + 2048*w + 128*u + 4*l < n) {
                if (8192*b + 8192 <= n) {  // a full tile
                    #pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        // own.e.update
                        acc_e += kept[u][e];
                    }
                } else {
                    #pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        if (8192*b + 2048*w + 128*u + 4*l + e < n) {
                            // own.e.update
                            acc_e += kept[u][e];
                        }
                    }
                }
            }
            // own
            own[u] = acc_e;
        }
    }
    // warp.r_l.init
    acc_r_l = 0.0f;
    #pragma unroll
    for (int r = 0; r < 16; ++r) {
        // warp.r_l.update
        acc_r_l += own[r];
    }
    // warp.r_l.store ... warp.r_l.result: shuffles combine acc_r_l of 32 lanes; all of them get the result
    acc_r_l_warp = acc_r_l;
    acc_r_l_warp = __fadd_rn(acc_r_l_warp, __shfl_xor_sync(0xffffffff, acc_r_l_warp, 16));
    acc_r_l_warp += __shfl_xor_sync(0xffffffff, acc_r_l_warp, 8);
    acc_r_l_warp += __shfl_xor_sync(0xffffffff, acc_r_l_warp, 4);
    acc_r_l_warp += __shfl_xor_sync(0xffffffff, acc_r_l_warp, 2);
    acc_r_l_warp += __shfl_xor_sync(0xffffffff, acc_r_l_warp, 1);
    acc_r_l_all = acc_r_l_warp;
    if ((int)threadIdx.x == 0) {
        // warp
        warp[w] = acc_r_l_all;
    }
    if (f == 0) {
        // tile.a.init
        acc_a = 0.0f;
    }
    // warp: warp writes, tile.a.update reads
    // warp: warp writes, start.p.update reads
    __syncthreads();
    if (f == 0) {
        #pragma unroll
        for (int a = 0; a < 4; ++a) {
            // tile.a.update
            acc_a += warp[a];
        }
        // tile
        tile[f] = acc_a;
    }
    if ((int)threadIdx.x == 0 && f == 0) {
        // sums
        store_with_flag(&sums[f*((n + 8191) / 8192) + b], tile[f]);
    }
    // above.o.init
    acc_o = 0.0f;
    #pragma unroll
    for (int u = 0; u < 16; ++u) {
        if (1 <= u) {
            // above.o.update
            acc_o += row[u - 1];
        }
        // above
        above = acc_o;
        // row.l.init
        acc_l = 0.0f;
        // row.l.update
        acc_l += own[u];
        // row.l.store ... row.l.result: shuffles combine acc_l of 32 lanes; all of them get the result
        acc_l_warp = acc_l;
        acc_l_warp = __fadd_rn(acc_l_warp, __shfl_xor_sync(0xffffffff, acc_l_warp, 16));
        acc_l_warp += __shfl_xor_sync(0xffffffff, acc_l_warp, 8);
        acc_l_warp += __shfl_xor_sync(0xffffffff, acc_l_warp, 4);
        acc_l_warp += __shfl_xor_sync(0xffffffff, acc_l_warp, 2);
        acc_l_warp += __shfl_xor_sync(0xffffffff, acc_l_warp, 1);
        acc_l_all = acc_l_warp;
        // row
        row[u] = acc_l_all;
        // left.h.init
        acc_h = 0.0f;
        if (l <= 30) {
            // left.h.update
            acc_h += own[u];
        }
        // left.h.store ... left.h.shift: shuffles combine acc_h of the lanes before each one, among 32 lanes
        acc_h_warp = acc_h;
        acc_h_warp_1 = acc_h_warp;
        acc_h_warp_other = __shfl_up_sync(0xffffffff, acc_h_warp, 1);
        if (1 <= l) {
            acc_h_warp_1 += acc_h_warp_other;
        }
        acc_h_warp_2 = acc_h_warp_1;
        acc_h_warp_1_other = __shfl_up_sync(0xffffffff, acc_h_warp_1, 2);
        if (2 <= l) {
            acc_h_warp_2 += acc_h_warp_1_other;
        }
        acc_h_warp_3 = acc_h_warp_2;
        acc_h_warp_2_other = __shfl_up_sync(0xffffffff, acc_h_warp_2, 4);
        if (4 <= l) {
            acc_h_warp_3 += acc_h_warp_2_other;
        }
        acc_h_warp_4 = acc_h_warp_3;
        acc_h_warp_3_other = __shfl_up_sync(0xffffffff, acc_h_warp_3, 8);
        if (8 <= l) {
            acc_h_warp_4 += acc_h_warp_3_other;
        }
        acc_h_warp_5 = acc_h_warp_4;
        acc_h_warp_4_other = __shfl_up_sync(0xffffffff, acc_h_warp_4, 16);
        if (16 <= l) {
            acc_h_warp_5 += acc_h_warp_4_other;
        }
        acc_h_warp_6 = 0.0f;
        acc_h_warp_5_other = __shfl_up_sync(0xffffffff, acc_h_warp_5, 1);
        if (1 <= l) {
            acc_h_warp_6 = acc_h_warp_5_other;
        }
        // left.h.result
        acc_h_all = acc_h_warp_6;
        // left
        left[u] = above + acc_h_all;
    }
    if (f == 0) {
        // near.q.init
        acc_q = 0.0f;
    }
    if (f == 0 && q < b % 33) {
        // near.q.update
        acc_q += wait_for(&sums[f*((n + 8191) / 8192) + 33*(b / 33) + q]);
    }
    if (f == 0) {
        // near.q.store ... near.q.result: shuffles combine acc_q of 32 lanes; all of them get the result
        acc_q_warp = acc_q;
    }
    acc_q_warp = __fadd_rn(acc_q_warp, __shfl_xor_sync(0xffffffff, acc_q_warp, 16));
    acc_q_warp += __shfl_xor_sync(0xffffffff, acc_q_warp, 8);
    acc_q_warp += __shfl_xor_sync(0xffffffff, acc_q_warp, 4);
    acc_q_warp += __shfl_xor_sync(0xffffffff, acc_q_warp, 2);
    acc_q_warp += __shfl_xor_sync(0xffffffff, acc_q_warp, 1);
    if (f == 0) {
        acc_q_all = acc_q_warp;
    }
    if (f == 0) {
        // near
        near = acc_q_all;
        if ((int)threadIdx.x == 0 && (b + 1) % 33 == 0) {
            const int g = (b - 32) / 33;
            // groups
            store_with_flag(&groups[g], near + tile[f]);
        }
        // far.c.init
        acc_c = 0.0f;
        if (33*c + 33 <= b % 1089) {
            // far.c.update
            acc_c += wait_for(&groups[33*(b / 1089) + c]);
        }
        // far.c.store ... far.c.result: shuffles combine acc_c of 32 lanes; all of them get the result
        acc_c_warp = acc_c;
    }
    acc_c_warp = __fadd_rn(acc_c_warp, __shfl_xor_sync(0xffffffff, acc_c_warp, 16));
    acc_c_warp += __shfl_xor_sync(0xffffffff, acc_c_warp, 8);
    acc_c_warp += __shfl_xor_sync(0xffffffff, acc_c_warp, 4);
    acc_c_warp += __shfl_xor_sync(0xffffffff, acc_c_warp, 2);
    acc_c_warp += __shfl_xor_sync(0xffffffff, acc_c_warp, 1);
    if (f == 0) {
        acc_c_all = acc_c_warp;
    }
    if (f == 0) {
        // far
        far = acc_c_all;
        // base.z.init
        acc_z = 0.0f;
        if (1089 <= b) {
            const int z = b / 1089 - 1;
            // base.z.update
            acc_z += wait_for(&before[z]);
        }
        if ((int)threadIdx.x == 0) {
            // base
            base[f] = acc_z + far + near;
            if ((b + 1) % 1089 == 0) {
                const int s = (b - 1088) / 1089;
                // before
                store_with_flag(&before[s], base[f] + tile[f]);
            }
        }
    }
    // start.p.init
    acc_p = 0.0f;
    if (1 <= w) {
        #pragma unroll
        for (int p = 0; p < 3; ++p) {
            if (p < w) {
                // start.p.update
                acc_p += warp[p];
            }
        }
    }
    // base: base writes, start reads
    __syncthreads();
    // start
    start = base[0] + acc_p;
    if (8192*b + 8192 <= n) {  // a full tile
        #pragma unroll
        for (int u = 0; u < 16; ++u) {
            // first
            first = start + left[u];
            // done.k.init
            acc_k = 0.0f;
            #pragma unroll
            for (int e = 0; e < 4; ++e) {
                // done.k.update
                acc_k += kept[u][e];
                // done
                done[u][e] = first + acc_k;
            }
        }
    } else {
        #pragma unroll
        for (int u = 0; u < 16; ++u) {
            // first
            first = start + left[u];
            if (8192*b + 2048*w + 128*u + 4*l < n) {
                // done.k.init
                acc_k = 0.0f;
                if (8192*b + 8192 <= n) {  // a full tile
                    #pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        // done.k.update
                        acc_k += kept[u][e];
                        // done
                        done[u][e] = first + acc_k;
                    }
                } else {
                    #pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        if (8192*b + 2048*w + 128*u + 4*l + e < n) {
                            // done.k.update
                            acc_k += kept[u][e];
                            // done
                            done[u][e] = first + acc_k;
                        }
                    }
                }
            }
        }
    }
    if (8192*b + 2048*w + 4*l < n) {
        if (8192*b + 8192 <= n) {  // a full tile
            #pragma unroll
            for (int u = 0; u < 16; ++u) {
                alignas(16) float y_vec[4];
                #pragma unroll
                for (int v = 0; v < 4; ++v) {
                    // store
                    y_vec[v] = done[u][v];
                }
                *reinterpret_cast<float4 *>(&y[8192*b + 2048*w + 128*u + 4*l]) =
                        *reinterpret_cast<const float4 *>(y_vec);
            }
        } else {
            #pragma unroll
            for (int u = 0; u < 16; ++u) {
                #pragma unroll
                for (int v = 0; v < 4; ++v) {
                    if (8192*b + 2048*w + 128*u + 4*l + v < n) {
                        // store
                        y[8192*b + 2048*w + 128*u + 4*l + v] = done[u][v];
                    }
                }
            }
        }
    }
}
