// proven: order (no dependences), in bounds, no races

// Philox4x32-10 of a key and a counter of two halves: one of its four words
__device__ __forceinline__ unsigned int philox(
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
__device__ __forceinline__ float philox_f32(
    unsigned long long key, unsigned long long low, unsigned long long high, int word)
{
    return (float)(philox(key, low, high, word) >> 8)*5.9604644775390625e-08f;
}
// in [0, 1), a multiple of 2^-53
__device__ __forceinline__ double philox_f64(
    unsigned long long key, unsigned long long low, unsigned long long high, int word)
{
    const unsigned int first = philox(key, low, high, 2*(word & 1));
    const unsigned int second = philox(key, low, high, 2*(word & 1) + 1);
    return (double)(((unsigned long long)first << 32 | second) >> 11)*1.1102230246251565e-16;
}
// one of the two normal numbers that Box and Muller make of two words
__device__ __forceinline__ float philox_normal_f32(
    unsigned long long key, unsigned long long low, unsigned long long high, int word)
{
    const float radius = ((float)philox(key, low, high, word & 2) + 1.0f)*2.3283064365386963e-10f;
    const float angle = 6.2831855f*philox_f32(key, low, high, (word & 2) + 1);
    return sqrtf(-2.0f*logf(radius))*(word & 1 ? sinf(angle) : cosf(angle));
}
// one of the two normal numbers that Box and Muller make of two numbers of 53 bits
__device__ __forceinline__ double philox_normal_f64(
    unsigned long long key, unsigned long long low, unsigned long long high, int word)
{
    const double radius = philox_f64(key, low, high, 0) + 1.1102230246251565e-16;
    const double angle = 6.283185307179586*philox_f64(key, low, high, 1);
    return sqrt(-2.0*log(radius))*(word & 1 ? sin(angle) : cos(angle));
}

extern "C" __global__ void __launch_bounds__(4)
numbers(const unsigned long long *__restrict__ high, const unsigned long long *__restrict__ key,
    const unsigned long long *__restrict__ low, unsigned int *__restrict__ philox_,
    float *__restrict__ philox_f32_, double *__restrict__ philox_f64_, float *__restrict__ philox_normal_f32_,
    double *__restrict__ philox_normal_f64_, const int n)
{
    const int i = blockIdx.x;
    const int w = threadIdx.x;

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
