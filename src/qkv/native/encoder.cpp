// A Transformer encoder in one call: every layer, over ragged rows, without padding.
//
// The threads are those of the OpenMP that PyTorch has loaded: threads of our own would fight with its waiting ones for the
// cores. A team works on a group of whole sequences. With several groups a team is one thread, which runs all layers of
// its group without waiting for another; a single group is shared by all threads.
//
//     x ─► [norm] ─► q, k, v ─► attention, sequence by sequence ─► out ─►(+)─► [norm] ─► up ─► act ─► down ─►(+)─►
#include "tiles.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace qkv {
namespace {

constexpr int GROUP = 112;  // rows of a group, if several sequences fit: 8 tiles of 14
// With fewer rows, threads wait for each other longer than they help. In float32 even a few rows read all weights, which
// two cores do faster than one. MiniLM on an AMD EPYC, 10 rows on one and two cores: 1.6 and 0.7 ms in float32, 0.37 and
// 0.31 ms in int8; 4 rows in int8 gain nothing.
constexpr int ALONE = 4, ALONE_INT8 = 6;

// Memory aligned to a cache line.
template <class T> struct Buffer {
    T* data = nullptr;
    size_t size = 0;
    Buffer() = default;
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { std::free(data); }
    T* at_least(size_t count) {
        if (count > size) {
            std::free(data);
            data = static_cast<T*>(std::aligned_alloc(64, (count * sizeof(T) + 127) / 64 * 64));
            if (!data) throw std::bad_alloc();
            size = count;
        }
        return data;
    }
};

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
    Buffer<float> weight, bias;
};

struct Layer {
    Weights qkv, out, up, down;
    Norm first, second;
};

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

// Cosines and sines of rotary positions, half a head for each row; null without them.
struct Turn {
    const float *cos, *sin;
    Turn from(int64_t row, int half) const { return cos ? Turn{cos + row * half, sin + row * half} : *this; }
};

// What a team shares, and which member this is.
struct Team {
    int me, size;
    Barrier* barrier;
    void wait() const { barrier->wait(); }
    std::pair<int, int> share(int count) const { return {count * me / size, count * (me + 1) / size}; }
};

struct Scratch {
    Buffer<float> qkv, attended, wide, added, scales;
    Buffer<uint8_t> bytes;
};

struct Local {  // of one thread
    Buffer<float> keys, values, scores;
};

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

class Encoder {
  public:
    int dim, heads, size, hidden, activation;  // size: width of a head
    bool pre_norm;
    float eps, scale;
    std::vector<Layer> layers;

    void run(float* x, const int64_t* offsets, int sequences, Turn turn, Scratch& s, Local& own, const Team& team) const {
        const int rows = static_cast<int>(offsets[sequences] - offsets[0]);
        for (const Layer& layer : layers) {
            const float* read = x;
            if (pre_norm) read = normed(layer.first, x, s.added.data, rows, team);
            multiply(layer.qkv, read, s.qkv.data, rows, NONE, s, team);
            attend(s.qkv.data, s.attended.data, offsets, sequences, turn, own, team);
            multiply(layer.out, s.attended.data, s.added.data, rows, NONE, s, team);
            finish(layer.first, x, s.added.data, rows, team);
            if (pre_norm) read = normed(layer.second, x, s.added.data, rows, team);
            multiply(layer.up, read, s.wide.data, rows, activation, s, team);
            multiply(layer.down, s.wide.data, s.added.data, rows, NONE, s, team);
            finish(layer.second, x, s.added.data, rows, team);
        }
    }

    void reserve(Scratch& s, int rows) const {
        const auto count = static_cast<size_t>(rows);
        s.qkv.at_least(count * 3 * inner()), s.attended.at_least(count * inner()), s.added.at_least(count * dim);
        s.wide.at_least(count * hidden), s.scales.at_least(count);
        s.bytes.at_least(count * up(std::max({dim, inner(), hidden}), DEPTH) + DEPTH);
    }

  private:
    int inner() const { return heads * size; }  // the width of all heads: less than dim if some were pruned

