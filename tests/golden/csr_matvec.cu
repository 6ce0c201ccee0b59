// proven: order (6 dependences), no read before a write, no races
// undecided: whether 'insn_1.jj.update' stays inside 'val': a bound is read from memory.
// undecided: whether 'insn_1.jj.update' stays inside 'col': a bound is read from memory.
// undecided: whether 'insn_1.jj.update' stays inside 'x': a subscript is read from memory.

extern "C" __global__ void __launch_bounds__(64)
csr_matvec(const int *__restrict__ col, const int *__restrict__ rowptr, const float *__restrict__ val,
    const float *__restrict__ x, float *__restrict__ y, const int n)
{
    const int i_outer = blockIdx.x;
    const int i_inner = threadIdx.x;
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
