void launch_stencil_3d(const float *__restrict__ a, float *__restrict__ out, const int l, const int m,
    const int n)
{
    if (3 <= n && 3 <= m && 3 <= l)
        stencil_3d<<<dim3((l + 14) / 16, (m + 2) / 4, (n + 2) / 4), dim3(16, 4, 4)>>>(a, out, l, m, n);
}
