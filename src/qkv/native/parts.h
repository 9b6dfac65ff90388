// What encoder.cpp and decoder.cpp are made of: packed weights, products shared by a team of threads, norms, attention.
#pragma once
#include "tiles.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include <sys/mman.h>

namespace qkv {
namespace {

// Inputs of a block of rows stay in a core's own cache while all panels pass by. At least 8 tiles of 14 rows.
constexpr int GROUP = 112, BLOCK_BYTES = 512 << 10;

// One tile of rows reads weights as fast as the memory gives them. How far ahead it asks for them: from 2 to 16 KB make
// no difference on a Xeon (Sapphire Rapids); 4 KB have up to 1.4 times the speed of none.
constexpr int AHEAD = 4096;

// Fewer and larger pages: 5 to 15 % on the weights of Transformer-base. Parts of less than half a page keep small ones.
constexpr size_t PAGE = 2 << 20;

// Memory aligned to a cache line; on large pages where there are any.
template <class T> struct Buffer {
    T* data = nullptr;
    size_t size = 0;
    Buffer() = default;
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    Buffer(Buffer&& other) noexcept : data(std::exchange(other.data, nullptr)), size(std::exchange(other.size, 0)) {}
    ~Buffer() { std::free(data); }
    T* at_least(size_t count) {
        if (count > size) {
            std::free(data);
            const size_t bytes = (count * sizeof(T) + 127) / 64 * 64, large = (bytes + PAGE / 2) / PAGE * PAGE;
            data = static_cast<T*>(std::aligned_alloc(large ? PAGE : 64, std::max(bytes, large)));
            if (!data) throw std::bad_alloc();
            if (large) madvise(data, large, MADV_HUGEPAGE);
            size = count;
        }
        return data;
    }
};

// ---- what a model holds ---------------------------------------------------------------------------------------------

struct Weights {
    int in = 0, out = 0, depth = 0;  // depth: inputs of a packed row
    bool int8 = false;
    Buffer<float> floats, bias, scale;
    Buffer<int8_t> bytes;
    Buffer<int32_t> shift;  // what the 128 of unsigned activations adds to each sum

    void pack(const float* weight, const float* given, int inputs, int outputs, bool quantised) {
        in = inputs, out = outputs, int8 = quantised;
        const int wide = panels(out) * PANEL;
        std::fill_n(bias.at_least(wide), wide, 0.0f);
        if (given) std::copy_n(given, out, bias.data);
        if (int8) pack_bytes(weight, wide);
        else pack_floats(weight, wide);
    }

    void pack_floats(const float* weight, int wide) {
        depth = in;
        float* to = floats.at_least(static_cast<size_t>(wide) * depth);
        std::fill_n(to, static_cast<size_t>(wide) * depth, 0.0f);
        for (int n = 0; n < out; n++)
            for (int k = 0; k < in; k++)
                to[(static_cast<size_t>(n / PANEL) * depth + k) * PANEL + n % PANEL] = weight[static_cast<size_t>(n) * in + k];
    }

    void pack_bytes(const float* weight, int wide) {
        depth = up(in, DEPTH);
        int8_t* to = bytes.at_least(static_cast<size_t>(wide) * depth);
        std::fill_n(to, static_cast<size_t>(wide) * depth, int8_t{0});
        std::fill_n(scale.at_least(wide), wide, 0.0f);
        std::fill_n(shift.at_least(wide), wide, 0);
        for (int n = 0; n < out; n++) {
            const float* row = weight + static_cast<size_t>(n) * in;
            float top = 0;
            for (int k = 0; k < in; k++) top = std::max(top, std::fabs(row[k]));
            scale.data[n] = top / 127.0f;
            const float inverse = top > 0 ? 127.0f / top : 0.0f;
            int8_t* panel = to + static_cast<size_t>(n / PANEL) * depth * PANEL + n % PANEL * DEPTH;
            int32_t total = 0;
            for (int k = 0; k < in; k++) {
                const auto q = static_cast<int8_t>(std::nearbyint(row[k] * inverse));
                panel[static_cast<size_t>(k / DEPTH) * PANEL * DEPTH + k % DEPTH] = q;
                total += q;
            }
            shift.data[n] = 128 * total;
        }
    }
};

struct Norm {
    int dim = 0;
    float eps = 0;
    Buffer<float> weight, bias;

