void launch_anywhere(const float *__restrict__ a, float *__restrict__ out, const int n)
{
    if (1 <= n)
        anywhere<<<dim3(2, n, 1), dim3(3, 1, 1)>>>(a, out, n);
}
