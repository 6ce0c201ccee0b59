void launch_prefix_sum(float *__restrict__ a, const float *__restrict__ b, const int n)
{
    prefix_sum<<<dim3(1, 1, 1), dim3(1, 1, 1)>>>(a, b, n);
}