    void set(const float* w, const float* b, int size, float epsilon) {
        dim = size, eps = epsilon;
        std::copy_n(w, dim, weight.at_least(dim));
        std::copy_n(b, dim, bias.at_least(dim));
    }

    void operator()(const float* x, float* y) const {
        vf total{};
        float rest = 0;
        int d = 0;
        for (; d + LANES <= dim; d += LANES) total += load(x + d);
        for (; d < dim; d++) rest += x[d];
        const float mean = (sum(total) + rest) / dim;
        total = vf{}, rest = 0;
        for (d = 0; d + LANES <= dim; d += LANES) {
            const vf apart = load(x + d) - mean;
            total += apart * apart;
        }
        for (; d < dim; d++) rest += (x[d] - mean) * (x[d] - mean);
        const float factor = 1.0f / std::sqrt((sum(total) + rest) / dim + eps);
        for (d = 0; d < dim; d++) y[d] = (x[d] - mean) * factor * weight.data[d] + bias.data[d];
    }
};

// Cosines and sines of rotary positions, half a head for each row; null without them.
struct Turn {
    const float *cos, *sin;
    Turn from(int64_t row, int half) const { return cos ? Turn{cos + row * half, sin + row * half} : *this; }

    // Channel pairs (i, i + size / 2) of one head.
    void operator()(float* x, int size) const {
        const int half = size / 2;
        for (int i = 0; i < half; i++) {
            const float a = x[i], b = x[i + half];
            x[i] = a * cos[i] - b * sin[i];
            x[i + half] = b * cos[i] + a * sin[i];
        }
    }
};

// ---- threads --------------------------------------------------------------------------------------------------------

// Threads of a team wait for each other here.
class Barrier {
  public:
    void expect(int count) { count_ = count, left_.store(count); }
    void wait() {
        if (count_ == 1) return;
        const int round = round_.load(std::memory_order_acquire);
        if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            left_.store(count_, std::memory_order_relaxed);
            round_.store(round + 1, std::memory_order_release);
            return;
        }
        for (int spins = 0; round_.load(std::memory_order_acquire) == round; spins++) {
            if (spins < 2000) _mm_pause();
            else std::this_thread::yield();  // on a busy machine the other thread needs the core
        }
    }

  private:
    int count_ = 1;
    std::atomic<int> left_{1}, round_{0};
};

// What a team shares, and which member this is.
struct Team {
    int me, size;
    Barrier* barrier;
    void wait() const { barrier->wait(); }
    std::pair<int, int> share(int count) const {
        return {static_cast<int>(static_cast<int64_t>(count) * me / size), static_cast<int>(static_cast<int64_t>(count) * (me + 1) / size)};
    }
};

// ---- products -------------------------------------------------------------------------------------------------------

template <int... R> constexpr auto tiles(std::integer_sequence<int, R...>) {
    struct { Tile at[ROWS]; } found{{tile<R + 1>...}};
    return found;
}
constexpr auto TILES = tiles(std::make_integer_sequence<int, ROWS>());
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
template <int... R> constexpr auto tiles8(std::integer_sequence<int, R...>) {
    struct { Tile8 at[ROWS]; } found{{tile8<R + 1>...}};
    return found;
}
constexpr auto TILES8 = tiles8(std::make_integer_sequence<int, ROWS>());
#endif

// Rows of equal tiles: 20 rows are 10 + 10, not 14 + 6.
inline int tile_rows(int rows) {
    const int count = (rows + ROWS - 1) / ROWS;
    return count ? (rows + count - 1) / count : 1;
}

// The inputs of int8 products: a scale for each row.
struct Quantised {
    Buffer<uint8_t> bytes;
    Buffer<float> scales;

    void reserve(int rows, int widest) {
        scales.at_least(rows), bytes.at_least(static_cast<size_t>(rows) * up(widest, DEPTH) + DEPTH);
    }

