// A Transformer decoder, one token of each row at a time: all layers and the scores of the next token in one call.
//
//     x ─► self-attention over the cache ─►(+)─► [cross-attention over the memory] ─►(+)─► feed-forward ─►(+)─► table
//
// cache     keys and values of every token, in the order in which they came; they never move. A row is the list of its
//           tokens: where beams move, only these lists are copied, and beams of one source share their beginning.
// memory    keys and values of the encoder states, packed once. The rows of one source are a tile over its keys.
//
// All threads share each product. See encoder.cpp for whose threads they are.
#include "vocabulary.h"

#include <omp.h>

namespace qkv {
namespace {

constexpr int BLOCK = 256;  // tokens of a block of the cache

struct DecoderLayer {
    Weights qkv, out, ask, memory, back, up, down;  // ask: queries of cross-attention; back: its output
    Norm first, cross, second;
};

class Decoder {
  public:
    int dim, heads, kv_heads, head, hidden, activation;  // head: channels of a head
    bool pre_norm;
    float eps, scale, cross_scale;
    std::vector<DecoderLayer> layers;
    Norm last;  // unless its size is 0
    Vocabulary vocabulary;

    bool crosses() const { return layers[0].ask.out > 0; }
    int wide() const { return up(head, LANES); }  // channels of a head in the cache
    int widest() const { return std::max({dim, hidden, heads * head}); }
};

struct Source {
    int64_t row;
    int length;
    size_t keys, values;  // where its first head begins, in cells
};

struct Span {  // new tokens of one source
    int source, first, count;
};

struct Local {  // of one thread
    Buffer<float> scores, query;
    std::vector<const float*> cells;
};

class Session {
  public:
    Session(const Decoder& decoder, int rows) : model(decoder), lengths(rows, 0), source_of(rows) {
        for (int r = 0; r < rows; r++) source_of[r] = r;
        past.resize(static_cast<size_t>(rows) * capacity);
    }

    // Compute the keys and values of the encoder states.
    void remember(const float* states, const int64_t* offsets, int count, int threads) {
        size_t keys = 0, values = 0;
        for (int b = 0; b < count; b++) {
            const int length = static_cast<int>(offsets[b + 1] - offsets[b]);
            sources.push_back({offsets[b] - offsets[0], length, keys, values});
            keys += model.heads * Packed::key_cells(length, model.head);
            values += model.heads * Packed::value_cells(length, model.head);
        }
        const int rows = static_cast<int>(offsets[count] - offsets[0]), width = model.heads * model.head;
        memory = std::vector<Memory>(model.layers.size());
        for (Memory& layer : memory) layer.keys.at_least(keys), layer.values.at_least(values);
        qkv.at_least(static_cast<size_t>(rows) * 2 * width), rounded.reserve(rows, model.widest());
        together(threads, [&](const Team& team, Local&) {
            for (size_t l = 0; l < memory.size(); l++) {
                multiply(model.layers[l].memory, states, qkv.data, rows, NONE, rounded, team);
                const auto [from, to] = team.share(count * model.heads);
                for (int item = from; item < to; item++) {
                    const int h = item % model.heads;
                    const Source& source = sources[item / model.heads];
                    const float* key = qkv.data + source.row * 2 * width + h * model.head;
                    packed(memory[l], source, h).pack(key, key + width, 2 * width, model.cross_scale);
                }
                team.wait();
            }
        });
    }

    // Row i continues what row order[i] held.
    void reorder(const int64_t* order, int count) {
        std::vector<int32_t> moved(static_cast<size_t>(count) * capacity);
        std::vector<int> sizes(count), from(count);
        for (int i = 0; i < count; i++) {
            sizes[i] = lengths[order[i]], from[i] = source_of[order[i]];
            std::copy_n(past.data() + order[i] * capacity, sizes[i], moved.data() + static_cast<size_t>(i) * capacity);
        }
        past.swap(moved), lengths.swap(sizes), source_of.swap(from);
    }

    // Read new tokens: one of each row, or `counts` of each. Replaces their embeddings x by the states after the last layer.
    void step(float* x, const int32_t* counts, Turn turn, const Answer& answer, int threads) {
        place(counts);
        reserve(answer.count, threads);
        together(threads, [&](const Team& team, Local& own) { run(x, turn, answer, team, own); });
    }

