// proven: order (48 dependences), in bounds, no read before a write, no races; barriers: 5, each needed
// vector accesses: x, y at multiples of 16 bytes, row by row; other calls run a text without them

extern "C" __global__ void __launch_bounds__(256)
scan_in_launches_0(const float *__restrict__ x, float *__restrict__ part, const int n)
{
    const int b = blockIdx.x;
    const int j = threadIdx.x;
    float acc_g_u_j_e;
    __shared__ float acc_g_u_j_e_shared[8];
    float acc_g_u_j_e_all;
    float acc_g_u_j_e_warp{};  // combined by shuffles in warps of 32

    // part.g_u_j_e.init
    acc_g_u_j_e = 0.0f;
    for (int g = 0; g < min(8, -8*b + n / 4096); ++g) {
        #pragma unroll
        for (int u = 0; u < 4; ++u) {
            alignas(16) float x_vec[4];
            *reinterpret_cast<float4 *>(x_vec) =
                    *reinterpret_cast<const float4 *>(&x[32768*b + 4096*g + 1024*u + 4*j]);
            #pragma unroll
            for (int e = 0; e < 4; ++e) {
                // part.g_u_j_e.update
                acc_g_u_j_e += x_vec[e];
            }
        }
    }
    if (n <= 32768*b + 32767 && 4*j < (n + 4096) % 4096) {
        const int g = -8*b + n / 4096;
        #pragma unroll
        for (int u = 0; u < 4; ++u) {
            #pragma unroll
            for (int e = 0; e < 4; ++e) {
                if (32768*b + 4096*g + 1024*u + 4*j + e < n) {
                    // part.g_u_j_e.update
                    acc_g_u_j_e += x[32768*b + 4096*g + 1024*u + 4*j + e];
                }
            }
        }
    }
    // part.g_u_j_e.store ... part.g_u_j_e.step4: shuffles combine acc_g_u_j_e of 32 lanes; the first one gets the result
    acc_g_u_j_e_warp = acc_g_u_j_e;
    acc_g_u_j_e_warp += __shfl_down_sync(0xffffffff, acc_g_u_j_e_warp, 16);
    acc_g_u_j_e_warp += __shfl_down_sync(0xffffffff, acc_g_u_j_e_warp, 8);
    acc_g_u_j_e_warp += __shfl_down_sync(0xffffffff, acc_g_u_j_e_warp, 4);
    acc_g_u_j_e_warp += __shfl_down_sync(0xffffffff, acc_g_u_j_e_warp, 2);
    acc_g_u_j_e_warp += __shfl_down_sync(0xffffffff, acc_g_u_j_e_warp, 1);
    if (j % 32 == 0) {
        // part.g_u_j_e.put
        acc_g_u_j_e_shared[j / 32] = acc_g_u_j_e_warp;
    }
    // acc_g_u_j_e_shared: part.g_u_j_e.put writes, part.g_u_j_e.first reads
    // acc_g_u_j_e_shared: part.g_u_j_e.put writes, part.g_u_j_e.rest reads
    __syncthreads();
    // part.g_u_j_e.first
    acc_g_u_j_e_all = acc_g_u_j_e_shared[0];
    #pragma unroll
    for (int warp = 1; warp < 8; ++warp) {
        // part.g_u_j_e.rest
        acc_g_u_j_e_all += acc_g_u_j_e_shared[warp];
    }
    if ((int)threadIdx.x == 0) {
        // part
        part[b] = acc_g_u_j_e_all;
    }
}

