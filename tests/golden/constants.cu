// proven: order (4 dependences), in bounds, no read before a write, no races

extern "C" __global__ void __launch_bounds__(32)
weighted(const float *__restrict__ x, double *__restrict__ y, long long *__restrict__ z, const int n)
{
    const int i_outer = blockIdx.x;
    const int i_inner = threadIdx.x;
    float acc_j;
    static __constant__ const float t[2][3] = {{1.5f, 2.0f, 3.0f}, {0.1f, 1e-30f, -7.0f}};
    static __constant__ const double c = 0.5;
    static __constant__ const bool flag = true;
    static __constant__ const long long large[4] = {(-2147483647 - 1), 2147483647, 1099511627776LL,
            (-9223372036854775807LL - 1)};

    if (32*i_outer + 32 <= n) {  // a full tile
        // insn.j.init
        acc_j = 0.0f;
        for (int j = 0; j < 3; ++j) {
            // insn.j.update
            acc_j += t[(32*i_outer + i_inner) % 2][j]*x[32*i_outer + i_inner];
        }
        // insn
        y[32*i_outer + i_inner] = acc_j + c;
        // insn_0
        z[32*i_outer + i_inner] = flag ? large[(32*i_outer + i_inner) % 4] : 0LL;
    } else if (32*i_outer + i_inner < n) {
        // insn.j.init
        acc_j = 0.0f;
        for (int j = 0; j < 3; ++j) {
            // insn.j.update
            acc_j += t[(32*i_outer + i_inner) % 2][j]*x[32*i_outer + i_inner];
        }
        // insn
        y[32*i_outer + i_inner] = acc_j + c;
        // insn_0
        z[32*i_outer + i_inner] = flag ? large[(32*i_outer + i_inner) % 4] : 0LL;
    }
}
