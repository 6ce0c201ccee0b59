void launch_stencil_2d(const float *__restrict__ a, float *__restrict__ out, const int m, const int n)
{
    if ((m + 14) / 16 > 0 && (n + 14) / 16 > 0)
        stencil_2d<<<dim3((m + 14) / 16, (n + 14) / 16, 1), dim3(16, 16, 1)>>>(a, out, m, n);
}
