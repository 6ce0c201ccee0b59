// CUB's algorithms for whole devices, each as a function that Python calls. The first call of each asks how much memory
// it needs, with no memory given; all return CUDA's error.
#include <cub/cub.cuh>

#define HISTOGRAM(name, T) \
    extern "C" int name(void *memory, size_t *bytes, const T *x, int *counts, int bins, int n) \
    { return cub::DeviceHistogram::HistogramEven(memory, *bytes, x, counts, bins + 1, 0, bins, n); }

#define SCAN(name, T) \
    extern "C" int name(void *memory, size_t *bytes, const T *x, T *y, int n) \
    { return cub::DeviceScan::InclusiveSum(memory, *bytes, x, y, n); }

HISTOGRAM(histogram_uint8, unsigned char)
HISTOGRAM(histogram_int32, int)
SCAN(scan_float32, float)
