void launch_matmul_half(const __half *__restrict__ a, const __half *__restrict__ b, __half *__restrict__ c,
    const int l, const int m, const int n)
{
    matmul_half<<<dim3((m + 15) / 16, (n + 15) / 16, 1), dim3(16, 16, 1)>>>(a, b, c, l, m, n);
}
