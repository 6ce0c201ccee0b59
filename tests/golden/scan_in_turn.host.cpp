void launch_scan_in_turn(const float *__restrict__ x, float *__restrict__ y, const int n)
{
    handed<float> *whole;
    if (cudaMalloc(&whole, sizeof(handed<float>)*((n + 63) / 64)) != cudaSuccess) {
        return;  // nothing runs: see cudaGetLastError()
    }
    cudaMemset(whole, 0, sizeof(handed<float>)*((n + 63) / 64));
    unsigned int *scan_in_turn_started;
    if (cudaMalloc(&scan_in_turn_started, sizeof(unsigned int)*1) != cudaSuccess) {
        cudaFree(whole);
        return;  // nothing runs: see cudaGetLastError()
    }
    cudaMemset(scan_in_turn_started, 0, sizeof(unsigned int)*1);
    if (1 <= n)
        scan_in_turn<<<dim3((n + 63) / 64, 1, 1), dim3(64, 1, 1)>>>(x, y, whole, scan_in_turn_started, n);
    cudaFree(whole);
    cudaFree(scan_in_turn_started);
}
