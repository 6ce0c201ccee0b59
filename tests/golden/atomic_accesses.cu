// proven: no read before a write, no races
// undecided: whether 'by_operation' stays inside 'extreme': a subscript is read from memory.
// undecided: whether 'flip' stays inside 'bits': a subscript is read from memory.
// undecided: whether 'flip_1' stays inside 'bits': a subscript is read from memory.
// undecided: whether 'multiply' stays inside 'total': a subscript is read from memory.
// undecided: whether 'multiply_1' stays inside 'total': a subscript is read from memory.
// undecided: whether 'within_a_word' stays inside 'small': a subscript is read from memory.
// assumed: make_kernel: 'larger' may combine its operands in any order (declared reorderable)
// assumed: make_kernel: 'flip' may keep the old values in any order (declared atomic)
// assumed: make_kernel: 'multiply' may keep the old values in any order (declared atomic)
// assumed: make_atomic('store'): the atomic stores of 'store' to 'sample' may run in any order (any element
//   is a sample)

// replaces an element by a function of its value, by compare-and-swap of the word around it
template <typename Word, typename T, typename F>
__device__ __forceinline__ T swap_in_word(Word *word, const T *, F new_value, unsigned int shift)
{
    const Word others = sizeof(T) == sizeof(Word) ? 0 : ~((((Word)1 << 8*sizeof(T) % (8*sizeof(Word))) - 1) << shift);
    Word last, seen = *word;
    T old = {};
    do {
        last = seen;
        const Word part = last >> shift;
        memcpy(&old, &part, sizeof(T));
        const T value = new_value(old);
        Word bits = 0;
        memcpy(&bits, &value, sizeof(T));
        seen = atomicCAS(word, last, (last & others) | bits << shift);
    } while (seen != last);
    return old;
}
template <typename T, typename F>
__device__ __forceinline__ T atomic_update(T *target, F new_value)
{
    if constexpr (sizeof(T) == 8) {
        return swap_in_word(reinterpret_cast<unsigned long long *>(target), target, new_value, 0);
    } else if constexpr (sizeof(T) == 4) {
        return swap_in_word(reinterpret_cast<unsigned int *>(target), target, new_value, 0);
    } else {
        const unsigned int at = reinterpret_cast<unsigned long long>(target) % 4;
        return swap_in_word(
            reinterpret_cast<unsigned int *>(reinterpret_cast<char *>(target) - at), target, new_value, 8*at);
    }
}

extern "C" __global__ void __launch_bounds__(32)
atomic_accesses(double *__restrict__ total, float *__restrict__ extreme, long long *__restrict__ bits,
    unsigned char *__restrict__ small, const int *b, const float *x, double *__restrict__ factor,
    bool *__restrict__ found, long long *__restrict__ parity, float *__restrict__ sample, const int n)
{
    const int i_outer = blockIdx.x;
    const int i_inner = threadIdx.x;
    long long before;

    if (32*i_outer + 32 <= n) {  // a full tile
        // by_operation
        atomic_update(&extreme[b[32*i_outer + i_inner]],
                [&](float old_) { return x[32*i_outer + i_inner]*x[32*i_outer + i_inner] > old_*old_ ||
                (x[32*i_outer + i_inner]*x[32*i_outer + i_inner] == old_*old_ &&
                x[32*i_outer + i_inner] > old_) ? x[32*i_outer + i_inner] : old_; });
        // flip
        // flip_1
        before = atomicXor((unsigned long long *)&bits[b[32*i_outer + i_inner]],
                (unsigned long long)(32*(long long)i_outer + i_inner));
        // multiply
        // multiply_1
        factor[32*i_outer + i_inner] =
                atomic_update(&total[b[32*i_outer + i_inner]],
                [&](double old_) { return old_*x[32*i_outer + i_inner]; });
        // insn
        parity[32*i_outer + i_inner] = before & 1;
        // within_a_word
        atomic_update(&small[b[32*i_outer + i_inner]],
                [&](unsigned char old_) { return old_ | (unsigned char)(32*i_outer + i_inner); });
        // store
        *(volatile float *)&sample[0] = x[32*i_outer + i_inner];
        if (x[32*i_outer + i_inner] > 2.0f) {
            // flag
            *(volatile bool *)&found[0] = true;
        }
    } else if (32*i_outer + i_inner < n) {
        // by_operation
        atomic_update(&extreme[b[32*i_outer + i_inner]],
                [&](float old_) { return x[32*i_outer + i_inner]*x[32*i_outer + i_inner] > old_*old_ ||
                (x[32*i_outer + i_inner]*x[32*i_outer + i_inner] == old_*old_ &&
                x[32*i_outer + i_inner] > old_) ? x[32*i_outer + i_inner] : old_; });
        // flip
        // flip_1
        before = atomicXor((unsigned long long *)&bits[b[32*i_outer + i_inner]],
                (unsigned long long)(32*(long long)i_outer + i_inner));
        // multiply
        // multiply_1
        factor[32*i_outer + i_inner] =
                atomic_update(&total[b[32*i_outer + i_inner]],
                [&](double old_) { return old_*x[32*i_outer + i_inner]; });
        // insn
        parity[32*i_outer + i_inner] = before & 1;
        // within_a_word
        atomic_update(&small[b[32*i_outer + i_inner]],
                [&](unsigned char old_) { return old_ | (unsigned char)(32*i_outer + i_inner); });
        // store
        *(volatile float *)&sample[0] = x[32*i_outer + i_inner];
        if (x[32*i_outer + i_inner] > 2.0f) {
            // flag
            *(volatile bool *)&found[0] = true;
        }
    }
}