    // C = act(A · Wᵀ + b). The panels are shared among the team.
    void multiply(const Weights& w, const float* a, float* c, int rows, int kind, Scratch& s, const Team& team) const {
        if (w.int8) {
            const auto [from, to] = team.share(rows);
            for (int r = from; r < to; r++) quantise(a + static_cast<size_t>(r) * w.in, w.in, s, r, w.depth);
            team.wait();
        }
        const int step = tile_rows(rows), count = panels(w.out);
        const auto [from, to] = team.share(count);
        for (int start = 0; start < rows; start += GROUP / step * step)  // the rows of a block stay in the cache
            for (int p = from; p < to; p++)
                for (int r = start; r < std::min(rows, start + GROUP / step * step); r += step)
                    cell(w, a, c, r, std::min(step, rows - r), p, kind, s);
        team.wait();
    }

    static void cell(const Weights& w, const float* a, float* c, int r, int count, int p, int kind, Scratch& s) {
        vf sums[ROWS][VECTORS];
        if (w.int8) {
            sums8(w, r, count, p, s, sums);
        } else {
            TILES.at[count - 1](a + static_cast<size_t>(r) * w.in, w.in, w.floats.data + static_cast<size_t>(p) * w.depth * PANEL,
                             w.depth, sums);
        }
        const int left = std::min(PANEL, w.out - p * PANEL);
        for (int i = 0; i < count; i++) {
            float* to = c + static_cast<size_t>(r + i) * w.out + p * PANEL;
            for (int v = 0; v < VECTORS; v++) {
                const vf y = act(sums[i][v] + load(w.bias.data + p * PANEL + v * LANES), kind);
                if (left >= (v + 1) * LANES) store(to + v * LANES, y);
                else for (int j = v * LANES; j < left; j++) to[j] = y[j - v * LANES];
            }
        }
    }

    static void sums8(const Weights& w, int r, int count, int p, const Scratch& s, vf (*sums)[VECTORS]) {
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
        vi whole[ROWS][VECTORS];
        TILES8.at[count - 1](s.bytes.data + static_cast<size_t>(r) * w.depth, w.depth,
                          w.bytes.data + static_cast<size_t>(p) * w.depth * PANEL, w.depth, whole);
        for (int v = 0; v < VECTORS; v++) {
            vi shift;
            std::memcpy(&shift, w.shift.data + p * PANEL + v * LANES, sizeof(vi));
            const vf scale = load(w.scale.data + p * PANEL + v * LANES);
            for (int i = 0; i < count; i++)
                sums[i][v] = __builtin_convertvector(whole[i][v] - shift, vf) * (scale * s.scales.data[r + i]);
        }
#else
        (void)w, (void)r, (void)count, (void)p, (void)s, (void)sums;
#endif
    }

