// proven: order (no dependences), no races
// undecided: whether 'insn_0' stays inside 'x': a subscript is not affine.

__device__ __forceinline__ int shift_left_i32(int a, int n)
{
    return (unsigned int)n < 32 ? (int)((unsigned int)a << n) : 0;
}

extern "C" __global__ void __launch_bounds__(4)
kernel(const int *__restrict__ x, const short *__restrict__ s, int *__restrict__ w, int *__restrict__ y,
    const int n)
{
    const int i_outer = blockIdx.x;
    const int i_inner = threadIdx.x;

    if (4*i_outer + 4 <= n) {  // a full tile
        // insn
        y[4*i_outer + i_inner] = ((4*i_outer + i_inner) & 1) == 0 ? x[(4*i_outer + i_inner) << 1] :
                x[(4*i_outer + i_inner) >> 1];
        // insn_0
        w[4*i_outer + i_inner] =
                x[((4*i_outer + i_inner) ^ 5) & 15] | (short)shift_left_i32((int)s[4*i_outer + i_inner], 4);
    } else if (4*i_outer + i_inner < n) {
        // insn
        y[4*i_outer + i_inner] = ((4*i_outer + i_inner) & 1) == 0 ? x[(4*i_outer + i_inner) << 1] :
                x[(4*i_outer + i_inner) >> 1];
        // insn_0
        w[4*i_outer + i_inner] =
                x[((4*i_outer + i_inner) ^ 5) & 15] | (short)shift_left_i32((int)s[4*i_outer + i_inner], 4);
    }
}