  private:
    struct Memory {
        Buffer<float> keys, values;
    };

    const Decoder& model;
    std::vector<Source> sources;
    std::vector<Memory> memory;           // of each layer
    std::vector<Buffer<float>> blocks;    // of the cache: BLOCK tokens of every layer
    int capacity = 64, number = 0;        // tokens that a row's list has room for; tokens in the cache
    std::vector<int32_t> past;            // the tokens of each row. Shape: [rows, capacity]
    std::vector<int> lengths, source_of;  // of each row
    std::vector<int> row_of, sees;        // of each new token: its row, and how many tokens it sees
    std::vector<Span> spans;
    Buffer<float> qkv, attended, wide, added;
    Quantised rounded;
    Vocabulary::Scratch found;

    template <class Work> static void together(int threads, const Work& work) {
        Barrier barrier;
#pragma omp parallel num_threads(threads) if (threads > 1)
        {
#pragma omp single
            barrier.expect(omp_get_num_threads());
            static thread_local Local local;
            work(Team{omp_get_thread_num(), omp_get_num_threads(), &barrier}, local);
        }
    }

    Packed packed(Memory& layer, const Source& source, int h) const {
        return {layer.keys.data + source.keys + h * Packed::key_cells(source.length, model.head),
                layer.values.data + source.values + h * Packed::value_cells(source.length, model.head), source.length, model.head};
    }

    // The keys of one token in one layer; its values follow.
    float* cell(size_t layer, int token) const {
        const size_t width = 2 * static_cast<size_t>(model.kv_heads) * model.wide();
        return blocks[token / BLOCK].data + (layer * BLOCK + token % BLOCK) * width;
    }

    // Give each new token its place in the cache.
    void place(const int32_t* counts) {
        const int rows = static_cast<int>(lengths.size());
        row_of.clear(), sees.clear(), spans.clear();
        int longest = 0;
        for (int r = 0; r < rows; r++) longest = std::max(longest, lengths[r] + (counts ? counts[r] : 1));
        if (longest > capacity) widen(rows, longest);
        for (int r = 0; r < rows; r++)
            for (int more = counts ? counts[r] : 1; more; more--) {
                past[static_cast<size_t>(r) * capacity + lengths[r]++] = number + static_cast<int>(row_of.size());
                if (spans.empty() || spans.back().source != source_of[r])
                    spans.push_back({source_of[r], static_cast<int>(row_of.size()), 0});
                spans.back().count++;
                row_of.push_back(r), sees.push_back(lengths[r]);
            }
        number += static_cast<int>(row_of.size());
        while (static_cast<int>(blocks.size()) * BLOCK < number)
            blocks.emplace_back().at_least(model.layers.size() * BLOCK * 2 * model.kv_heads * model.wide());
    }

    void widen(int rows, int longest) {
        const int before = capacity;
        capacity = std::max(2 * capacity, longest);
        std::vector<int32_t> wider(static_cast<size_t>(rows) * capacity);
        for (int r = 0; r < rows; r++)
            std::copy_n(past.data() + static_cast<size_t>(r) * before, lengths[r], wider.data() + static_cast<size_t>(r) * capacity);
        past.swap(wider);
    }

    void reserve(int best, int threads) {
        const auto count = row_of.size(), attention = static_cast<size_t>(model.heads) * model.head;
        qkv.at_least(count * (attention + 2 * model.kv_heads * model.head)), attended.at_least(count * attention);
        added.at_least(count * model.dim), wide.at_least(count * model.hidden);
        rounded.reserve(static_cast<int>(count), model.widest());
        if (best) model.vocabulary.reserve(found, static_cast<int>(count), best, threads);
    }

