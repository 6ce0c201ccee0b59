// proven: order (6 dependences), no read before a write, no races
// undecided: whether 'insn_1.jj.update' stays inside 'val': a bound is read from memory.
// undecided: whether 'insn_1.jj.update' stays inside 'col': a bound is read from memory.
// undecided: whether 'insn_1.jj.update' stays inside 'x': a subscript is read from memory.

#define gid(AXIS) ((uint)get_group_id(AXIS))
#define lid(AXIS) ((uint)get_local_id(AXIS))

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void csr_matvec(__global const int *restrict col, __global const int *restrict rowptr,
    __global const float *restrict val, __global const float *restrict x, __global float *restrict y,
    const int n)
{
    const int i_outer = gid(0);
    const int i_inner = lid(0);
    int first;
    int last;
    float acc_jj;

    if (64*i_outer + 64 <= n) {  // a full tile
        // insn
        first = rowptr[64*i_outer + i_inner];
        // insn_0
        last = rowptr[64*i_outer + i_inner + 1];
        // insn_1.jj.init
        acc_jj = 0.0f;
        for (int jj = first; jj < last; ++jj) {
            // insn_1.jj.update
            acc_jj += val[jj]*x[col[jj]];
        }
        // insn_1
        y[64*i_outer + i_inner] = acc_jj;
    } else if (64*i_outer + i_inner < n) {
        // insn
        first = rowptr[64*i_outer + i_inner];
        // insn_0
        last = rowptr[64*i_outer + i_inner + 1];
        // insn_1.jj.init
        acc_jj = 0.0f;
        for (int jj = first; jj < last; ++jj) {
            // insn_1.jj.update
            acc_jj += val[jj]*x[col[jj]];
        }
        // insn_1
        y[64*i_outer + i_inner] = acc_jj;
    }
}
