void launch_histogram(float *__restrict__ h, const unsigned char *__restrict__ b, const float *__restrict__ w,
    const int n)
{
    histogram_0<<<dim3(1, 1, 1), dim3(50, 1, 1)>>>(h);
    if (1 <= n)
        histogram_1<<<dim3((n + 255) / 256, 1, 1), dim3(64, 1, 1)>>>(h, b, w, n);
}
