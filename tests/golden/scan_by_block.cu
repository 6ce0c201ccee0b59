// proven: order (24 dependences), in bounds, no read before a write, no races; barriers: 2, each needed

extern "C" __global__ void __launch_bounds__(64)
scan_by_block(const float *__restrict__ x, float *__restrict__ y, const int m, const int n)
{
    const int i = blockIdx.x;
    const int t = threadIdx.x;
    float acc_q;
    float acc_v;
    float own;
    float tile;
    float before;
    float acc_s;
    __shared__ float acc_s_shared[1];
    float acc_s_before;
    float acc_s_all;
    float start;
    float acc_w;
    float acc_t;
    __shared__ float acc_t_shared[2];
    float acc_t_all;
    float acc_s_warp{}, acc_s_warp_other;  // scanned by shuffles in warps of 32
    float acc_s_warp_1{}, acc_s_warp_1_other;
    float acc_s_warp_2{}, acc_s_warp_2_other;
    float acc_s_warp_3{}, acc_s_warp_3_other;
    float acc_s_warp_4{}, acc_s_warp_4_other;
    float acc_s_warp_5{}, acc_s_warp_5_other;
    float acc_s_warp_6{};
    float acc_t_warp{};  // combined by shuffles in warps of 32

    // insn_0.q.init
    acc_q = 0.0f;
    for (int r = 0; r < m / 128; ++r) {
        // insn.v.init
        acc_v = 0.0f;
        #pragma unroll
        for (int v = 0; v < 2; ++v) {
            // insn.v.update
            acc_v += x[i*m + 128*r + 2*t + v];
        }
        // insn
        own = acc_v;
        if (1 <= r) {
            // insn_0.q.update
            acc_q += tile;
        }
        // insn_0
        before = acc_q;
        // insn_1.s.init
        acc_s = 0.0f;
        if (t <= 62) {
            // insn_1.s.update
            acc_s += own;
        }
        // insn_1.s.store ... insn_1.s.shift: shuffles combine acc_s of the lanes before each one, among 32 lanes
        acc_s_warp = acc_s;
        acc_s_warp_1 = acc_s_warp;
        acc_s_warp_other = __shfl_up_sync(0xffffffff, acc_s_warp, 1);
        if (t % 32 != 0) {
            acc_s_warp_1 += acc_s_warp_other;
        }
        acc_s_warp_2 = acc_s_warp_1;
        acc_s_warp_1_other = __shfl_up_sync(0xffffffff, acc_s_warp_1, 2);
        if (2 <= t % 32) {
            acc_s_warp_2 += acc_s_warp_1_other;
        }
        acc_s_warp_3 = acc_s_warp_2;
        acc_s_warp_2_other = __shfl_up_sync(0xffffffff, acc_s_warp_2, 4);
        if (4 <= t % 32) {
            acc_s_warp_3 += acc_s_warp_2_other;
        }
        acc_s_warp_4 = acc_s_warp_3;
        acc_s_warp_3_other = __shfl_up_sync(0xffffffff, acc_s_warp_3, 8);
        if (8 <= t % 32) {
            acc_s_warp_4 += acc_s_warp_3_other;
        }
        acc_s_warp_5 = acc_s_warp_4;
        acc_s_warp_4_other = __shfl_up_sync(0xffffffff, acc_s_warp_4, 16);
        if (16 <= t % 32) {
            acc_s_warp_5 += acc_s_warp_4_other;
        }
        acc_s_warp_6 = 0.0f;
        acc_s_warp_5_other = __shfl_up_sync(0xffffffff, acc_s_warp_5, 1);
        if (t % 32 != 0) {
            acc_s_warp_6 = acc_s_warp_5_other;
        }
        if (t == 31) {
            // insn_1.s.put
            acc_s_shared[t / 32] = acc_s_warp_5;
        }
        // insn_1.s.first
        acc_s_before = 0.0f;
        // acc_s_shared: insn_1.s.put writes, insn_1.s.rest reads
        __syncthreads();
        if (32 <= t) {
            // insn_1.s.rest
            acc_s_before += acc_s_shared[0];
        }
        // insn_1.s.result
        acc_s_all = acc_s_before + acc_s_warp_6;
        // insn_1
        start = before + acc_s_all;
        // insn_2.w.init
        acc_w = 0.0f;
        #pragma unroll
        for (int v = 0; v < 2; ++v) {
            // insn_2.w.update
            acc_w += x[i*m + 128*r + 2*t + v];
            // insn_2
            y[i*m + 128*r + 2*t + v] = start + acc_w;
        }
        // insn_3.t.init
        acc_t = 0.0f;
        // insn_3.t.update
        acc_t += own;
        // insn_3.t.store ... insn_3.t.step4: shuffles combine acc_t of 32 lanes; the first one gets the result
        acc_t_warp = acc_t;
        acc_t_warp += __shfl_down_sync(0xffffffff, acc_t_warp, 16);
        acc_t_warp += __shfl_down_sync(0xffffffff, acc_t_warp, 8);
        acc_t_warp += __shfl_down_sync(0xffffffff, acc_t_warp, 4);
        acc_t_warp += __shfl_down_sync(0xffffffff, acc_t_warp, 2);
        acc_t_warp += __shfl_down_sync(0xffffffff, acc_t_warp, 1);
        if (t % 32 == 0) {
            // insn_3.t.put
            acc_t_shared[t / 32] = acc_t_warp;
        }
        // acc_t_shared: insn_3.t.put writes, insn_3.t.first reads
        // acc_t_shared: insn_3.t.put writes, insn_3.t.rest reads
        __syncthreads();
        // insn_3.t.first
        acc_t_all = acc_t_shared[0];
        // insn_3.t.rest
        acc_t_all += acc_t_shared[1];
        // insn_3
        tile = acc_t_all;
    }
    if (m % 128 != 0) {
        const int r = (m - 1) / 128;
        if (128*r + 2*t < m) {
            // insn.v.init
            acc_v = 0.0f;
            #pragma unroll
            for (int v = 0; v < 2; ++v) {
                if (128*r + 2*t + v < m) {
                    // insn.v.update
                    acc_v += x[i*m + 128*r + 2*t + v];
                }
            }
            // insn
            own = acc_v;
        }
        if (1 <= r) {
            // insn_0.q.update
            acc_q += tile;
        }
        // insn_0
        before = acc_q;
        // insn_1.s.init
        acc_s = 0.0f;
        if (128*r + 2*t + 2 < m) {
            // insn_1.s.update
            acc_s += own;
        }
        // insn_1.s.store ... insn_1.s.shift: shuffles combine acc_s of the lanes before each one, among 32 lanes
        acc_s_warp = acc_s;
        acc_s_warp_1 = acc_s_warp;
        acc_s_warp_other = __shfl_up_sync(0xffffffff, acc_s_warp, 1);
        if (t % 32 != 0) {
            acc_s_warp_1 += acc_s_warp_other;
        }
        acc_s_warp_2 = acc_s_warp_1;
        acc_s_warp_1_other = __shfl_up_sync(0xffffffff, acc_s_warp_1, 2);
        if (2 <= t % 32) {
            acc_s_warp_2 += acc_s_warp_1_other;
        }
        acc_s_warp_3 = acc_s_warp_2;
        acc_s_warp_2_other = __shfl_up_sync(0xffffffff, acc_s_warp_2, 4);
        if (4 <= t % 32) {
            acc_s_warp_3 += acc_s_warp_2_other;
        }
        acc_s_warp_4 = acc_s_warp_3;
        acc_s_warp_3_other = __shfl_up_sync(0xffffffff, acc_s_warp_3, 8);
        if (8 <= t % 32) {
            acc_s_warp_4 += acc_s_warp_3_other;
        }
        acc_s_warp_5 = acc_s_warp_4;
        acc_s_warp_4_other = __shfl_up_sync(0xffffffff, acc_s_warp_4, 16);
        if (16 <= t % 32) {
            acc_s_warp_5 += acc_s_warp_4_other;
        }
        acc_s_warp_6 = 0.0f;
        acc_s_warp_5_other = __shfl_up_sync(0xffffffff, acc_s_warp_5, 1);
        if (t % 32 != 0) {
            acc_s_warp_6 = acc_s_warp_5_other;
        }
        if (t == 31) {
            // insn_1.s.put
            acc_s_shared[t / 32] = acc_s_warp_5;
        }
        // insn_1.s.first
        acc_s_before = 0.0f;
        // acc_s_shared: insn_1.s.put writes, insn_1.s.rest reads
        __syncthreads();
        if (32 <= t) {
            // insn_1.s.rest
            acc_s_before += acc_s_shared[0];
        }
        // insn_1.s.result
        acc_s_all = acc_s_before + acc_s_warp_6;
        if (128*r + 2*t < m) {
            // insn_1
            start = before + acc_s_all;
            // insn_2.w.init
            acc_w = 0.0f;
            #pragma unroll
            for (int v = 0; v < 2; ++v) {
                if (128*r + 2*t + v < m) {
                    // insn_2.w.update
                    acc_w += x[i*m + 128*r + 2*t + v];
                    // insn_2
                    y[i*m + 128*r + 2*t + v] = start + acc_w;
                }
            }
        }
        // insn_3.t.init
        acc_t = 0.0f;
        if (128*r + 2*t < m) {
            // insn_3.t.update
            acc_t += own;
        }
        // insn_3.t.store ... insn_3.t.step4: shuffles combine acc_t of 32 lanes; the first one gets the result
        acc_t_warp = acc_t;
        acc_t_warp += __shfl_down_sync(0xffffffff, acc_t_warp, 16);
        acc_t_warp += __shfl_down_sync(0xffffffff, acc_t_warp, 8);
        acc_t_warp += __shfl_down_sync(0xffffffff, acc_t_warp, 4);
        acc_t_warp += __shfl_down_sync(0xffffffff, acc_t_warp, 2);
        acc_t_warp += __shfl_down_sync(0xffffffff, acc_t_warp, 1);
        if (t % 32 == 0) {
            // insn_3.t.put
            acc_t_shared[t / 32] = acc_t_warp;
        }
        // acc_t_shared: insn_3.t.put writes, insn_3.t.first reads
        // acc_t_shared: insn_3.t.put writes, insn_3.t.rest reads
        __syncthreads();
        // insn_3.t.first
        acc_t_all = acc_t_shared[0];
        // insn_3.t.rest
        acc_t_all += acc_t_shared[1];
        // insn_3
        tile = acc_t_all;
    }
}
