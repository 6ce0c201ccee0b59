// proven: order (26 dependences), in bounds, no read before a write, no races; barriers: 2, each needed

extern "C" __global__ void __launch_bounds__(256)
row_scan(const float *__restrict__ x, float *__restrict__ y, const int m, const int n)
{
    const int b = blockIdx.x;
    const int i = threadIdx.x;
    float acc_o;
    float kept[1];
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
    float done[1];
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
    for (int r = 0; r < m / 256; ++r) {
        // load
        kept[0] = x[b*m + 256*r + i];
        // own.w.init
        acc_w = 0.0f;
        // own.w.update
        acc_w += kept[0];
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
        for (int warp = 1; warp < 8; ++warp) {
            // whole.i.rest
            acc_i_all += acc_i_shared[warp];
        }
        // whole
        whole = acc_i_all;
        // base
        base = 0.0f + acc_o;
        if (256*r + 256 < m) {
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
            for (int warp_0 = 0; warp_0 < 7; ++warp_0) {
                if (32*warp_0 + 32 <= i) {
                    // start.h.rest
                    acc_h_before += acc_h_shared[warp_0];
                }
            }
        }
        // start.h.result
        acc_h_all = acc_h_before + acc_h_warp_6;
        // start
        start = base + acc_h_all;
        // done.k.init
        acc_k = 0.0f;
        // done.k.update
        acc_k += kept[0];
        // done
        done[0] = start + acc_k;
        // store
        y[b*m + 256*r + i] = done[0];
    }
    if (m % 256 != 0) {
        const int r = (m - 1) / 256;
        if (256*r + i < m) {
            // load
            kept[0] = x[b*m + 256*r + i];
            // own.w.init
            acc_w = 0.0f;
            // own.w.update
            acc_w += kept[0];
            // own
            own = acc_w;
        }
        // whole.i.init
        acc_i = 0.0f;
        if (256*r + i < m) {
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
        for (int warp = 1; warp < 8; ++warp) {
            // whole.i.rest
            acc_i_all += acc_i_shared[warp];
        }
        // whole
        whole = acc_i_all;
        // base
        base = 0.0f + acc_o;
        // start.h.init
        acc_h = 0.0f;
        if (256*r + i + 2 <= m) {
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
            for (int warp_0 = 0; warp_0 < 7; ++warp_0) {
                if (32*warp_0 + 32 <= i) {
                    // start.h.rest
                    acc_h_before += acc_h_shared[warp_0];
                }
            }
        }
        // start.h.result
        acc_h_all = acc_h_before + acc_h_warp_6;
        if (256*r + i < m) {
            // start
            start = base + acc_h_all;
            // done.k.init
            acc_k = 0.0f;
            // done.k.update
            acc_k += kept[0];
            // done
            done[0] = start + acc_k;
            // store
            y[b*m + 256*r + i] = done[0];
        }
    }
}
