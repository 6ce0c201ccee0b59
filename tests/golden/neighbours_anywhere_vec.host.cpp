void launch_neighbours(const float *__restrict__ a, float *__restrict__ out, const int n)
{
    if (3 <= n)
        neighbours<<<dim3(2, n / 2, 1), dim3(2, 1, 1)>>>(a, out, n);
}