    void run(float* x, Turn turn, const Answer& answer, const Team& team, Local& own) {
        const int rows = static_cast<int>(row_of.size()), dim = model.dim;
        const auto norm = [&](const Norm& before) { return model.pre_norm ? normed(before, x, added.data, rows, team) : x; };
        const auto add = [&](const Norm& after) { finish(model.pre_norm ? nullptr : &after, x, added.data, rows, dim, team); };
        for (size_t l = 0; l < model.layers.size(); l++) {
            const DecoderLayer& layer = model.layers[l];
            multiply(layer.qkv, norm(layer.first), qkv.data, rows, NONE, rounded, team);
            keep(l, turn, team);
            attend(l, turn, team, own);
            multiply(layer.out, attended.data, added.data, rows, NONE, rounded, team);
            add(layer.first);
            if (model.crosses()) {
                multiply(layer.ask, norm(layer.cross), qkv.data, rows, NONE, rounded, team);
                cross(memory[l], team, own);
                multiply(layer.back, attended.data, added.data, rows, NONE, rounded, team);
                add(layer.cross);
            }
            multiply(layer.up, norm(layer.second), wide.data, rows, model.activation, rounded, team);
            multiply(layer.down, wide.data, added.data, rows, NONE, rounded, team);
            add(layer.second);
        }
        const float* states = model.last.dim ? normed(model.last, x, added.data, rows, team) : x;
        model.vocabulary.answer(states, rows, answer, rounded, found, team);
    }

    // Copy the new keys and values into the cache.
    void keep(size_t l, Turn turn, const Team& team) {
        const int size = model.head, padded = model.wide(), both = 2 * model.kv_heads, first = number - static_cast<int>(row_of.size());
        const size_t stride = static_cast<size_t>(model.heads + both) * size;
        const auto [from, to] = team.share(static_cast<int>(row_of.size()));
        for (int i = from; i < to; i++) {
            const float* row = qkv.data + i * stride + static_cast<size_t>(model.heads) * size;
            float* kept = cell(l, first + i);
            for (int h = 0; h < both; h++, row += size, kept += padded) {
                std::copy_n(row, size, kept), std::fill_n(kept + size, padded - size, 0.0f);
                if (turn.cos && h < model.kv_heads) turn.from(i, size / 2)(kept, size);
            }
        }
        team.wait();
    }

    void attend(size_t l, Turn turn, const Team& team, Local& own) {
        const int rows = static_cast<int>(row_of.size()), size = model.head, padded = model.wide();
        const size_t stride = static_cast<size_t>(model.heads + 2 * model.kv_heads) * size;
        float* query = own.query.at_least(padded);
        const auto [from, to] = team.share(rows * model.heads);
        for (int item = from, last = -1; item < to; item++) {
            const int i = item / model.heads, h = item % model.heads;
            if (i != last) {
                own.cells.clear();
                for (int j = 0; j < sees[i]; j++)
                    own.cells.push_back(cell(l, past[static_cast<size_t>(row_of[i]) * capacity + j]));
                last = i;
            }
            std::copy_n(qkv.data + i * stride + h * size, size, query), std::fill_n(query + size, padded - size, 0.0f);
            if (turn.cos) turn.from(i, size / 2)(query, size);
            look(query, h / (model.heads / model.kv_heads) * padded, attended.data + (static_cast<size_t>(i) * model.heads + h) * size, own);
        }
        team.wait();
    }

    // One query over the tokens of its row. `at`: where the keys of its head are.
    void look(const float* query, int at, float* out, Local& own) const {
        const int count = static_cast<int>(own.cells.size()), room = up(count, LANES), padded = model.wide();
        float* scores = own.scores.at_least(room);
        for (int j = 0; j < count; j++) {
            const float* key = own.cells[j] + at;
            vf total{};
            for (int d = 0; d < padded; d += LANES) total += load(query + d) * load(key + d);
            scores[j] = sum(total) * model.scale;
        }
        const float inverse = 1.0f / softmax(scores, count, room);
        const int values = at + model.kv_heads * padded;
        for (int d = 0; d < padded; d += 4 * LANES) {
            switch ((padded - d) / LANES) {
                case 1: weigh<1>(scores, inverse, values + d, out + d, model.head - d, own); break;
                case 2: weigh<2>(scores, inverse, values + d, out + d, model.head - d, own); break;
                case 3: weigh<3>(scores, inverse, values + d, out + d, model.head - d, own); break;
                default: weigh<4>(scores, inverse, values + d, out + d, model.head - d, own);
            }
        }
    }

    // Σ score · value, for N vectors of channels; `left` channels are there.
    template <int N> static void weigh(const float* scores, float inverse, int at, float* out, int left, const Local& own) {
        vf total[N] = {};
        for (size_t j = 0; j < own.cells.size(); j++)
            for (int n = 0; n < N; n++) total[n] += scores[j] * load(own.cells[j] + at + n * LANES);
        for (int n = 0; n < N; n++)
            for (int d = 0; d < std::min(LANES, left - n * LANES); d++) out[n * LANES + d] = total[n][d] * inverse;
    }

