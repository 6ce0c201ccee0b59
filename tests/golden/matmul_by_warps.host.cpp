void launch_matmul_by_warps(const double *__restrict__ a, const double *__restrict__ b,
    double *__restrict__ c, const int l, const int m, const int n)
{
    matmul_by_warps<<<dim3((m + 15) / 16, (n + 15) / 16, 1), dim3(64, 1, 1)>>>(a, b, c, l, m, n);
}
