// proven: order (6 dependences), no read before a write, no races; barriers: 2, each needed
// undecided: whether 'add' stays inside 'h_buf': a subscript is read from memory.

extern "C" __global__ void __launch_bounds__(50)
histogram_0(float *__restrict__ h)
{
    const int j = threadIdx.x;

    // clear
    h[j] = 1.0f;
}

extern "C" __global__ void __launch_bounds__(64)
histogram_1(float *__restrict__ h, const unsigned char *b, const float *w, const int n)
{
    const int i_outer = blockIdx.x;
    const int i_thread = threadIdx.x;
    __shared__ float h_buf[50];

    const int h_init_0 = threadIdx.x;
    if (h_init_0 < 50) {
        // init_h
        h_buf[h_init_0] = 0.0f;
    }
    // h_buf: init_h writes, add reads
    // h_buf: init_h writes, store_h reads
    __syncthreads();
    for (int i_item = 0; i_item < min(4, -4*i_outer + n / 64); ++i_item) {
        // add
        atomicAdd(&h_buf[(int)b[256*i_outer + 64*i_item + i_thread]], w[256*i_outer + 64*i_item + i_thread]);
    }
    if (n <= 256*i_outer + 255 && i_thread < (n + 64) % 64) {
        const int i_item = -4*i_outer + n / 64;
        // add
        atomicAdd(&h_buf[(int)b[256*i_outer + 64*i_item + i_thread]], w[256*i_outer + 64*i_item + i_thread]);
    }
    // h_buf: add writes, store_h reads
    __syncthreads();
    const int h_store_0 = threadIdx.x;
    if (h_store_0 < 50) {
        // store_h
        atomicAdd(&h[h_store_0], h_buf[h_store_0]);
    }
}
