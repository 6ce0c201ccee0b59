void launch_transpose(const float *__restrict__ a, float *__restrict__ b, const int m, const int n)
{
    if (1 <= n && 1 <= m)
        transpose<<<dim3((m + 15) / 16, (n + 15) / 16, 1), dim3(16, 16, 1)>>>(a, b, m, n);
}
