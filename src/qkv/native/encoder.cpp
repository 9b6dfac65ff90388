// A Transformer encoder in one call: every layer, over ragged rows, without padding.
//
// The threads are those of the OpenMP that PyTorch has loaded: threads of our own would fight with its waiting ones for the
// cores. A team works on a group of whole sequences. With several groups a team is one thread, which runs all layers of
// its group without waiting for another; a single group is shared by all threads.
//
//     x ─► [norm] ─► q, k, v ─► attention, sequence by sequence ─► out ─►(+)─► [norm] ─► up ─► act ─► down ─►(+)─►
#include "parts.h"

#include <omp.h>

namespace qkv {
namespace {

// With fewer rows, threads wait for each other longer than they help. In float32 even a few rows read all weights, which
// two cores do faster than one. MiniLM on an AMD EPYC, 10 rows on one and two cores: 1.6 and 0.7 ms in float32, 0.37 and
// 0.31 ms in int8; 4 rows in int8 gain nothing.
constexpr int ALONE = 4, ALONE_INT8 = 6;

struct Layer {
    Weights qkv, out, up, down;
    Norm first, second;
};

struct Scratch {
    Buffer<float> qkv, attended, wide, added;
    Quantised rounded;
};

struct Local {  // of one thread
    Buffer<float> keys, values, scores;
};

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
            multiply(layer.qkv, read, s.qkv.data, rows, NONE, s.rounded, team);
            attend(s.qkv.data, s.attended.data, offsets, sequences, turn, own, team);
            multiply(layer.out, s.attended.data, s.added.data, rows, NONE, s.rounded, team);
            finish(pre_norm ? nullptr : &layer.first, x, s.added.data, rows, dim, team);
            if (pre_norm) read = normed(layer.second, x, s.added.data, rows, team);
            multiply(layer.up, read, s.wide.data, rows, activation, s.rounded, team);
            multiply(layer.down, s.wide.data, s.added.data, rows, NONE, s.rounded, team);
            finish(pre_norm ? nullptr : &layer.second, x, s.added.data, rows, dim, team);
        }
    }

    void reserve(Scratch& s, int rows) const {
        const auto count = static_cast<size_t>(rows);
        s.qkv.at_least(count * 3 * inner()), s.attended.at_least(count * inner()), s.added.at_least(count * dim);
        s.wide.at_least(count * hidden), s.rounded.reserve(rows, std::max({dim, inner(), hidden}));
    }

  private:
    int inner() const { return heads * size; }  // the width of all heads: less than dim if some were pruned

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

    // Rotary positions of queries and keys.
    void rotate(float* rows, Turn turn, int length) const {
        for (int j = 0; j < length; j++, rows += 3 * inner(), turn = turn.from(1, size / 2))
            turn(rows, size), turn(rows + inner(), size);
    }

    // One head of one sequence, up to ROWS queries at a time.
    void head(const float* qkv, float* out, int length, Local& own) const {
        const int stride = 3 * inner(), step = tile_rows(length);
        const Packed packed{own.keys.at_least(Packed::key_cells(length, size)),
                            own.values.at_least(Packed::value_cells(length, size)), length, size};
        packed.pack(qkv + inner(), qkv + 2 * inner(), stride, scale);
        float* scores = own.scores.at_least(static_cast<size_t>(packed.wide()) * ROWS);
        for (int r = 0; r < length; r += step)
            packed.attend(qkv + static_cast<size_t>(r) * stride, stride, std::min(step, length - r), scores,
                          out + static_cast<size_t>(r) * inner(), inner());
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
    norm.set(weight, bias, encoder->dim, encoder->eps);
}

// Replaces x, the rows of all sequences, by their states after the last layer. cos and sin may be null.
void qkv_encoder_run(const void* model, float* x, const int64_t* offsets, int sequences, const float* cos, const float* sin,
                     int threads) {
    qkv::forward(*static_cast<const qkv::Encoder*>(model), x, offsets, sequences, {cos, sin}, threads);
}

void qkv_encoder_free(void* model) { delete static_cast<qkv::Encoder*>(model); }
}
