// proven: order (11 dependences), in bounds, no read before a write, no races; barriers: 12, each needed

#define gid(AXIS) ((uint)get_group_id(AXIS))
#define lid(AXIS) ((uint)get_local_id(AXIS))

__kernel __attribute__((reqd_work_group_size(48, 1, 1)))
void softmax_block(__global const float *restrict x, __global float *restrict y, const int m, const int n)
{
    const int i = gid(0);
    const int k_inner = lid(0);
    const int j_inner = lid(0);
    float acc_k;
    __local float acc_k_shared[48];  // combined as a tree: the target has no warps
    float top;
    float acc_k_0;
    __local float acc_k_0_shared[48];  // combined as a tree: the target has no warps
    float total;

    // insn.k.init
    acc_k = -INFINITY;
    for (int k_outer = 0; k_outer < (-k_inner + m + 47) / 48; ++k_outer) {
        // insn.k.update
        acc_k = fmax(acc_k, x[i*m + 48*k_outer + k_inner]);
    }
    // insn.k.store
    acc_k_shared[k_inner] = acc_k;
    // acc_k_shared: insn.k.store writes, insn.k.step0 reads
    // acc_k_shared: insn.k.store writes, insn.k.step1 reads
    barrier(CLK_LOCAL_MEM_FENCE);
    if (k_inner <= 15) {
        // insn.k.step0
        acc_k_shared[k_inner] = fmax(acc_k_shared[k_inner], acc_k_shared[k_inner + 32]);
        // insn.k.step1
        acc_k_shared[k_inner] = fmax(acc_k_shared[k_inner], acc_k_shared[k_inner + 16]);
    }
    // acc_k_shared: insn.k.step1 writes, insn.k.step2 reads
    barrier(CLK_LOCAL_MEM_FENCE);
    if (k_inner <= 7) {
        // insn.k.step2
        acc_k_shared[k_inner] = fmax(acc_k_shared[k_inner], acc_k_shared[k_inner + 8]);
    }
    // acc_k_shared: insn.k.step2 writes, insn.k.step3 reads
    barrier(CLK_LOCAL_MEM_FENCE);
    if (k_inner <= 3) {
        // insn.k.step3
        acc_k_shared[k_inner] = fmax(acc_k_shared[k_inner], acc_k_shared[k_inner + 4]);
    }
    // acc_k_shared: insn.k.step3 writes, insn.k.step4 reads
    barrier(CLK_LOCAL_MEM_FENCE);
    if (k_inner <= 1) {
        // insn.k.step4
        acc_k_shared[k_inner] = fmax(acc_k_shared[k_inner], acc_k_shared[k_inner + 2]);
    }
    // acc_k_shared: insn.k.step4 writes, insn.k.step5 reads
    barrier(CLK_LOCAL_MEM_FENCE);
    if (k_inner == 0) {
        // insn.k.step5
        acc_k_shared[k_inner] = fmax(acc_k_shared[k_inner], acc_k_shared[k_inner + 1]);
    }
    // acc_k_shared: insn.k.step5 writes, insn reads
    barrier(CLK_LOCAL_MEM_FENCE);
    // insn
    top = acc_k_shared[0];
    // insn_0.k.init
    acc_k_0 = 0.0f;
    for (int k_outer = 0; k_outer < (-k_inner + m + 47) / 48; ++k_outer) {
        // insn_0.k.update
        acc_k_0 += exp(x[i*m + 48*k_outer + k_inner] - top);
    }
    // insn_0.k.store
    acc_k_0_shared[k_inner] = acc_k_0;
    // acc_k_0_shared: insn_0.k.store writes, insn_0.k.step0 reads
    // acc_k_0_shared: insn_0.k.store writes, insn_0.k.step1 reads
    barrier(CLK_LOCAL_MEM_FENCE);
    if (k_inner <= 15) {
        // insn_0.k.step0
        acc_k_0_shared[k_inner] += acc_k_0_shared[k_inner + 32];
        // insn_0.k.step1
        acc_k_0_shared[k_inner] += acc_k_0_shared[k_inner + 16];
    }
    // acc_k_0_shared: insn_0.k.step1 writes, insn_0.k.step2 reads
    barrier(CLK_LOCAL_MEM_FENCE);
    if (k_inner <= 7) {
        // insn_0.k.step2
        acc_k_0_shared[k_inner] += acc_k_0_shared[k_inner + 8];
    }
    // acc_k_0_shared: insn_0.k.step2 writes, insn_0.k.step3 reads
    barrier(CLK_LOCAL_MEM_FENCE);
    if (k_inner <= 3) {
        // insn_0.k.step3
        acc_k_0_shared[k_inner] += acc_k_0_shared[k_inner + 4];
    }
    // acc_k_0_shared: insn_0.k.step3 writes, insn_0.k.step4 reads
    barrier(CLK_LOCAL_MEM_FENCE);
    if (k_inner <= 1) {
        // insn_0.k.step4
        acc_k_0_shared[k_inner] += acc_k_0_shared[k_inner + 2];
    }
    // acc_k_0_shared: insn_0.k.step4 writes, insn_0.k.step5 reads
    barrier(CLK_LOCAL_MEM_FENCE);
    if (k_inner == 0) {
        // insn_0.k.step5
        acc_k_0_shared[k_inner] += acc_k_0_shared[k_inner + 1];
    }
    // acc_k_0_shared: insn_0.k.step5 writes, insn_0 reads
    barrier(CLK_LOCAL_MEM_FENCE);
    // insn_0
    total = acc_k_0_shared[0];
    for (int j_outer = 0; j_outer < (-j_inner + m + 47) / 48; ++j_outer) {
        // insn_1
        y[i*m + 48*j_outer + j_inner] = exp(x[i*m + 48*j_outer + j_inner] - top) / total;
    }
}
