#include <math.h>
// Philox4x32-10 of a key and a counter of two halves: one of its four words
static inline unsigned int philox(
    unsigned long long key, unsigned long long low, unsigned long long high, int word)
{
    unsigned int a = (unsigned int)low, b = (unsigned int)(low >> 32);
    unsigned int c = (unsigned int)high, d = (unsigned int)(high >> 32);
    unsigned int k = (unsigned int)key, m = (unsigned int)(key >> 32);
    for (int round = 0; round < 10; ++round) {
        const unsigned long long first = (unsigned long long)0xD2511F53u*a;
        const unsigned long long second = (unsigned long long)0xCD9E8D57u*c;
        a = (unsigned int)(second >> 32) ^ b ^ k;
        b = (unsigned int)second;
        c = (unsigned int)(first >> 32) ^ d ^ m;
        d = (unsigned int)first;
        k += 0x9E3779B9u;
        m += 0xBB67AE85u;
    }
    return word & 2 ? word & 1 ? d : c : word & 1 ? b : a;
}
// in [0, 1), a multiple of 2^-24
static inline float philox_f32(
    unsigned long long key, unsigned long long low, unsigned long long high, int word)
{
    return (float)(philox(key, low, high, word) >> 8)*5.9604644775390625e-08f;
}
// in [0, 1), a multiple of 2^-53
static inline double philox_f64(
    unsigned long long key, unsigned long long low, unsigned long long high, int word)
{
    const unsigned int first = philox(key, low, high, 2*(word & 1));
    const unsigned int second = philox(key, low, high, 2*(word & 1) + 1);
    return (double)(((unsigned long long)first << 32 | second) >> 11)*1.1102230246251565e-16;
}
// one of the two normal numbers that Box and Muller make of two words
static inline float philox_normal_f32(
    unsigned long long key, unsigned long long low, unsigned long long high, int word)
{
    const float radius = ((float)philox(key, low, high, word & 2) + 1.0f)*2.3283064365386963e-10f;
    const float angle = 6.2831855f*philox_f32(key, low, high, (word & 2) + 1);
    return sqrtf(-2.0f*logf(radius))*(word & 1 ? sinf(angle) : cosf(angle));
}
// one of the two normal numbers that Box and Muller make of two numbers of 53 bits
static inline double philox_normal_f64(
    unsigned long long key, unsigned long long low, unsigned long long high, int word)
{
    const double radius = philox_f64(key, low, high, 0) + 1.1102230246251565e-16;
    const double angle = 6.283185307179586*philox_f64(key, low, high, 1);
    return sqrt(-2.0*log(radius))*(word & 1 ? sin(angle) : cos(angle));
}

void numbers(const unsigned long long *restrict high, const unsigned long long *restrict key,
    const unsigned long long *restrict low, unsigned int *restrict philox_, float *restrict philox_f32_,
    double *restrict philox_f64_, float *restrict philox_normal_f32_, double *restrict philox_normal_f64_,
    const int n)
{
    #pragma omp parallel for if(20LL*n >= 32768)
    for (int g0_ = 0; g0_ < n; ++g0_) {
        const int i = g0_;

        for (int l0_ = 0; l0_ < 4; ++l0_) {
            const int w = l0_;
            // insn
            philox_[4*i + w] = philox(key[i], low[i], high[i], w);
            // insn_0
            philox_f32_[4*i + w] = philox_f32(key[i], low[i], high[i], w);
            // insn_1
            philox_f64_[4*i + w] = philox_f64(key[i], low[i], high[i], w);
            // insn_2
            philox_normal_f32_[4*i + w] = philox_normal_f32(key[i], low[i], high[i], w);
            // insn_3
            philox_normal_f64_[4*i + w] = philox_normal_f64(key[i], low[i], high[i], w);
        }
    }
}
