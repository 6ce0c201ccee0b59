void launch_two_launches(const float *__restrict__ x, const int n, float *__restrict__ y)
{
    float *t;
    if (cudaMalloc(&t, sizeof(float)*n) != cudaSuccess) {
        return;  // nothing runs: see cudaGetLastError()
    }
    if (1 <= n)
        two_launches_0<<<dim3((n + 63) / 64, 1, 1), dim3(64, 1, 1)>>>(x, t, n);
    if (3 <= n)
        two_launches_1<<<dim3((n + 62) / 64, 1, 1), dim3(64, 1, 1)>>>(y, t, n);
    cudaFree(t);
}