    static void quantise(const float* row, int in, Scratch& s, int r, int depth) {
        float top = 0;
        int k = 0;
        vf tops{};
        for (; k + LANES <= in; k += LANES) {
            const vf x = load(row + k);
            tops = larger(tops, x < 0.0f ? -x : x);
        }
        top = largest(tops);
        for (; k < in; k++) top = std::max(top, std::fabs(row[k]));
        uint8_t* to = s.bytes.data + static_cast<size_t>(r) * depth;
        s.scales.data[r] = top / 127.0f;
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

    void attend(float* qkv, float* out, const int64_t* offsets, int sequences, Turn turn, Local& own, const Team& team) const {
        const auto [from, to] = team.share(heads);
        for (int b = 0; b < sequences; b++) {
            const auto start = offsets[b] - offsets[0];
            const int length = static_cast<int>(offsets[b + 1] - offsets[b]);
            for (int h = from; h < to; h++) {
                float* rows = qkv + start * 3 * inner() + h * size;
                if (turn.cos) rotate(rows, turn.from(start, size / 2), length);
                head(rows, out + start * inner() + h * size, length, own);
            }
        }
        team.wait();
    }

    // Rotary positions: channel pairs (i, i + size / 2) of queries and keys.
    void rotate(float* rows, Turn turn, int length) const {
        const int half = size / 2;
        for (int j = 0; j < length; j++, rows += 3 * inner(), turn = turn.from(1, half))
            for (float* x : {rows, rows + inner()})
                for (int i = 0; i < half; i++) {
                    const float a = x[i], b = x[i + half];
                    x[i] = a * turn.cos[i] - b * turn.sin[i];
                    x[i + half] = b * turn.cos[i] + a * turn.sin[i];
                }
    }

    // One head of one sequence: softmax(q kᵀ · scale) v, up to ROWS queries at a time.
    void head(const float* qkv, float* out, int length, Local& own) const {
        const int stride = 3 * inner(), wide = panels(length) * PANEL, across = panels(size) * PANEL;
        float* keys = own.keys.at_least(static_cast<size_t>(wide) * size);
        float* values = own.values.at_least(static_cast<size_t>(across) * length);
        float* scores = own.scores.at_least(static_cast<size_t>(wide) * ROWS);
        for (int j = 0; j < wide; j++) {
            const float* row = qkv + inner() + static_cast<size_t>(j) * stride;
            float* to = keys + static_cast<size_t>(j / PANEL) * size * PANEL + j % PANEL;
            for (int d = 0; d < size; d++) to[d * PANEL] = j < length ? row[d] * scale : 0.0f;
        }
        for (int j = 0; j < length; j++) {
            const float* row = qkv + 2 * inner() + static_cast<size_t>(j) * stride;
            for (int d = 0; d < across; d++)
                values[(static_cast<size_t>(d / PANEL) * length + j) * PANEL + d % PANEL] = d < size ? row[d] : 0.0f;
        }
        const int step = tile_rows(length);
        vf sums[ROWS][VECTORS];
        for (int r = 0; r < length; r += step) {
            const int count = std::min(step, length - r);
            for (int p = 0; p < wide / PANEL; p++) {
                TILES.at[count - 1](qkv + static_cast<size_t>(r) * stride, stride, keys + static_cast<size_t>(p) * size * PANEL, size, sums);
                for (int i = 0; i < count; i++)
                    for (int v = 0; v < VECTORS; v++) store(scores + i * wide + p * PANEL + v * LANES, sums[i][v]);
            }
            float inverse[ROWS];
            for (int i = 0; i < count; i++) inverse[i] = 1.0f / softmax(scores + i * wide, length, wide);
            for (int p = 0; p < across / PANEL; p++) {
                TILES.at[count - 1](scores, wide, values + static_cast<size_t>(p) * length * PANEL, length, sums);
                const int left = std::min(PANEL, size - p * PANEL);
                for (int i = 0; i < count; i++) {
                    float* to = out + static_cast<size_t>(r + i) * inner() + p * PANEL;
                    for (int v = 0; v < VECTORS; v++) {
                        const vf y = sums[i][v] * inverse[i];
                        if (left >= (v + 1) * LANES) store(to + v * LANES, y);
                        else for (int j = v * LANES; j < left; j++) to[j] = y[j - v * LANES];
                    }
                }
            }
        }
    }

    // Replaces scores by exp(score - max) and returns their sum.
    static float softmax(float* scores, int length, int wide) {
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

    // x += added; after the sum, post-norm.
    void finish(const Norm& norm, float* x, const float* added, int rows, const Team& team) const {
        const auto [from, to] = team.share(rows);
        for (int r = from; r < to; r++) {
            float* row = x + static_cast<size_t>(r) * dim;
            const float* more = added + static_cast<size_t>(r) * dim;
            for (int d = 0; d < dim; d++) row[d] += more[d];
            if (!pre_norm) normalise(norm, row, row);
        }
        team.wait();
    }

    const float* normed(const Norm& norm, const float* x, float* to, int rows, const Team& team) const {
        const auto [from, until] = team.share(rows);
        for (int r = from; r < until; r++)
            normalise(norm, x + static_cast<size_t>(r) * dim, to + static_cast<size_t>(r) * dim);
        team.wait();
        return to;
    }

    void normalise(const Norm& norm, const float* x, float* y) const {
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
        for (d = 0; d < dim; d++) y[d] = (x[d] - mean) * factor * norm.weight.data[d] + norm.bias.data[d];
    }
};

// Cut the sequences into groups of about GROUP rows; returns where each group begins.
std::vector<int> groups(const int64_t* offsets, int sequences, int threads) {
    const auto rows = offsets[sequences] - offsets[0];
    const auto most = std::max<int64_t>(1, std::min<int64_t>(GROUP, (rows + 2 * threads - 1) / (2 * threads)));
    std::vector<int> starts{0};
    for (int b = 1; b < sequences; b++)
        if (offsets[b + 1] - offsets[starts.back()] > most) starts.push_back(b);
    starts.push_back(sequences);
    return starts;
}

void forward(const Encoder& model, float* x, const int64_t* offsets, int sequences, Turn turn, int threads) {
    const int rows = static_cast<int>(offsets[sequences] - offsets[0]);
    const auto starts = groups(offsets, sequences, threads);
    const int count = static_cast<int>(starts.size()) - 1;
    const int alone = model.layers[0].qkv.int8 ? ALONE_INT8 : ALONE;
    if (count == 1 && threads > 1 && rows >= alone) {  // a long sequence: all threads work on it together
        static thread_local Scratch mine;
        Scratch& shared = mine;
        Barrier barrier;
        model.reserve(shared, rows);
#pragma omp parallel num_threads(threads)
        {
#pragma omp single
            barrier.expect(omp_get_num_threads());
            static thread_local Local local;
            const Team team{omp_get_thread_num(), omp_get_num_threads(), &barrier};
            model.run(x, offsets, sequences, turn, shared, local, team);
        }
        return;
    }
    std::atomic<int> next{0};
#pragma omp parallel num_threads(std::min(threads, count)) if (threads > 1 && count > 1)
    {
        static thread_local Scratch scratch;
        static thread_local Local local;
        Barrier none;
        for (int group; (group = next.fetch_add(1)) < count;) {
            const int64_t* from = offsets + starts[group];
            const int size = starts[group + 1] - starts[group];
            const auto row = from[0] - offsets[0];
            model.reserve(scratch, static_cast<int>(from[size] - from[0]));
            model.run(x + row * model.dim, from, size, turn.from(row, model.size / 2), scratch, local, Team{0, 1, &none});
        }
    }
}

}  // namespace
}  // namespace qkv

