void launch_chained_scan(const float *__restrict__ x, float *__restrict__ y, const int n)
{
    flagged<float> *whole;
    if (cudaMalloc(&whole, sizeof(flagged<float>)*((n + 63) / 64)) != cudaSuccess) {
        return;  // nothing runs: see cudaGetLastError()
    }
    cudaMemset(whole, 0, sizeof(flagged<float>)*((n + 63) / 64));
    unsigned int *chained_scan_started;
    if (cudaMalloc(&chained_scan_started, sizeof(unsigned int)*1) != cudaSuccess) {
        cudaFree(whole);
        return;  // nothing runs: see cudaGetLastError()
    }
    cudaMemset(chained_scan_started, 0, sizeof(unsigned int)*1);
    if (1 <= n)
        chained_scan<<<dim3((n + 63) / 64, 1, 1), dim3(64, 1, 1)>>>(x, y, whole, chained_scan_started, n);
    cudaFree(whole);
    cudaFree(chained_scan_started);
}
