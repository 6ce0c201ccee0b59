// proven: order (24 dependences), in bounds, no read before a write, no races; barriers: 14, each needed

#define gid(AXIS) ((uint)get_group_id(AXIS))
#define lid(AXIS) ((uint)get_local_id(AXIS))

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void scan_by_block(__global const float *restrict x, __global float *restrict y, const int m, const int n)
{
    const int i = gid(0);
    const int t = lid(0);
    float acc_q;
    float acc_v;
    float own;
    float tile;
    float before;
    float acc_s;
    __local float acc_s_shared[64];  // scanned in shared memory: the target has no warps
    __local float acc_s_shared_1[64];
    __local float acc_s_shared_2[64];
    __local float acc_s_shared_3[64];
    __local float acc_s_shared_4[64];
    __local float acc_s_shared_5[64];
    __local float acc_s_shared_6[64];
    __local float acc_s_shared_7[64];
    float acc_s_all;
    float start;
    float acc_w;
    float acc_t;
    __local float acc_t_shared[64];  // combined as a tree: the target has no warps

    // insn_0.q.init
    acc_q = 0.0f;
    for (int r = 0; r < (m + 127) / 128; ++r) {
        if (128*r + 2*t < m) {
            // insn.v.init
            acc_v = 0.0f;
            if (128*r + 128 <= m) {  // a full tile
                #pragma unroll
                for (int v = 0; v < 2; ++v) {
                    // insn.v.update
                    acc_v += x[i*m + 128*r + 2*t + v];
                }
            } else {
                #pragma unroll
                for (int v = 0; v < 2; ++v) {
                    if (128*r + 2*t + v < m) {
                        // insn.v.update
                        acc_v += x[i*m + 128*r + 2*t + v];
                    }
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
        if (t <= 62 && 128*r + 2*t + 2 < m) {
            // insn_1.s.update
            acc_s += own;
        }
        // insn_1.s.store
        acc_s_shared[t] = acc_s;
        // insn_1.s.keep0
        acc_s_shared_1[t] = acc_s_shared[t];
        // acc_s_shared: insn_1.s.store writes, insn_1.s.step0 reads
        // acc_s_shared_1: insn_1.s.keep0 writes, insn_1.s.step1 reads
        barrier(CLK_LOCAL_MEM_FENCE);
        if (1 <= t) {
            // insn_1.s.step0
            acc_s_shared_1[t] += acc_s_shared[t - 1];
        }
        // insn_1.s.keep1
        acc_s_shared_2[t] = acc_s_shared_1[t];
        // acc_s_shared_1: insn_1.s.step0 writes, insn_1.s.step1 reads
        // acc_s_shared_2: insn_1.s.keep1 writes, insn_1.s.step2 reads
        barrier(CLK_LOCAL_MEM_FENCE);
        if (2 <= t) {
            // insn_1.s.step1
            acc_s_shared_2[t] += acc_s_shared_1[t - 2];
        }
        // insn_1.s.keep2
        acc_s_shared_3[t] = acc_s_shared_2[t];
        // acc_s_shared_2: insn_1.s.step1 writes, insn_1.s.step2 reads
        // acc_s_shared_3: insn_1.s.keep2 writes, insn_1.s.step3 reads
        barrier(CLK_LOCAL_MEM_FENCE);
        if (4 <= t) {
            // insn_1.s.step2
            acc_s_shared_3[t] += acc_s_shared_2[t - 4];
        }
        // insn_1.s.keep3
        acc_s_shared_4[t] = acc_s_shared_3[t];
        // acc_s_shared_3: insn_1.s.step2 writes, insn_1.s.step3 reads
        // acc_s_shared_4: insn_1.s.keep3 writes, insn_1.s.step4 reads
        barrier(CLK_LOCAL_MEM_FENCE);
        if (8 <= t) {
            // insn_1.s.step3
            acc_s_shared_4[t] += acc_s_shared_3[t - 8];
        }
        // insn_1.s.keep4
        acc_s_shared_5[t] = acc_s_shared_4[t];
        // acc_s_shared_4: insn_1.s.step3 writes, insn_1.s.step4 reads
        // acc_s_shared_5: insn_1.s.keep4 writes, insn_1.s.step5 reads
        barrier(CLK_LOCAL_MEM_FENCE);
        if (16 <= t) {
            // insn_1.s.step4
            acc_s_shared_5[t] += acc_s_shared_4[t - 16];
        }
        // insn_1.s.keep5
        acc_s_shared_6[t] = acc_s_shared_5[t];
        // acc_s_shared_5: insn_1.s.step4 writes, insn_1.s.step5 reads
        // acc_s_shared_6: insn_1.s.keep5 writes, insn_1.s.shift reads
        barrier(CLK_LOCAL_MEM_FENCE);
        if (32 <= t) {
            // insn_1.s.step5
            acc_s_shared_6[t] += acc_s_shared_5[t - 32];
        }
        // insn_1.s.none
        acc_s_shared_7[t] = 0.0f;
        // acc_s_shared_6: insn_1.s.step5 writes, insn_1.s.shift reads
        barrier(CLK_LOCAL_MEM_FENCE);
        if (1 <= t) {
            // insn_1.s.shift
            acc_s_shared_7[t] = acc_s_shared_6[t - 1];
        }
        // insn_1.s.result
        acc_s_all = acc_s_shared_7[t];
        if (128*r + 2*t < m) {
            // insn_1
            start = before + acc_s_all;
            // insn_2.w.init
            acc_w = 0.0f;
            if (128*r + 128 <= m) {  // a full tile
                #pragma unroll
                for (int v = 0; v < 2; ++v) {
                    // insn_2.w.update
                    acc_w += x[i*m + 128*r + 2*t + v];
                    // insn_2
                    y[i*m + 128*r + 2*t + v] = start + acc_w;
                }
            } else {
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
        }
        // insn_3.t.init
        acc_t = 0.0f;
        if (128*r + 2*t < m) {
            // insn_3.t.update
            acc_t += own;
        }
        // insn_3.t.store
        acc_t_shared[t] = acc_t;
        // acc_t_shared: insn_3.t.store writes, insn_3.t.step0 reads
        barrier(CLK_LOCAL_MEM_FENCE);
        if (t <= 31) {
            // insn_3.t.step0
            acc_t_shared[t] += acc_t_shared[t + 32];
        }
        // acc_t_shared: insn_3.t.step0 writes, insn_3.t.step1 reads
        barrier(CLK_LOCAL_MEM_FENCE);
        if (t <= 15) {
            // insn_3.t.step1
            acc_t_shared[t] += acc_t_shared[t + 16];
        }
        // acc_t_shared: insn_3.t.step1 writes, insn_3.t.step2 reads
        barrier(CLK_LOCAL_MEM_FENCE);
        if (t <= 7) {
            // insn_3.t.step2
            acc_t_shared[t] += acc_t_shared[t + 8];
        }
        // acc_t_shared: insn_3.t.step2 writes, insn_3.t.step3 reads
        barrier(CLK_LOCAL_MEM_FENCE);
        if (t <= 3) {
            // insn_3.t.step3
            acc_t_shared[t] += acc_t_shared[t + 4];
        }
        // acc_t_shared: insn_3.t.step3 writes, insn_3.t.step4 reads
        barrier(CLK_LOCAL_MEM_FENCE);
        if (t <= 1) {
            // insn_3.t.step4
            acc_t_shared[t] += acc_t_shared[t + 2];
        }
        // acc_t_shared: insn_3.t.step4 writes, insn_3.t.step5 reads
        barrier(CLK_LOCAL_MEM_FENCE);
        if (t == 0) {
            // insn_3.t.step5
            acc_t_shared[t] += acc_t_shared[t + 1];
        }
        // acc_t_shared: insn_3.t.step5 writes, insn_3 reads
        barrier(CLK_LOCAL_MEM_FENCE);
        // insn_3
        tile = acc_t_shared[0];
    }
}