extern "C" __global__ void __launch_bounds__(1024)
scan_in_launches_1(const float *__restrict__ part, float *__restrict__ before, const int n)
{
    const int s = threadIdx.x;
    float acc_p;
    float acc_s;
    __shared__ float acc_s_shared[32];
    float acc_s_all;
    float above;
    float offset;
    float acc_d;
    __shared__ float acc_d_shared[31];
    float acc_d_before;
    float acc_d_all;
    float acc_s_warp{};  // combined by shuffles in warps of 32
    float acc_d_warp{}, acc_d_warp_other;  // scanned by shuffles in warps of 32
    float acc_d_warp_1{}, acc_d_warp_1_other;
    float acc_d_warp_2{}, acc_d_warp_2_other;
    float acc_d_warp_3{}, acc_d_warp_3_other;
    float acc_d_warp_4{}, acc_d_warp_4_other;
    float acc_d_warp_5{}, acc_d_warp_5_other;
    float acc_d_warp_6{};

    // offset.p.init
    acc_p = 0.0f;
    for (int q = 0; q < (n + 32767) / 33554432; ++q) {
        // above.s.init
        acc_s = 0.0f;
        // above.s.update
        acc_s += part[1024*q + s];
        // above.s.store ... above.s.step4: shuffles combine acc_s of 32 lanes; the first one gets the result
        acc_s_warp = acc_s;
        acc_s_warp += __shfl_down_sync(0xffffffff, acc_s_warp, 16);
        acc_s_warp += __shfl_down_sync(0xffffffff, acc_s_warp, 8);
        acc_s_warp += __shfl_down_sync(0xffffffff, acc_s_warp, 4);
        acc_s_warp += __shfl_down_sync(0xffffffff, acc_s_warp, 2);
        acc_s_warp += __shfl_down_sync(0xffffffff, acc_s_warp, 1);
        if (s % 32 == 0) {
            // above.s.put
            acc_s_shared[s / 32] = acc_s_warp;
        }
        // acc_s_shared: above.s.put writes, above.s.first reads
        // acc_s_shared: above.s.put writes, above.s.rest reads
        __syncthreads();
        // above.s.first
        acc_s_all = acc_s_shared[0];
        #pragma unroll
        for (int warp_0 = 1; warp_0 < 32; ++warp_0) {
            // above.s.rest
            acc_s_all += acc_s_shared[warp_0];
        }
        // above
        above = acc_s_all;
        // offset
        offset = acc_p;
        if (33554432*q + 33554432 < n) {
            // offset.p.update
            acc_p += above;
        }
        // before.d.init
        acc_d = 0.0f;
        if (s <= 1022) {
            // before.d.update
            acc_d += part[1024*q + s];
        }
        // before.d.store ... before.d.shift: shuffles combine acc_d of the lanes before each one, among 32 lanes
        acc_d_warp = acc_d;
        acc_d_warp_1 = acc_d_warp;
        acc_d_warp_other = __shfl_up_sync(0xffffffff, acc_d_warp, 1);
        if (s % 32 != 0) {
            acc_d_warp_1 += acc_d_warp_other;
        }
        acc_d_warp_2 = acc_d_warp_1;
        acc_d_warp_1_other = __shfl_up_sync(0xffffffff, acc_d_warp_1, 2);
        if (2 <= s % 32) {
            acc_d_warp_2 += acc_d_warp_1_other;
        }
        acc_d_warp_3 = acc_d_warp_2;
        acc_d_warp_2_other = __shfl_up_sync(0xffffffff, acc_d_warp_2, 4);
        if (4 <= s % 32) {
            acc_d_warp_3 += acc_d_warp_2_other;
        }
        acc_d_warp_4 = acc_d_warp_3;
        acc_d_warp_3_other = __shfl_up_sync(0xffffffff, acc_d_warp_3, 8);
        if (8 <= s % 32) {
            acc_d_warp_4 += acc_d_warp_3_other;
        }
        acc_d_warp_5 = acc_d_warp_4;
        acc_d_warp_4_other = __shfl_up_sync(0xffffffff, acc_d_warp_4, 16);
        if (16 <= s % 32) {
            acc_d_warp_5 += acc_d_warp_4_other;
        }
        acc_d_warp_6 = 0.0f;
        acc_d_warp_5_other = __shfl_up_sync(0xffffffff, acc_d_warp_5, 1);
        if (s % 32 != 0) {
            acc_d_warp_6 = acc_d_warp_5_other;
        }
        if (s <= 991 && (s + 1) % 32 == 0) {
            // before.d.put
            acc_d_shared[s / 32] = acc_d_warp_5;
        }
        // before.d.first
        acc_d_before = 0.0f;
        // acc_d_shared: before.d.put writes, before.d.rest reads
        __syncthreads();
        if (32 <= s) {
            #pragma unroll
            for (int warp_1 = 0; warp_1 < 31; ++warp_1) {
                if (32*warp_1 + 32 <= s) {
                    // before.d.rest
                    acc_d_before += acc_d_shared[warp_1];
                }
            }
        }
        // before.d.result
        acc_d_all = acc_d_before + acc_d_warp_6;
        // before
        before[1024*q + s] = offset + acc_d_all;
    }
    if (32768 <= (n + 32767) % 33554432) {
        const int q = (n - 1) / 33554432;
        // above.s.init
        acc_s = 0.0f;
        if (33554432*q + 32768*s < n) {
            // above.s.update
            acc_s += part[1024*q + s];
        }
        // above.s.store ... above.s.step4: shuffles combine acc_s of 32 lanes; the first one gets the result
        acc_s_warp = acc_s;
        acc_s_warp += __shfl_down_sync(0xffffffff, acc_s_warp, 16);
        acc_s_warp += __shfl_down_sync(0xffffffff, acc_s_warp, 8);
        acc_s_warp += __shfl_down_sync(0xffffffff, acc_s_warp, 4);
        acc_s_warp += __shfl_down_sync(0xffffffff, acc_s_warp, 2);
        acc_s_warp += __shfl_down_sync(0xffffffff, acc_s_warp, 1);
        if (s % 32 == 0) {
            // above.s.put
            acc_s_shared[s / 32] = acc_s_warp;
        }
        // acc_s_shared: above.s.put writes, above.s.first reads
        // acc_s_shared: above.s.put writes, above.s.rest reads
        __syncthreads();
        // above.s.first
        acc_s_all = acc_s_shared[0];
        #pragma unroll
        for (int warp_0 = 1; warp_0 < 32; ++warp_0) {
            // above.s.rest
            acc_s_all += acc_s_shared[warp_0];
        }
        // above
        above = acc_s_all;
        // offset
        offset = acc_p;
        // before.d.init
        acc_d = 0.0f;
        if (33554432*q + 32768*s + 32768 < n) {
            // before.d.update
            acc_d += part[1024*q + s];
        }
        // before.d.store ... before.d.shift: shuffles combine acc_d of the lanes before each one, among 32 lanes
        acc_d_warp = acc_d;
        acc_d_warp_1 = acc_d_warp;
        acc_d_warp_other = __shfl_up_sync(0xffffffff, acc_d_warp, 1);
        if (s % 32 != 0) {
            acc_d_warp_1 += acc_d_warp_other;
        }
        acc_d_warp_2 = acc_d_warp_1;
        acc_d_warp_1_other = __shfl_up_sync(0xffffffff, acc_d_warp_1, 2);
        if (2 <= s % 32) {
            acc_d_warp_2 += acc_d_warp_1_other;
        }
        acc_d_warp_3 = acc_d_warp_2;
        acc_d_warp_2_other = __shfl_up_sync(0xffffffff, acc_d_warp_2, 4);
        if (4 <= s % 32) {
            acc_d_warp_3 += acc_d_warp_2_other;
        }
        acc_d_warp_4 = acc_d_warp_3;
        acc_d_warp_3_other = __shfl_up_sync(0xffffffff, acc_d_warp_3, 8);
        if (8 <= s % 32) {
            acc_d_warp_4 += acc_d_warp_3_other;
        }
        acc_d_warp_5 = acc_d_warp_4;
        acc_d_warp_4_other = __shfl_up_sync(0xffffffff, acc_d_warp_4, 16);
        if (16 <= s % 32) {
            acc_d_warp_5 += acc_d_warp_4_other;
        }
        acc_d_warp_6 = 0.0f;
        acc_d_warp_5_other = __shfl_up_sync(0xffffffff, acc_d_warp_5, 1);
        if (s % 32 != 0) {
            acc_d_warp_6 = acc_d_warp_5_other;
        }
        if (s <= 991 && (s + 1) % 32 == 0) {
            // before.d.put
            acc_d_shared[s / 32] = acc_d_warp_5;
        }
        // before.d.first
        acc_d_before = 0.0f;
        // acc_d_shared: before.d.put writes, before.d.rest reads
        __syncthreads();
        if (32 <= s) {
            #pragma unroll
            for (int warp_1 = 0; warp_1 < 31; ++warp_1) {
                if (32*warp_1 + 32 <= s) {
                    // before.d.rest
                    acc_d_before += acc_d_shared[warp_1];
                }
            }
        }
        // before.d.result
        acc_d_all = acc_d_before + acc_d_warp_6;
        if (33554432*q + 32768*s < n) {
            // before
            before[1024*q + s] = offset + acc_d_all;
        }
    }
}

