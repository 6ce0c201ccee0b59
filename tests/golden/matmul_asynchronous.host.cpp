void launch_matmul_vec(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c,
    const int l, const int m, const int n)
{
    matmul_vec<<<dim3((m + 31) / 32, (n + 15) / 16, 1), dim3(8, 4, 1)>>>(a, b, c, l, m, n);
}
