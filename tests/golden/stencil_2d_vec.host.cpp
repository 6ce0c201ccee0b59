void launch_stencil_2d_vec(const float *__restrict__ a, float *__restrict__ out, const int m, const int n)
{
    if (3 <= n && 3 <= m)
        stencil_2d_vec<<<dim3((m + 30) / 32, (n + 2) / 4, 1), dim3(8, 4, 1)>>>(a, out, m, n);
}
