void launch_transpose_swizzled(const float *__restrict__ a, float *__restrict__ b, const int m, const int n)
{
    if (1 <= n && 1 <= m)
        transpose_swizzled<<<dim3((m + 31) / 32, (n + 31) / 32, 1), dim3(32, 32, 1)>>>(a, b, m, n);
}
