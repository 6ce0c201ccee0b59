// proven: order (9 dependences), in bounds, no read before a write, no races; barriers: 3, each needed

extern "C" __global__ void __launch_bounds__(256)
column_sum_0(const float *__restrict__ x, float *__restrict__ partial, const int m, const int n)
{
    const int b = blockIdx.y;
    const int j_outer = blockIdx.x;
    const int j_inner = threadIdx.x;
    const int i_thread = threadIdx.y;
    float acc_i;
    __shared__ float acc_i_shared[32][8];  // combined as a tree: of threads that are not neighbours

    if (32*j_outer + 32 <= m) {  // a full tile
        // partial.i.init
        acc_i = 0.0f;
        for (int i_outer = 8*b; i_outer < min(8*b + 8, n / 32); ++i_outer) {
            #pragma unroll
            for (int i_item = 0; i_item < 4; ++i_item) {
                // partial.i.update
                acc_i += x[(32*i_outer + 8*i_item + i_thread)*m + 32*j_outer + j_inner];
            }
        }
        if (n <= 256*b + 255 && i_thread < (n + 32) % 32) {
            const int i_outer = n / 32;
            #pragma unroll
            for (int i_item = 0; i_item < 4; ++i_item) {
                if (32*i_outer + 8*i_item + i_thread < n) {
                    // partial.i.update
                    acc_i += x[(32*i_outer + 8*i_item + i_thread)*m + 32*j_outer + j_inner];
                }
            }
        }
        // partial.i.store
        acc_i_shared[j_inner][i_thread] = acc_i;
        // acc_i_shared: partial.i.store writes, partial.i.step0 reads
        __syncthreads();
        if (i_thread <= 3) {
            // partial.i.step0
            acc_i_shared[j_inner][i_thread] += acc_i_shared[j_inner][i_thread + 4];
        }
        // acc_i_shared: partial.i.step0 writes, partial.i.step1 reads
        __syncthreads();
        if (i_thread <= 1) {
            // partial.i.step1
            acc_i_shared[j_inner][i_thread] += acc_i_shared[j_inner][i_thread + 2];
        }
        // acc_i_shared: partial.i.step1 writes, partial.i.step2 reads
        __syncthreads();
        if (i_thread == 0) {
            // partial.i.step2
            acc_i_shared[j_inner][i_thread] += acc_i_shared[j_inner][i_thread + 1];
        }
        if ((int)threadIdx.y == 0) {
            // partial
            partial[b*m + 32*j_outer + j_inner] = acc_i_shared[j_inner][0];
        }
    } else {
        if (32*j_outer + j_inner < m) {
            // partial.i.init
            acc_i = 0.0f;
            for (int i_outer = 8*b; i_outer < min(8*b + 8, (-i_thread + n + 31) / 32); ++i_outer) {
                #pragma unroll
                for (int i_item = 0; i_item < 4; ++i_item) {
                    if (32*i_outer + 8*i_item + i_thread < n) {
                        // partial.i.update
                        acc_i += x[(32*i_outer + 8*i_item + i_thread)*m + 32*j_outer + j_inner];
                    }
                }
            }
            // partial.i.store
            acc_i_shared[j_inner][i_thread] = acc_i;
        }
        // acc_i_shared: partial.i.store writes, partial.i.step0 reads
        __syncthreads();
        if (i_thread <= 3 && 32*j_outer + j_inner < m) {
            // partial.i.step0
            acc_i_shared[j_inner][i_thread] += acc_i_shared[j_inner][i_thread + 4];
        }
        // acc_i_shared: partial.i.step0 writes, partial.i.step1 reads
        __syncthreads();
        if (i_thread <= 1 && 32*j_outer + j_inner < m) {
            // partial.i.step1
            acc_i_shared[j_inner][i_thread] += acc_i_shared[j_inner][i_thread + 2];
        }
        // acc_i_shared: partial.i.step1 writes, partial.i.step2 reads
        __syncthreads();
        if (i_thread == 0 && 32*j_outer + j_inner < m) {
            // partial.i.step2
            acc_i_shared[j_inner][i_thread] += acc_i_shared[j_inner][i_thread + 1];
        }
        if ((int)threadIdx.y == 0 && 32*j_outer + j_inner < m) {
            // partial
            partial[b*m + 32*j_outer + j_inner] = acc_i_shared[j_inner][0];
        }
    }
}

extern "C" __global__ void __launch_bounds__(32)
column_sum_1(float *__restrict__ s, const float *__restrict__ partial, const int m, const int n)
{
    const int k_outer = blockIdx.x;
    const int k_inner = threadIdx.x;
    float acc_c;

    if (32*k_outer + 32 <= m) {  // a full tile
        // total.c.init
        acc_c = 0.0f;
        for (int c = 0; c < (n + 255) / 256; ++c) {
            // total.c.update
            acc_c += partial[c*m + 32*k_outer + k_inner];
        }
        // total
        s[32*k_outer + k_inner] = acc_c;
    } else if (32*k_outer + k_inner < m) {
        // total.c.init
        acc_c = 0.0f;
        for (int c = 0; c < (n + 255) / 256; ++c) {
            // total.c.update
            acc_c += partial[c*m + 32*k_outer + k_inner];
        }
        // total
        s[32*k_outer + k_inner] = acc_c;
    }
}
