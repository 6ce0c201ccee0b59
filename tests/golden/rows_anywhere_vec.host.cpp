void launch_anywhere(const float *__restrict__ a, float *__restrict__ out, const int n)
{
    if (1 <= n)
        anywhere<<<dim3(n, 1, 1), dim3(2, 1, 1)>>>(a, out, n);
}