    void set(const float* row, int in, int r, int depth) {
        float top = 0;
        int k = 0;
        vf tops{};
        for (; k + LANES <= in; k += LANES) {
            const vf x = load(row + k);
            tops = larger(tops, x < 0.0f ? -x : x);
        }
        top = largest(tops);
        for (; k < in; k++) top = std::max(top, std::fabs(row[k]));
        uint8_t* to = bytes.data + static_cast<size_t>(r) * depth;
        scales.data[r] = top / 127.0f;
        const float inverse = top > 0 ? 127.0f / top : 0.0f;
        typedef uint8_t vb __attribute__((vector_size(LANES), aligned(1), may_alias));
        for (k = 0; k + LANES <= in; k += LANES) {
            const vf rounded = load(row + k) * inverse + (12582912.0f + 128.0f);  // rounds to the nearest even
            const vi number = reinterpret_cast<const vi&>(rounded) - 0x4B400000;
            *reinterpret_cast<vb*>(to + k) = __builtin_convertvector(number, vb);
        }
        for (; k < in; k++) to[k] = static_cast<uint8_t>(std::nearbyint(row[k] * inverse) + 128);
        for (; k < depth; k++) to[k] = 128;
    }
};

// What to fetch while a panel is used: if all rows are in one tile, what follows soon; otherwise the next panel.
template <class T> const T* next(const T* panel, int depth, bool single) {
    return panel + (single ? static_cast<size_t>(AHEAD) / sizeof(T) : static_cast<size_t>(depth) * PANEL);
}

// C = act(A · Wᵀ + b), for rows r … r + count - 1 and one panel. `c` is where the first cell goes.
inline void sums8(const Weights& w, int r, int count, int p, bool single, const Quantised& q, vf (*sums)[VECTORS]) {
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
    vi whole[ROWS][VECTORS];
    const int8_t* panel = w.bytes.data + static_cast<size_t>(p) * w.depth * PANEL;
    TILES8.at[count - 1](q.bytes.data + static_cast<size_t>(r) * w.depth, w.depth, panel, next(panel, w.depth, single), w.depth, whole);
    for (int v = 0; v < VECTORS; v++) {
        vi shift;
        std::memcpy(&shift, w.shift.data + p * PANEL + v * LANES, sizeof(vi));
        const vf scale = load(w.scale.data + p * PANEL + v * LANES);
        for (int i = 0; i < count; i++)
            sums[i][v] = __builtin_convertvector(whole[i][v] - shift, vf) * (scale * q.scales.data[r + i]);
    }
#else
    (void)w, (void)r, (void)count, (void)p, (void)single, (void)q, (void)sums;
#endif
}

inline void cell(const Weights& w, const float* a, float* c, int stride, int r, int count, int p, bool single, int kind,
                 const Quantised& q) {
    vf sums[ROWS][VECTORS];
    if (w.int8) {
        sums8(w, r, count, p, single, q, sums);
    } else {
        const float* panel = w.floats.data + static_cast<size_t>(p) * w.depth * PANEL;
        TILES.at[count - 1](a + static_cast<size_t>(r) * w.in, w.in, panel, next(panel, w.depth, single), w.depth, sums);
    }
    const int left = std::min(PANEL, w.out - p * PANEL);
    for (int i = 0; i < count; i++, c += stride)
        for (int v = 0; v < VECTORS; v++) {
            const vf y = act(sums[i][v] + load(w.bias.data + p * PANEL + v * LANES), kind);
            if (left >= (v + 1) * LANES) store(c + v * LANES, y);
            else for (int j = v * LANES; j < left; j++) c[j] = y[j - v * LANES];
        }
}

// int8: round the rows, which all of the team read.
inline void round_rows(const Weights& w, const float* a, int rows, Quantised& q, const Team& team) {
    if (!w.int8) return;
    const auto [from, to] = team.share(rows);
    for (int r = from; r < to; r++) q.set(a + static_cast<size_t>(r) * w.in, w.in, r, w.depth);
    team.wait();
}

// Rows of a block, in whole tiles; blocks are about equal.
inline int block_rows(const Weights& w, int rows, int step) {
    const int most = std::max(GROUP, BLOCK_BYTES / (w.in * (w.int8 ? 1 : 4))), count = (rows + most - 1) / most;
    return up((rows + count - 1) / count, step);
}

// C = act(A · Wᵀ + b). The panels are shared among the team.
inline void multiply(const Weights& w, const float* a, float* c, int rows, int kind, Quantised& q, const Team& team) {
    round_rows(w, a, rows, q, team);
    const int step = tile_rows(rows), block = block_rows(w, rows, step);
    const auto [from, to] = team.share(panels(w.out));
    for (int start = 0; start < rows; start += block)
        for (int p = from; p < to; p++)
            for (int r = start; r < std::min(rows, start + block); r += step)
                cell(w, a, c + static_cast<size_t>(r) * w.out + p * PANEL, w.out, r, std::min(step, rows - r), p, step >= rows,
                     kind, q);
    team.wait();
}

// x += added; after the sum, post-norm.
inline void finish(const Norm* norm, float* x, const float* added, int rows, int dim, const Team& team) {
    const auto [from, to] = team.share(rows);
    for (int r = from; r < to; r++) {
        float* row = x + static_cast<size_t>(r) * dim;
        const float* more = added + static_cast<size_t>(r) * dim;
        for (int d = 0; d < dim; d++) row[d] += more[d];
        if (norm) (*norm)(row, row);
    }
    team.wait();
}

inline const float* normed(const Norm& norm, const float* x, float* to, int rows, const Team& team) {
    const auto [from, until] = team.share(rows);
    for (int r = from; r < until; r++) norm(x + static_cast<size_t>(r) * norm.dim, to + static_cast<size_t>(r) * norm.dim);
    team.wait();
    return to;
}

// ---- attention ------------------------------------------------------------------------------------------------------

// Replaces scores by exp(score - max) and returns their sum. `wide` is a multiple of LANES.
inline float softmax(float* scores, int length, int wide) {
    for (int j = length; j < wide; j++) scores[j] = -INFINITY;
    vf tops = load(scores);
    for (int j = LANES; j < wide; j += LANES) tops = larger(tops, load(scores + j));
    const float top = largest(tops);
    vf total{};
    for (int j = 0; j < wide; j += LANES) {
        const vf e = exp(load(scores + j) - top);
        store(scores + j, e);
        total += e;
    }
    // exp stops at -87, so that the cells after the last key are not quite 0
    for (int j = length; j < wide; j++) total[0] -= scores[j];
    return sum(total);
}

// The keys and values of one head as packed panels; keys are multiplied by the scale of the scores.
struct Packed {
    float *keys, *values;
    int length, size;
    int wide() const { return panels(length) * PANEL; }
    int across() const { return panels(size) * PANEL; }
    static size_t key_cells(int length, int size) { return static_cast<size_t>(panels(length)) * PANEL * size; }
    static size_t value_cells(int length, int size) { return static_cast<size_t>(panels(size)) * PANEL * length; }

