void launch_matmul(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c,
    const int l, const int m, const int n)
{
    matmul<<<dim3((m + 63) / 64, (n + 63) / 64, 1), dim3(16, 16, 1)>>>(a, b, c, l, m, n);
}