    void cross(Memory& layer, const Team& team, Local& own) {
        const int width = model.heads * model.head;
        const auto [from, to] = team.share(static_cast<int>(spans.size()) * model.heads);
        for (int item = from; item < to; item++) {
            const Span& span = spans[item / model.heads];
            const int h = item % model.heads, step = tile_rows(span.count);
            const Packed keys = packed(layer, sources[span.source], h);
            float* scores = own.scores.at_least(static_cast<size_t>(keys.wide()) * ROWS);
            for (int r = 0; r < span.count; r += step) {
                const size_t cell = static_cast<size_t>(span.first + r) * width + h * model.head;
                keys.attend(qkv.data + cell, width, std::min(step, span.count - r), scores, attended.data + cell, width);
            }
        }
        team.wait();
    }
};

}  // namespace
}  // namespace qkv

// ---- what Python calls ----------------------------------------------------------------------------------------------

extern "C" {

// sizes: layers, dim, heads, kv_heads, channels of a head, hidden, activation, pre_norm. numbers: eps, scale, cross_scale.
void* qkv_decoder_new(const int* sizes, const float* numbers) {
    auto* model = new qkv::Decoder();
    model->layers = std::vector<qkv::DecoderLayer>(sizes[0]);
    model->dim = sizes[1], model->heads = sizes[2], model->kv_heads = sizes[3], model->head = sizes[4];
    model->hidden = sizes[5], model->activation = sizes[6], model->pre_norm = sizes[7] != 0;
    model->eps = numbers[0], model->scale = numbers[1], model->cross_scale = numbers[2];
    return model;
}

// part: 0 qkv, 1 out, 2 ask, 3 memory, 4 back, 5 up, 6 down. Of layer -1: the table of the vocabulary.
void qkv_decoder_weights(void* model, int layer, int part, const float* weight, const float* bias, int in, int out, int int8) {
    auto* decoder = static_cast<qkv::Decoder*>(model);
    if (layer < 0) return decoder->vocabulary.table.pack(weight, bias, in, out, int8 != 0);
    qkv::DecoderLayer& at = decoder->layers[layer];
    qkv::Weights* parts[] = {&at.qkv, &at.out, &at.ask, &at.memory, &at.back, &at.up, &at.down};
    parts[part]->pack(weight, bias, in, out, int8 != 0);
}

// part: 0 the norm of self-attention, 1 of the feed-forward, 2 of cross-attention. Of layer -1: the norm after all layers.
void qkv_decoder_norm(void* model, int layer, int part, const float* weight, const float* bias) {
    auto* decoder = static_cast<qkv::Decoder*>(model);
    if (layer < 0) return decoder->last.set(weight, bias, decoder->dim, decoder->eps);
    qkv::DecoderLayer& at = decoder->layers[layer];
    qkv::Norm* norms[] = {&at.first, &at.second, &at.cross};
    norms[part]->set(weight, bias, decoder->dim, decoder->eps);
}

void qkv_decoder_free(void* model) { delete static_cast<qkv::Decoder*>(model); }

// A search over `rows` sequences. The model must live longer.
void* qkv_session_new(const void* model, int rows) { return new qkv::Session(*static_cast<const qkv::Decoder*>(model), rows); }

void qkv_session_remember(void* session, const float* states, const int64_t* offsets, int sources, int threads) {
    static_cast<qkv::Session*>(session)->remember(states, offsets, sources, threads);
}

void qkv_session_reorder(void* session, const int64_t* order, int count) {
    static_cast<qkv::Session*>(session)->reorder(order, count);
}

// counts: new tokens of each row; null for one each. cos and sin may be null. logits, or `count` best and tokens, or neither.
void qkv_session_step(void* session, float* x, const int32_t* counts, const float* cos, const float* sin, float* logits,
                      float* best, int64_t* tokens, int count, int threads) {
    static_cast<qkv::Session*>(session)->step(x, counts, {cos, sin}, {logits, best, tokens, count}, threads);
}

void qkv_session_free(void* session) { delete static_cast<qkv::Session*>(session); }
}