extern "C" __global__ void __launch_bounds__(256)
scan_in_launches_2(const float *__restrict__ x, float *__restrict__ y, const float *__restrict__ before,
    const int n)
{
    const int b = blockIdx.x;
    const int i = threadIdx.x;
    float acc_o;
    float kept[4];
    float acc_w;
    float own;
    float acc_i;
    __shared__ float acc_i_shared[8];
    float acc_i_all;
    float whole;
    float base;
    float acc_h;
    __shared__ float acc_h_shared[7];
    float acc_h_before;
    float acc_h_all;
    float start;
    float acc_k;
    float done[4];
    float acc_i_warp{};  // combined by shuffles in warps of 32
    float acc_h_warp{}, acc_h_warp_other;  // scanned by shuffles in warps of 32
    float acc_h_warp_1{}, acc_h_warp_1_other;
    float acc_h_warp_2{}, acc_h_warp_2_other;
    float acc_h_warp_3{}, acc_h_warp_3_other;
    float acc_h_warp_4{}, acc_h_warp_4_other;
    float acc_h_warp_5{}, acc_h_warp_5_other;
    float acc_h_warp_6{};

    // base.o.init
    acc_o = 0.0f;
    for (int r = 0; r < min(32, -32*b + n / 1024); ++r) {
        alignas(16) float x_vec[4];
        *reinterpret_cast<float4 *>(x_vec) = *reinterpret_cast<const float4 *>(&x[32768*b + 1024*r + 4*i]);
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            // load
            kept[v] = x_vec[v];
        }
        // own.w.init
        acc_w = 0.0f;
        #pragma unroll
        for (int w = 0; w < 4; ++w) {
            // own.w.update
            acc_w += kept[w];
        }
        // own
        own = acc_w;
        // whole.i.init
        acc_i = 0.0f;
        // whole.i.update
        acc_i += own;
        // whole.i.store ... whole.i.step4: shuffles combine acc_i of 32 lanes; the first one gets the result
        acc_i_warp = acc_i;
        acc_i_warp += __shfl_down_sync(0xffffffff, acc_i_warp, 16);
        acc_i_warp += __shfl_down_sync(0xffffffff, acc_i_warp, 8);
        acc_i_warp += __shfl_down_sync(0xffffffff, acc_i_warp, 4);
        acc_i_warp += __shfl_down_sync(0xffffffff, acc_i_warp, 2);
        acc_i_warp += __shfl_down_sync(0xffffffff, acc_i_warp, 1);
        if (i % 32 == 0) {
            // whole.i.put
            acc_i_shared[i / 32] = acc_i_warp;
        }
        // acc_i_shared: whole.i.put writes, whole.i.first reads
        // acc_i_shared: whole.i.put writes, whole.i.rest reads
        __syncthreads();
        // whole.i.first
        acc_i_all = acc_i_shared[0];
        #pragma unroll
        for (int warp_2 = 1; warp_2 < 8; ++warp_2) {
            // whole.i.rest
            acc_i_all += acc_i_shared[warp_2];
        }
        // whole
        whole = acc_i_all;
        // base
        base = before[b] + acc_o;
        if (r <= 30 && 32768*b + 1024*r + 1024 < n) {
            // base.o.update
            acc_o += whole;
        }
        // start.h.init
        acc_h = 0.0f;
        if (i <= 254) {
            // start.h.update
            acc_h += own;
        }
        // start.h.store ... start.h.shift: shuffles combine acc_h of the lanes before each one, among 32 lanes
        acc_h_warp = acc_h;
        acc_h_warp_1 = acc_h_warp;
        acc_h_warp_other = __shfl_up_sync(0xffffffff, acc_h_warp, 1);
        if (i % 32 != 0) {
            acc_h_warp_1 += acc_h_warp_other;
        }
        acc_h_warp_2 = acc_h_warp_1;
        acc_h_warp_1_other = __shfl_up_sync(0xffffffff, acc_h_warp_1, 2);
        if (2 <= i % 32) {
            acc_h_warp_2 += acc_h_warp_1_other;
        }
        acc_h_warp_3 = acc_h_warp_2;
        acc_h_warp_2_other = __shfl_up_sync(0xffffffff, acc_h_warp_2, 4);
        if (4 <= i % 32) {
            acc_h_warp_3 += acc_h_warp_2_other;
        }
        acc_h_warp_4 = acc_h_warp_3;
        acc_h_warp_3_other = __shfl_up_sync(0xffffffff, acc_h_warp_3, 8);
        if (8 <= i % 32) {
            acc_h_warp_4 += acc_h_warp_3_other;
        }
        acc_h_warp_5 = acc_h_warp_4;
        acc_h_warp_4_other = __shfl_up_sync(0xffffffff, acc_h_warp_4, 16);
        if (16 <= i % 32) {
            acc_h_warp_5 += acc_h_warp_4_other;
        }
        acc_h_warp_6 = 0.0f;
        acc_h_warp_5_other = __shfl_up_sync(0xffffffff, acc_h_warp_5, 1);
        if (i % 32 != 0) {
            acc_h_warp_6 = acc_h_warp_5_other;
        }
        if (i <= 223 && (i + 1) % 32 == 0) {
            // start.h.put
            acc_h_shared[i / 32] = acc_h_warp_5;
        }
        // start.h.first
        acc_h_before = 0.0f;
        // acc_h_shared: start.h.put writes, start.h.rest reads
        __syncthreads();
        if (32 <= i) {
            #pragma unroll
            for (int warp_3 = 0; warp_3 < 7; ++warp_3) {
                if (32*warp_3 + 32 <= i) {
                    // start.h.rest
                    acc_h_before += acc_h_shared[warp_3];
                }
            }
        }
        // start.h.result
        acc_h_all = acc_h_before + acc_h_warp_6;
        // start
        start = base + acc_h_all;
        // done.k.init
        acc_k = 0.0f;
        #pragma unroll
        for (int w = 0; w < 4; ++w) {
            // done.k.update
            acc_k += kept[w];
            // done
            done[w] = start + acc_k;
        }
        alignas(16) float y_vec[4];
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            // store
            y_vec[v] = done[v];
        }
        *reinterpret_cast<float4 *>(&y[32768*b + 1024*r + 4*i]) = *reinterpret_cast<const float4 *>(y_vec);
    }
    if (n <= 32768*b + 32767 && n % 1024 != 0) {
        const int r = -32*b + (n - 1) / 1024;
        if (32768*b + 1024*r + 4*i < n) {
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                if (32768*b + 1024*r + 4*i + v < n) {
                    // load
                    kept[v] = x[32768*b + 1024*r + 4*i + v];
                }
            }
            // own.w.init
            acc_w = 0.0f;
            #pragma unroll
            for (int w = 0; w < 4; ++w) {
                if (32768*b + 1024*r + 4*i + w < n) {
                    // own.w.update
                    acc_w += kept[w];
                }
            }
            // own
            own = acc_w;
        }
        // whole.i.init
        acc_i = 0.0f;
        if (32768*b + 1024*r + 4*i < n) {
            // whole.i.update
            acc_i += own;
        }
        // whole.i.store ... whole.i.step4: shuffles combine acc_i of 32 lanes; the first one gets the result
        acc_i_warp = acc_i;
        acc_i_warp += __shfl_down_sync(0xffffffff, acc_i_warp, 16);
        acc_i_warp += __shfl_down_sync(0xffffffff, acc_i_warp, 8);
        acc_i_warp += __shfl_down_sync(0xffffffff, acc_i_warp, 4);
        acc_i_warp += __shfl_down_sync(0xffffffff, acc_i_warp, 2);
        acc_i_warp += __shfl_down_sync(0xffffffff, acc_i_warp, 1);
        if (i % 32 == 0) {
            // whole.i.put
            acc_i_shared[i / 32] = acc_i_warp;
        }
        // acc_i_shared: whole.i.put writes, whole.i.first reads
        // acc_i_shared: whole.i.put writes, whole.i.rest reads
        __syncthreads();
        // whole.i.first
        acc_i_all = acc_i_shared[0];
        #pragma unroll
        for (int warp_2 = 1; warp_2 < 8; ++warp_2) {
            // whole.i.rest
            acc_i_all += acc_i_shared[warp_2];
        }
        // whole
        whole = acc_i_all;
        // base
        base = before[b] + acc_o;
        // start.h.init
        acc_h = 0.0f;
        if (32768*b + 1024*r + 4*i + 4 < n) {
            // start.h.update
            acc_h += own;
        }
        // start.h.store ... start.h.shift: shuffles combine acc_h of the lanes before each one, among 32 lanes
        acc_h_warp = acc_h;
        acc_h_warp_1 = acc_h_warp;
        acc_h_warp_other = __shfl_up_sync(0xffffffff, acc_h_warp, 1);
        if (i % 32 != 0) {
            acc_h_warp_1 += acc_h_warp_other;
        }
        acc_h_warp_2 = acc_h_warp_1;
        acc_h_warp_1_other = __shfl_up_sync(0xffffffff, acc_h_warp_1, 2);
        if (2 <= i % 32) {
            acc_h_warp_2 += acc_h_warp_1_other;
        }
        acc_h_warp_3 = acc_h_warp_2;
        acc_h_warp_2_other = __shfl_up_sync(0xffffffff, acc_h_warp_2, 4);
        if (4 <= i % 32) {
            acc_h_warp_3 += acc_h_warp_2_other;
        }
        acc_h_warp_4 = acc_h_warp_3;
        acc_h_warp_3_other = __shfl_up_sync(0xffffffff, acc_h_warp_3, 8);
        if (8 <= i % 32) {
            acc_h_warp_4 += acc_h_warp_3_other;
        }
        acc_h_warp_5 = acc_h_warp_4;
        acc_h_warp_4_other = __shfl_up_sync(0xffffffff, acc_h_warp_4, 16);
        if (16 <= i % 32) {
            acc_h_warp_5 += acc_h_warp_4_other;
        }
        acc_h_warp_6 = 0.0f;
        acc_h_warp_5_other = __shfl_up_sync(0xffffffff, acc_h_warp_5, 1);
        if (i % 32 != 0) {
            acc_h_warp_6 = acc_h_warp_5_other;
        }
        if (i <= 223 && (i + 1) % 32 == 0) {
            // start.h.put
            acc_h_shared[i / 32] = acc_h_warp_5;
        }
        // start.h.first
        acc_h_before = 0.0f;
        // acc_h_shared: start.h.put writes, start.h.rest reads
        __syncthreads();
        if (32 <= i) {
            #pragma unroll
            for (int warp_3 = 0; warp_3 < 7; ++warp_3) {
                if (32*warp_3 + 32 <= i) {
                    // start.h.rest
                    acc_h_before += acc_h_shared[warp_3];
                }
            }
        }
        // start.h.result
        acc_h_all = acc_h_before + acc_h_warp_6;
        if (32768*b + 1024*r + 4*i < n) {
            // start
            start = base + acc_h_all;
            // done.k.init
            acc_k = 0.0f;
            #pragma unroll
            for (int w = 0; w < 4; ++w) {
                if (32768*b + 1024*r + 4*i + w < n) {
                    // done.k.update
                    acc_k += kept[w];
                    // done
                    done[w] = start + acc_k;
                }
            }
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                if (32768*b + 1024*r + 4*i + v < n) {
                    // store
                    y[32768*b + 1024*r + 4*i + v] = done[v];
                }
            }
        }
    }
}
