#include <math.h>
static inline int min_i32(int a, int b)
{
    return b < a ? b : a;
}

void histogram_0(float *restrict h)
{
    for (int l0_ = 0; l0_ < 50; ++l0_) {
        const int j = l0_;
        // clear
        h[j] = 1.0f;
    }
}

void histogram_1(float *restrict h, const unsigned char *restrict b, const float *restrict w, const int n)
{
    #pragma omp parallel for if(448LL*((n + 255) / 256) >= 32768)
    for (int g0_ = 0; g0_ < (n + 255) / 256; ++g0_) {
        const int i_outer = g0_;
        float h_buf[50];

        for (int l0_ = 0; l0_ < 64; ++l0_) {
            const int h_init_0 = l0_;
            if (h_init_0 < 50) {
                // init_h
                h_buf[h_init_0] = 0.0f;
            }
        }
        // barrier: the threads' loops end here
        // h_buf: init_h writes, add reads
        // h_buf: init_h writes, store_h reads
        for (int l0_ = 0; l0_ < 64; ++l0_) {
            const int i_thread = l0_;
            for (int i_item = 0; i_item < min_i32(4, -4*i_outer + n / 64); ++i_item) {
                // add
                h_buf[(int)b[256*i_outer + 64*i_item + i_thread]] += w[256*i_outer + 64*i_item + i_thread];
            }
            if (n <= 256*i_outer + 255 && i_thread < (n + 64) % 64) {
                const int i_item = -4*i_outer + n / 64;
                // add
                h_buf[(int)b[256*i_outer + 64*i_item + i_thread]] += w[256*i_outer + 64*i_item + i_thread];
            }
        }
        // barrier: the threads' loops end here
        // h_buf: add writes, store_h reads
        for (int l0_ = 0; l0_ < 64; ++l0_) {
            const int h_store_0 = l0_;
            if (h_store_0 < 50) {
                // store_h
                #pragma omp atomic
                h[h_store_0] += h_buf[h_store_0];
            }
        }
    }
}
