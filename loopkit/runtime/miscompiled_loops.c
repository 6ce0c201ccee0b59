/* Loops that C compilers have miscompiled, as one program that tests a compiler. It prints a line for each loop: its
 * name, then "right" or "wrong".
 *
 * The program has each loop twice: as in generated texts, and with volatile accesses, whose order and values a compiler
 * must not change. Both run on the same numbers, and their results must have the same bits. The program calls them
 * through volatile pointers, so that the sizes are unknown at compile time, as in a shared object.
 *
 * Most loops follow public bug reports. The reported faults are fixed by now, or will be; later versions and other
 * compilers have similar faults in the same transformations.
 */
#ifndef LOOP
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Extents of the loops, and elements of each array. */
#define N 33
#define M 24
#define LENGTH 4096

union number { unsigned long long w; double d; };

/* Integers of 24 bits and both signs, truncated to narrower types, and fractions; or small numbers. */
#define NEW_ARRAY(type, name, random) \
    type *name = malloc(LENGTH*sizeof(type)); \
    unsigned state_of_##name = 1; \
    for (int i = 0; i < LENGTH; ++i) { \
        state_of_##name = state_of_##name*1664525u + 1013904223u; \
        const int number = random ? (int)(state_of_##name >> 8) - (1 << 23) : i % 97; \
        name[i] = (type)0.5 > 0 ? (type)(number/8388608.0) : (type)number; \
    }

/* The loops as in generated texts: in x, y, n and m; TRUTH is a condition that must hold. */
#define LOOP(name, reads, writes) void name(const reads *restrict x, writes *restrict y, int n, int m)
#define Q
#define PARALLEL _Pragma("omp parallel for")
#define SIMD _Pragma("omp simd")
#define SIMD_MAX _Pragma("omp simd reduction(max: most)")
#define TRUTH(k, condition) y[k] = condition
#include __FILE__
#undef LOOP
#undef Q
#undef PARALLEL
#undef SIMD
#undef SIMD_MAX
#undef TRUTH

/* The loops in order, each after its check, which is listed before main runs. A volatile loop variable prevents
 * unroll-and-jam, which in GCC reorders volatile accesses. */
static void (*checks[99])(void);
static int listed = 0;
#define LOOP(name, reads, writes) \
    void name##_in_order(const volatile reads *restrict, volatile writes *restrict, int, int); \
    static void check_##name(void) \
    { \
        void (*volatile compiled)(const reads *restrict, writes *restrict, int, int) = name; \
        void (*volatile in_order)(const volatile reads *restrict, volatile writes *restrict, int, int) = \
            name##_in_order; \
        NEW_ARRAY(reads, x, 1) \
        NEW_ARRAY(writes, found, 0) \
        NEW_ARRAY(writes, wanted, 0) \
        printf("%s", #name); \
        compiled(x, found, N, M); \
        in_order(x, wanted, N, M); \
        puts(memcmp(found, wanted, LENGTH*sizeof(writes)) == 0 ? " right" : " wrong"); \
    } \
    __attribute__((constructor)) static void list_##name(void) { checks[listed++] = check_##name; } \
    void name##_in_order(const volatile reads *restrict x, volatile writes *restrict y, int n, int m)
#define Q volatile
#define PARALLEL
#define SIMD
#define SIMD_MAX
#define TRUTH(k, condition) y[k] = 1
#include __FILE__

int main(void)
{
    /* the name of a loop that crashes is out by then */
    setbuf(stdout, NULL);
    for (int k = 0; k < listed; ++k)
        checks[k]();
    return 0;
}

#else
/* GCC 12.2, -O3 with masked stores (AVX2, AVX-512): half of the elements */
LOOP(guarded_copy, float, float)
{
    Q float f[15][22];
    for (Q int a = 0; a < 15; ++a)
        for (Q int b = 0; b < 22; ++b)
            if (b % 3 == 0 && a % 2 == 0)
                f[a][b] = x[a*(3*m) + b];
    for (Q int i = 0; i < 8; ++i)
        for (Q int j = 0; j < 8; ++j)
            y[i*m + j] = f[2*i][3*j];
}

/* GCC 14, PR 114375: pairs loaded under a mask and swapped */
LOOP(guarded_swap, int, int)
{
    for (Q int i = 0; i < n; ++i)
        if (x[i] > 0) {
            y[2*i] = x[2*i + 101];
            y[2*i + 1] = x[2*i + 100];
        }
}

/* LLVM 63602: a group of strided accesses that overlaps another one */
LOOP(strided_update, int, int)
{
    for (Q int i = 4; i < 10*n; i += 3) {
        y[i] = x[i];
        y[i - 1] &= 1;
        y[i] += 1;
    }
}

/* LLVM 64047: an element is read, changed and kept in a scalar */
LOOP(kept_in_scalar, int, int)
{
    Q int last = 0, flag = 0;
    for (Q int j = 0; j < m; ++j) {
        for (Q int i = 0; i < 6; ++i)
            last = y[i] ^= flag > x[j];
        flag = 1;
    }
    y[100] = last;
}

/* GCC PR 65947 and others: the last element that meets a condition */
LOOP(last_that_is_less, signed char, signed char)
{
    Q signed char last = -72;
    for (Q int i = 0; i < 8*n - 9; ++i)
        if (x[i] < -100)
            last = x[i];
    y[0] = last;
}

/* LLVM 39001 and others: dependences nearer than a vector is long */
LOOP(near_dependences, int, int)
{
    for (Q int i = 7; i < 3*n; ++i)
        y[i] = y[i - 1] + x[i];
    for (Q int i = 7; i < 3*n; ++i)
        y[i] = y[i - 3]*3 + x[i];
    for (Q int i = 7; i < 3*n; ++i)
        y[i] = y[i - 7] - x[i];
    for (Q int i = 3*n; i > 0; --i)
        y[i] = y[i - 1] + x[i];
    for (Q int i = 3*n; i > 7; --i)
        y[i - 5] = y[i] ^ x[i];
}

/* GCC PR 116575, 115843: groups of three and four, with gaps */
LOOP(groups_with_gaps, short, short)
{
    for (Q int i = 0; i < n; ++i) {
        y[4*i] = x[3*i + 2] + x[3*i];
        y[4*i + 1] = x[3*i + 1];
        y[4*i + 3] = x[3*i] - x[3*i + 1];
    }
    for (Q int i = n - 1; i >= 0; --i)
        y[1000 + 2*i] = x[4*i + 3]*x[4*i];
}

/* sums of narrow products, averages, and shifts, for which there are instructions of their own */
LOOP(narrow_numbers, unsigned char, int)
{
    Q int sum = 0, difference = 0;
    Q unsigned char wrapped = 0;
    for (Q int i = 0; i < 3*n; ++i)
        sum += x[i]*(signed char)x[i + 200];
    for (Q int i = 0; i < 3*n; ++i)
        difference += x[i] > x[i + 9] ? x[i] - x[i + 9] : x[i + 9] - x[i];
    for (Q int i = 0; i < 3*n; ++i)
        wrapped += x[i];
    for (Q int i = 0; i < n; ++i)
        y[i] = ((x[i] + x[i + 1] + 1) >> 1) + ((unsigned short)(x[i] << 9) >> 3);
    y[200] = sum;
    y[201] = difference;
    y[202] = wrapped;
}

LOOP(gathered, unsigned short, int)
{
    for (Q int i = 0; i < n; ++i)
        y[i] = x[x[i] % 1000];
    for (Q int i = 0; i < n; ++i)
        y[64 + x[i] % 16] += i;
    for (Q int i = 0; i < n; ++i)
        if (x[i] % 3 != 1)
            y[128 + x[i] % 700] = i;
}

/* GCC 12 and 13, -O3, unroll and jam: an older value stays */
LOOP(written_again, double, double)
{
    for (Q int j = 0; j < n; ++j)
        for (Q int i = 0; i < n; ++i)
            y[j + i] = x[j] + x[j + 1] + x[j];
}

/* GCC, unroll and jam (gcc.dg/unroll-and-jam, PR 107323 and others) */
LOOP(set_in_inner_loop, int, int)
{
    for (Q int i = 0; i < n; ++i) {
        y[i] = 0;
        for (Q int j = 0; j < m; ++j)
            if (x[j] % 7 == 3)
                y[i] = x[j] + i;
    }
}

LOOP(carried_through_scalar, int, int)
{
    Q int last = 3;
    for (Q int j = 0; j < 11; ++j) {
        int before = last;
        for (Q int i = 0; i < 5; ++i) {
            y[i] = i - before - (y[i] >> 5) + x[j];
            last = y[i];
        }
    }
}

/* interchange and vectors of outer loops: distances (1, -1), (1, -2) */
LOOP(skewed_dependences, int, int)
{
    for (Q int i = 1; i < n; ++i)
        for (Q int j = 0; j < m; ++j)
            y[64*i + j] = y[64*(i - 1) + j + 1] + x[64*j + i];
    for (Q int i = 1; i < n; ++i)
        for (Q int j = 0; j < m; ++j)
            y[64*j + i] += y[64*(j + 2) + i - 1] ^ x[i];
}

/* predictive commoning: values carried in registers over a write between them */
LOOP(reused_values, int, int)
{
    for (Q int i = 2; i < 3*n; ++i) {
        y[i] = y[i - 2] + x[i] + x[i - 1];
        y[i - 1] = y[i]*x[i + 1];
    }
}

/* distribution, and loops that become calls of memset, memcpy and memmove */
LOOP(distributed, int, int)
{
    for (Q int i = 0; i < n; ++i) {
        y[i] = x[i];
        y[i + 501] = y[i + 500] + y[i];
        y[i + 1] = 0;
    }
    for (Q int i = 0; i < n; ++i)
        y[1000 + i] = y[1001 + i];
    for (Q int i = 0; i < n; ++i)
        y[1101 + i] = y[1100 + i];
    for (Q int j = 0; j < 3; ++j)
        for (Q int i = 0; i < m; ++i)
            y[1200 + j*(m - 2) + i] = j;
}

LOOP(triangular, int, int)
{
    for (Q int i = 0; i < n; ++i)
        for (Q int j = i; j < n; ++j)
            for (Q int k = 0; k <= i; ++k)
                y[40*i + j] += x[40*i + k]*x[40*j + k];
    for (Q int i = 0; i < n; ++i)
        for (Q int j = i + 1; j < n; ++j)
            y[40*j + i] = y[40*i + j];
}

LOOP(written_out, float, float)
{
    for (Q int i = 0; i < n; ++i) {
        Q float f[4];
        for (Q int v = 0; v < 4; ++v)
            f[v] = x[4*i + v]*x[4*i + 3 - v];
        for (Q int v = 0; v < 4; ++v)
            if (4*i + v < 4*n - 3)
                y[4*i + v] = f[v ^ 1] - f[v];
    }
}

LOOP(overlapping_rows, double, double)
{
    for (Q int i = 0; i < n; ++i) {
        y[i] = x[2*i];
        y[i + 1] = x[2*i + 1];
        y[i + 2] = y[i] + x[2*i + 2];
        y[i + 3] = y[i + 1] + x[2*i + 3];
    }
}

LOOP(in_parallel, float, float)
{
    PARALLEL
    for (Q int j = 0; j < m; ++j)
        for (Q int i = 0; i < n; ++i) {
            const int k = 64*j + i;
            Q float f[3];
            for (Q int r = 0; r < 3; ++r)
                f[r] = x[k + r];
            y[k] = f[0] - f[2]*f[1];
        }
}

LOOP(special_values, double, int)
{
    volatile unsigned long long bits[] = {0, 1ull << 63, 0x7ffull << 52, 0xfff8ull << 48, 1};
    union number v[5];
    for (Q int i = 0; i < 5; ++i)
        v[i].w = bits[i];
    const double zero = v[0].d, minus = v[1].d, infinite = v[2].d, nan = v[3].d, least = v[4].d;
    TRUTH(0, nan != nan);
    TRUTH(1, !(nan < 1) && !(nan >= 1));
    TRUTH(2, isnan(nan) && !isnan(infinite));
    TRUTH(3, infinite > 1e308 && isinf(infinite));
    TRUTH(4, 1/(minus + minus) < 0);
    TRUTH(5, 1/(minus + 0.0) > 0);
    TRUTH(6, 1/(zero*-1) < 0);
    TRUTH(7, isnan(infinite - infinite) && isnan(infinite*zero) && isnan(zero/zero));
    TRUTH(8, fmax(nan, 1) == 1 && fmin(1, nan) == 1);
    TRUTH(9, isnan(sqrt(minus - 1)) && sqrt(infinite) == infinite);
    TRUTH(10, least > 0 && least/2 == 0 && least*3/3 == least);
    double greatest = minus - infinite;
    for (Q int i = 0; i < 5; ++i)
        greatest = greatest < v[i].d ? v[i].d : greatest;
    TRUTH(11, greatest == infinite);
}

LOOP(rounding, double, int)
{
    volatile double tiny = 1.0/(1 << 30), large = 1e16;
    volatile float small = 1.0f/(1 << 13), five = 5;
    double a[16], b[16];
    float f[16], g[16];
    for (Q int i = 0; i < 16; ++i) {
        a[i] = 1 + tiny;
        b[i] = 1 - tiny;
        f[i] = 1 + small;
        g[i] = 1 - small;
    }
    int exact = 0;
    for (Q int i = 0; i < 16; ++i)
        exact += a[i]*b[i] - 1 == 0;
    for (Q int i = 0; i < 16; ++i)
        exact += f[i]*g[i] - 1 == 0;
    TRUTH(0, exact == 32);
    double sum = 0;
    for (Q int i = 0; i < 16; ++i)
        a[i] = i == 0 ? large : i == 15 ? -large : 1;
    for (Q int i = 0; i < 16; ++i)
        sum += a[i];
    TRUTH(1, sum == 0);
    exact = 0;
    const float divisor = five + 2;
    for (Q int i = 0; i < 16; ++i)
        f[i] = five + i;
    for (Q int i = 0; i < 16; ++i)
        g[i] = f[i]/divisor;
    for (Q int i = 0; i < 16; ++i) {
        volatile float quotient = (five + i)/(five + 2);
        exact += g[i] == quotient;
    }
    TRUTH(2, exact == 16);
}

/* SIMD loops: conditional values, gathered elements, a reduction in any order, and small arrays in registers */
LOOP(in_vector_units, double, double)
{
    Q double f[4][16];
    double most = x[0];
    SIMD for (Q int i = 0; i < n; ++i)
        y[i] = x[i] > 0 ? x[i]*x[i + 1] : -x[i];
    SIMD for (Q int i = 0; i < n; ++i)
        y[64 + i] = x[7*i % 40];
    for (Q int i = 0; i < 4; ++i)
        SIMD for (Q int j = 0; j < 16; ++j)
            f[i][j] = 0;
    for (Q int k = 0; k < m; ++k)
        for (Q int i = 0; i < 4; ++i)
            SIMD for (Q int j = 0; j < 16; ++j)
                f[i][j] += x[4*k + i]*x[16*k + j];
    for (Q int i = 0; i < 4; ++i)
        SIMD for (Q int j = 0; j < 16; ++j)
            y[128 + 16*i + j] = f[i][j];
    SIMD_MAX for (Q int i = 0; i < n; ++i)
        most = x[i] > most ? x[i] : most;
    y[256] = most;
}

LOOP(integers, int, int)
{
    volatile int most = 2147483647, seven = -7, two = 2;
    volatile long long longest = 9223372036854775807;
    volatile double number = -2.9;
    int last = most, steps = 0;
    long long far = longest;
    TRUTH(0, last + 1 < last && far + 1 < far);
    TRUTH(1, -(last + 1) == last + 1 && last*2 == -2 && far*2 == -2);
    for (Q int i = last - 2; i > 0 && steps < 9; ++i)
        ++steps;
    TRUTH(2, steps == 3);
    TRUTH(3, seven/two == -3 && seven % two == -1 && seven >> 1 == -4);
    TRUTH(4, (float)(unsigned)-1 == 4294967296.0f && (unsigned)-1/(unsigned)two == 2147483647);
    TRUTH(5, (double)((1ll << 53) + seven + 8) == 9007199254740992);
    TRUTH(6, (int)number == -2 && (signed char)(seven*51) == -101 && (unsigned char)seven == 249);
}

#endif
