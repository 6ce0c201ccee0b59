#include <math.h>

void atomic_accesses(double *restrict total, float *restrict extreme, long long *restrict bits,
    unsigned char *restrict small, const int *restrict b, const float *restrict x, double *restrict factor,
    _Bool *restrict found, long long *restrict parity, float *restrict sample, const int n)
{
    for (int g0_ = 0; g0_ < (n + 31) / 32; ++g0_) {
        const int i_outer = g0_;

        if (32*i_outer + 32 <= n) {  // a full tile
            for (int l0_ = 0; l0_ < 32; ++l0_) {
                const int i_inner = l0_;
                long long before;

                // by_operation
                extreme[b[32*i_outer + i_inner]] =
                        x[32*i_outer + i_inner]*x[32*i_outer + i_inner] > extreme[b[32*i_outer + i_inner]]*
                        extreme[b[32*i_outer + i_inner]] ||
                        (x[32*i_outer + i_inner]*
                        x[32*i_outer + i_inner] == extreme[b[32*i_outer + i_inner]]*
                        extreme[b[32*i_outer + i_inner]] &&
                        x[32*i_outer + i_inner] > extreme[b[32*i_outer + i_inner]]) ?
                        x[32*i_outer + i_inner] : extreme[b[32*i_outer + i_inner]];
                // flip
                // flip_1
                before = bits[b[32*i_outer + i_inner]];
                bits[b[32*i_outer + i_inner]] ^= 32*(long long)i_outer + i_inner;
                // multiply
                // multiply_1
                factor[32*i_outer + i_inner] = total[b[32*i_outer + i_inner]];
                total[b[32*i_outer + i_inner]] *= (double)x[32*i_outer + i_inner];
                // insn
                parity[32*i_outer + i_inner] = before & 1;
                // within_a_word
                small[b[32*i_outer + i_inner]] |= (unsigned char)(32*i_outer + i_inner);
                // store
                sample[0] = x[32*i_outer + i_inner];
                if (x[32*i_outer + i_inner] > 2.0f) {
                    // flag
                    found[0] = 1;
                }
            }
        } else {
            for (int l0_ = 0; l0_ < 32; ++l0_) {
                const int i_inner = l0_;
                long long before;

                if (32*i_outer + i_inner < n) {
                    // by_operation
                    extreme[b[32*i_outer + i_inner]] =
                            x[32*i_outer + i_inner]*
                            x[32*i_outer + i_inner] > extreme[b[32*i_outer + i_inner]]*
                            extreme[b[32*i_outer + i_inner]] ||
                            (x[32*i_outer + i_inner]*
                            x[32*i_outer + i_inner] == extreme[b[32*i_outer + i_inner]]*
                            extreme[b[32*i_outer + i_inner]] &&
                            x[32*i_outer + i_inner] > extreme[b[32*i_outer + i_inner]]) ?
                            x[32*i_outer + i_inner] : extreme[b[32*i_outer + i_inner]];
                    // flip
                    // flip_1
                    before = bits[b[32*i_outer + i_inner]];
                    bits[b[32*i_outer + i_inner]] ^= 32*(long long)i_outer + i_inner;
                    // multiply
                    // multiply_1
                    factor[32*i_outer + i_inner] = total[b[32*i_outer + i_inner]];
                    total[b[32*i_outer + i_inner]] *= (double)x[32*i_outer + i_inner];
                    // insn
                    parity[32*i_outer + i_inner] = before & 1;
                    // within_a_word
                    small[b[32*i_outer + i_inner]] |= (unsigned char)(32*i_outer + i_inner);
                    // store
                    sample[0] = x[32*i_outer + i_inner];
                    if (x[32*i_outer + i_inner] > 2.0f) {
                        // flag
                        found[0] = 1;
                    }
                }
            }
        }
    }
}
