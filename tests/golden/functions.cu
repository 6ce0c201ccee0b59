// proven: order (15 dependences), no read before a write, no races
// undecided: whether 'scale_2_insn' stays inside 'w': a subscript is read from memory.

static __device__ void scale(double *b, const double *a, const double s, const int n)
{
    for (int i = 0; i < n; ++i) {
        // scale_insn
        b[i] = s*a[i];
    }
}

static __device__ void scale_0(double *b, const double *a, const int n)
{
    for (int i = 0; i < n; ++i) {
        // scale_0_insn
        b[8*i] = 2.0*a[i];
    }
}

static __device__ void scale_1(double *b, const double *a, const double s, const int n)
{
    for (int i = 0; i < n; ++i) {
        // scale_1_insn
        b[8*i] = s*a[-i];
    }
}

static __device__ void scale_2(const double *a, const int *at, double *w, const int n, const int r)
{
    for (int i = 0; i < n; ++i) {
        // scale_2_insn
        w[r*n + at[i]] = 2.0*a[i];
    }
}

static __device__ void scale_3(double *b, const double *a, const int n, const int a_stride_0)
{
    for (int i = 0; i < n; ++i) {
        // scale_3_insn
        b[i] = 2.0*a[i*a_stride_0];
    }
}

static __device__ void total(double *b, const double *a, const int n, const int a_stride_0)
{
    double acc_k;
    double part[4];
    for (int i = 0; i < 4; ++i) {
        // total_insn.k.init
        acc_k = 0.0;
        for (int k = 0; k < n; ++k) {
            // total_insn.k.update
            acc_k += a[i*a_stride_0 + k];
        }
        // total_insn
        part[i] = acc_k;
    }
    if ((int)blockIdx.x == 0) {
        for (int i = 0; i < 4; ++i) {
            // total_insn_0
            b[i] = part[i] + part[-i + 3];
        }
    }
}

static __device__ void both(double *a, double *c, const int n)
{
    for (int i_0 = 0; i_0 < n; ++i_0) {
        // both_scale_insn
        a[i_0] = 0.5*a[i_0];
    }
    for (int i = 0; i < n; ++i) {
        // both_insn_0
        c[i] = 2.0*a[i];
    }
}

extern "C" __global__ void __launch_bounds__(1)
several_calls_0(const double *x, double *__restrict__ y, double *__restrict__ w, double *__restrict__ z,
    const int *at, const double *even, double *__restrict__ e, double *__restrict__ u, const int k,
    const int n)
{
    const int r = blockIdx.x;
    double t;

    // insn
    t = x[r*n];
    // y[r, :] = scale(x[r, :], n, t)
    scale(&y[r*n], &x[r*n], t, n);
    // z[:, r] = scale(y[r, :], n, 2)
    scale_0(&z[r], &y[r*n], n);
    // [q]: z[q, 4 + r] = scale([q]: x[r, n - 1 - q], n, t)
    scale_1(&z[r + 4], &x[r*n + n - 1], t, n);
    // [q]: w[r, at[q]] = scale([q]: x[r, q], n, 2)
    scale_2(&x[r*n], at, w, n, r);
    if ((int)blockIdx.x == 0) {
        // [h]: e[h] = scale([h]: even[2*h, 1], k, 2)
        scale_3(e, &even[1], k, 2*k);
    }
    // u[:] = total(x[:, :], n)
    total(u, x, n, n);
}

extern "C" __global__ void __launch_bounds__(1)
several_calls_1(double *__restrict__ y, double *__restrict__ v, const int n)
{
    // y[0, :], v[:] = both(y[0, :], n)
    both(y, v, n);
}