// ---- what Python calls ----------------------------------------------------------------------------------------------

extern "C" {

int qkv_has_int8() { return qkv::HAS_INT8; }

void* qkv_encoder_new(int layers, int dim, int heads, int size, int hidden, int activation, int pre_norm, float eps,
                      float scale) {
    auto* model = new qkv::Encoder();
    model->dim = dim, model->heads = heads, model->size = size, model->hidden = hidden, model->activation = activation;
    model->pre_norm = pre_norm, model->eps = eps, model->scale = scale;
    model->layers = std::vector<qkv::Layer>(layers);
    return model;
}

// part: 0 qkv, 1 out, 2 up, 3 down.
void qkv_encoder_weights(void* model, int layer, int part, const float* weight, const float* bias, int in, int out, int int8) {
    qkv::Layer& at = static_cast<qkv::Encoder*>(model)->layers[layer];
    qkv::Weights* parts[] = {&at.qkv, &at.out, &at.up, &at.down};
    parts[part]->pack(weight, bias, in, out, int8 != 0);
}

// part: 0 the norm of attention, 1 that of the feed-forward.
void qkv_encoder_norm(void* model, int layer, int part, const float* weight, const float* bias) {
    auto* encoder = static_cast<qkv::Encoder*>(model);
    qkv::Norm& norm = part ? encoder->layers[layer].second : encoder->layers[layer].first;
    std::copy_n(weight, encoder->dim, norm.weight.at_least(encoder->dim));
    std::copy_n(bias, encoder->dim, norm.bias.at_least(encoder->dim));
}

// Replaces x, the rows of all sequences, by their states after the last layer. cos and sin may be null.
void qkv_encoder_run(const void* model, float* x, const int64_t* offsets, int sequences, const float* cos, const float* sin,
                     int threads) {
    qkv::forward(*static_cast<const qkv::Encoder*>(model), x, offsets, sequences, {cos, sin}, threads);
}

void qkv_encoder_free(void* model) { delete static_cast<qkv::Encoder*>(model); }
}
