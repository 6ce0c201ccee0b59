void launch_stencil_2d(const float *__restrict__ a, float *__restrict__ out, const int m, const int n)
{
    if (3 <= n && 3 <= m)
        stencil_2d<<<dim3((m + 14) / 16, (n + 14) / 16, 1), dim3(16, 16, 1)>>>(a, out, m, n);
}
