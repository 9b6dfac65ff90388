// The last product of a decoder: scores of all tokens, or only the best few of each row as log-probabilities.
//
// The best are found while the scores of some panels are still in the cache, with log Σ exp kept up to date (Milakov &
// Gimelshein 2018), so that the scores of a large vocabulary never reach the memory. Each thread has its own panels; the
// findings are joined at the end.
#pragma once
#include "parts.h"

namespace qkv {
namespace {

constexpr int CHUNK = 8;  // panels

// What a search wants to know: `logits`, all scores, or the `count` best log-probabilities and their tokens.
struct Answer {
    float* logits = nullptr;
    float* best = nullptr;
    int64_t* tokens = nullptr;
    int count = 0;
};

// The best of some tokens for one row, in falling order; of equals, the first.
struct Best {
    float *values, *stats;  // stats: the maximum, Σ exp(score - maximum)
    int32_t* tokens;
    int count;

    void begin() const {
        std::fill_n(values, count, -INFINITY), std::fill_n(tokens, count, 0);
        stats[0] = -INFINITY, stats[1] = 0;
    }

    void insert(float value, int32_t token) const {
        int at = count - 1;
        for (; at > 0 && values[at - 1] < value; at--) values[at] = values[at - 1], tokens[at] = tokens[at - 1];
        values[at] = value, tokens[at] = token;
    }

    void add_total(float top, float total) const {
        const float most = std::max(stats[0], top);
        const float old = stats[1] > 0 ? stats[1] * std::exp(stats[0] - most) : 0.0f;
        stats[1] = old + (top == most ? total : total * std::exp(top - most)), stats[0] = most;
    }

    // Scores of tokens first … first + length - 1. There is room up to a multiple of LANES.
    void add(float* scores, int length, int32_t first) const {
        for (int j = length; j < up(length, LANES); j++) scores[j] = -INFINITY;
        vf tops = load(scores), total{};
        for (int j = LANES; j < length; j += LANES) tops = larger(tops, load(scores + j));
        const float top = largest(tops);
        for (int j = 0; j < length; j += LANES) total += exp(load(scores + j) - top);
        add_total(top, sum(total));
        if (top <= values[count - 1]) return;
        for (int j = 0; j < length; j += LANES)
            for (unsigned more = above(load(scores + j), values[count - 1]); more; more &= more - 1)
                if (const int k = j + __builtin_ctz(more); scores[k] > values[count - 1]) insert(scores[k], first + k);
    }

    void join(const Best& other) const {
        add_total(other.stats[0], other.stats[1]);
        for (int k = 0; k < count && other.values[k] > values[count - 1]; k++) insert(other.values[k], other.tokens[k]);
    }
};

class Vocabulary {
  public:
    Weights table;

    struct Scratch {
        Buffer<float> values, stats, scores;
        Buffer<int32_t> tokens;
    };

    void reserve(Scratch& s, int rows, int count, int threads) const {
        const auto cells = static_cast<size_t>(rows) * threads;
        s.values.at_least(cells * count), s.tokens.at_least(cells * count), s.stats.at_least(cells * 2);
        s.scores.at_least(cells * CHUNK * PANEL);
    }

    void answer(const float* x, int rows, const Answer& wanted, Quantised& q, Scratch& s, const Team& team) const {
        if (wanted.logits) multiply(table, x, wanted.logits, rows, NONE, q, team);
        if (wanted.count) best(x, rows, wanted, q, s, team);
    }

  private:
    static Best list(Scratch& s, int thread, int row, int rows, int count) {
        const auto at = static_cast<size_t>(thread) * rows + row;
        return {s.values.data + at * count, s.stats.data + at * 2, s.tokens.data + at * count, count};
    }

    void best(const float* x, int rows, const Answer& wanted, Quantised& q, Scratch& s, const Team& team) const {
        round_rows(table, x, rows, q, team);
        const int step = tile_rows(rows), count = wanted.count;
        float* scores = s.scores.data + static_cast<size_t>(team.me) * rows * CHUNK * PANEL;
        for (int r = 0; r < rows; r++) list(s, team.me, r, rows, count).begin();
        const auto [from, to] = team.share(panels(table.out));
        for (int first = from; first < to; first += CHUNK) {
            const int last = std::min(to, first + CHUNK), start = first * PANEL;
            for (int p = first; p < last; p++)
                for (int r = 0; r < rows; r += step)
                    cell(table, x, scores + (static_cast<size_t>(r) * CHUNK + p - first) * PANEL, CHUNK * PANEL, r,
                         std::min(step, rows - r), p, step >= rows, NONE, q);
            for (int r = 0; r < rows; r++)
                list(s, team.me, r, rows, count)
                    .add(scores + static_cast<size_t>(r) * CHUNK * PANEL, std::min(last * PANEL, table.out) - start, start);
        }
        team.wait();
        const auto [begin, end] = team.share(rows);
        for (int r = begin; r < end; r++) {
            const Best all = list(s, 0, r, rows, count);
            for (int thread = 1; thread < team.size; thread++) all.join(list(s, thread, r, rows, count));
            const float total = all.stats[0] + std::log(all.stats[1]);
            for (int k = 0; k < count; k++) {
                wanted.best[static_cast<size_t>(r) * count + k] = all.values[k] - total;
                wanted.tokens[static_cast<size_t>(r) * count + k] = all.tokens[k];
            }
        }
        team.wait();
    }
};

}  // namespace
}  // namespace qkv
