// Matrix products with weights that were packed once: C = A · Wᵀ, in fp32 or in int8.
//
//     weights [out, in]  ──pack──►  panels of 32 outputs; the inputs of a panel follow each other
//     A  rows of inputs  ──tile──►  up to ROWS rows × one panel, summed in registers
//
// int8: weights have one scale per output, activations one per row (0…255 with 128 as zero), so that a row has the same
// result in any batch. Sums are exact in int32.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <immintrin.h>

namespace qkv {

#if defined(__AVX512F__)
constexpr int LANES = 16, ROWS = 14;
#else
constexpr int LANES = 8, ROWS = 6;
#endif
constexpr int PANEL = 32, VECTORS = PANEL / LANES, DEPTH = 4;  // DEPTH: inputs that one int8 instruction multiplies

typedef float vf __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t vi __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

inline vf load(const float* from) { return *reinterpret_cast<const vf*>(from); }
inline void store(float* to, vf x) { *reinterpret_cast<vf*>(to) = x; }
// Not vf{} + x: that is an addition, because -0 + 0 is 0, and the products have one for each number that they read.
#if defined(__AVX512F__)
inline vf all(float x) { return (vf)_mm512_set1_ps(x); }
#else
inline vf all(float x) { return (vf)_mm256_set1_ps(x); }
#endif
inline vf larger(vf a, vf b) { return a > b ? a : b; }

// Halves are added to each other, so that a sum of 16 takes four steps.
#if defined(__AVX512F__)
inline float sum(vf x) { return _mm512_reduce_add_ps((__m512)x); }
inline float largest(vf x) { return _mm512_reduce_max_ps((__m512)x); }
inline unsigned above(vf x, float limit) { return _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(limit), _CMP_GT_OQ); }
#else
inline float sum(vf x) {
    __m128 y = _mm_add_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));
    y = _mm_add_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
}
inline float largest(vf x) {
    __m128 y = _mm_max_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));
    y = _mm_max_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_max_ss(y, _mm_movehdup_ps(y)));
}
inline unsigned above(vf x, float limit) {
    return _mm256_movemask_ps(_mm256_cmp_ps((__m256)x, _mm256_set1_ps(limit), _CMP_GT_OQ));
}
#endif

// exp with a relative error below 2e-7: 2^n · p(r), where x = n·ln 2 + r and |r| ≤ ln 2 / 2.
inline vf exp(vf x) {
    x = x < -87.0f ? all(-87.0f) : x;
    x = x > 88.0f ? all(88.0f) : x;
    const vf shifted = x * 1.44269504f + 12582912.0f;  // adding 1.5 · 2^23 rounds to an integer
    const vf n = shifted - 12582912.0f;
    const vf r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    vf p = all(1.9875691e-4f);
    p = p * r + 1.3981999e-3f;
    p = p * r + 8.3334519e-3f;
    p = p * r + 4.1665796e-2f;
    p = p * r + 1.6666665e-1f;
    p = p * r + 5.0000001e-1f;
    p = p * r * r + r + 1.0f;
    const vi power = (__builtin_convertvector(n, vi) + 127) << 23;
    return p * reinterpret_cast<const vf&>(power);
}

// tanh by exp; exact to about 2e-7.
inline vf tanh(vf x) {
    const vf e = exp(x * 2.0f);
    return 1.0f - 2.0f / (e + 1.0f);
}

// erf (Abramowitz & Stegun 1964, 7.1.26): the absolute error is below 1.5e-7.
inline vf erf(vf x) {
    const vf size = x < 0.0f ? -x : x;
    const vf t = 1.0f / (1.0f + 0.3275911f * size);
    vf p = all(1.061405429f);
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    const vf y = 1.0f - p * t * exp(-size * size);
    return x < 0.0f ? -y : y;
}

enum Activation { NONE, RELU, GELU, GELU_TANH, SILU, TANH };

inline vf act(vf x, int kind) {
    switch (kind) {
        case RELU: return x > 0.0f ? x : vf{};
        case GELU: return 0.5f * x * (1.0f + erf(x * 0.70710678f));
        case GELU_TANH: return 0.5f * x * (1.0f + tanh(0.79788456f * (x + 0.044715f * x * x * x)));
        case SILU: return x / (1.0f + exp(-x));
        case TANH: return tanh(x);
        default: return x;
    }
}

// Ask for a cell of a panel, PANEL_BYTES in all, that is needed later: the weights of a model are in no cache of a core.
constexpr int PANEL_BYTES = PANEL * 4;
inline void fetch(const void* cell) {
    for (int at = 0; at < PANEL_BYTES; at += 64) _mm_prefetch(static_cast<const char*>(cell) + at, _MM_HINT_T1);
}

inline int up(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }
inline int panels(int n) { return (n + PANEL - 1) / PANEL; }

// ---- fp32 -----------------------------------------------------------------------------------------------------------

using Tile = void (*)(const float* a, int stride, const float* panel, const float* next, int depth, vf (*sums)[VECTORS]);

// R rows of A, `depth` inputs each, times a packed panel, while `next` is fetched. The sums stay in registers.
template <int R>
void tile(const float* a, int stride, const float* panel, const float* next, int depth, vf (*sums)[VECTORS]) {
    vf c[R][VECTORS] = {};
    for (int k = 0; k < depth; k++, panel += PANEL, next += PANEL) {
        fetch(next);
        vf b[VECTORS];
        for (int v = 0; v < VECTORS; v++) b[v] = load(panel + v * LANES);
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) {
            const vf x = all(a[r * static_cast<size_t>(stride) + k]);
            for (int v = 0; v < VECTORS; v++) c[r][v] += x * b[v];
        }
    }
    for (int r = 0; r < R; r++)
        for (int v = 0; v < VECTORS; v++) sums[r][v] = c[r][v];
}

// ---- int8 -----------------------------------------------------------------------------------------------------------

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
constexpr bool HAS_INT8 = true;
#if defined(__AVX512VNNI__)
inline vi dot(vi sums, vi a, vi b) { return (vi)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)a, (__m512i)b); }
#else
inline vi dot(vi sums, vi a, vi b) { return (vi)_mm256_dpbusd_avx_epi32((__m256i)sums, (__m256i)a, (__m256i)b); }
#endif

using Tile8 = void (*)(const uint8_t* a, int stride, const int8_t* panel, const int8_t* next, int depth, vi (*sums)[VECTORS]);

template <int R>
void tile8(const uint8_t* a, int stride, const int8_t* panel, const int8_t* next, int depth, vi (*sums)[VECTORS]) {
    vi c[R][VECTORS] = {};
    for (int k = 0; k < depth; k += DEPTH, panel += PANEL * DEPTH, next += PANEL * DEPTH) {
        fetch(next);
        vi b[VECTORS];
        for (int v = 0; v < VECTORS; v++) std::memcpy(&b[v], panel + v * LANES * DEPTH, sizeof(vi));
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) {
            int32_t four;
            std::memcpy(&four, a + r * static_cast<size_t>(stride) + k, 4);
            const vi x = vi{} + four;
            for (int v = 0; v < VECTORS; v++) c[r][v] = dot(c[r][v], x, b[v]);
        }
    }
    for (int r = 0; r < R; r++)
        for (int v = 0; v < VECTORS; v++) sums[r][v] = c[r][v];
}
#else
constexpr bool HAS_INT8 = false;
#endif

}  // namespace qkv