    // Rows of keys and of values are `stride` apart.
    void pack(const float* key, const float* value, int stride, float scale) const {
        for (int j = 0; j < wide(); j++) {
            const float* row = key + static_cast<size_t>(j) * stride;
            float* to = keys + static_cast<size_t>(j / PANEL) * size * PANEL + j % PANEL;
            for (int d = 0; d < size; d++) to[d * PANEL] = j < length ? row[d] * scale : 0.0f;
        }
        for (int j = 0; j < length; j++) {
            const float* row = value + static_cast<size_t>(j) * stride;
            for (int d = 0; d < across(); d++)
                values[(static_cast<size_t>(d / PANEL) * length + j) * PANEL + d % PANEL] = d < size ? row[d] : 0.0f;
        }
    }

    // softmax(q kᵀ) v of `count` queries, at most ROWS. `scores` has room for ROWS · wide().
    void attend(const float* q, int stride, int count, float* scores, float* out, int out_stride) const {
        vf sums[ROWS][VECTORS];
        const int row = wide();
        for (int p = 0; p < row / PANEL; p++) {
            const float* panel = keys + static_cast<size_t>(p) * size * PANEL;
            TILES.at[count - 1](q, stride, panel, next(panel, size, false), size, sums);
            for (int i = 0; i < count; i++)
                for (int v = 0; v < VECTORS; v++) store(scores + i * row + p * PANEL + v * LANES, sums[i][v]);
        }
        float inverse[ROWS];
        for (int i = 0; i < count; i++) inverse[i] = 1.0f / softmax(scores + i * row, length, row);
        for (int p = 0; p < across() / PANEL; p++) {
            const float* panel = values + static_cast<size_t>(p) * length * PANEL;
            TILES.at[count - 1](scores, row, panel, next(panel, length, false), length, sums);
            const int left = std::min(PANEL, size - p * PANEL);
            for (int i = 0; i < count; i++) {
                float* to = out + static_cast<size_t>(i) * out_stride + p * PANEL;
                for (int v = 0; v < VECTORS; v++) {
                    const vf y = sums[i][v] * inverse[i];
                    if (left >= (v + 1) * LANES) store(to + v * LANES, y);
                    else for (int j = v * LANES; j < left; j++) to[j] = y[j - v * LANES];
                }
            }
        }
    }
};

}  // namespace
}  // namespace qkv
