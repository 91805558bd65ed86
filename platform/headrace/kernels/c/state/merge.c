/* The order of the rows of sorted runs merged by word: a tree of losers, whose winner is followed for as long as it
 * precedes the first of the others. */
#include "state/run.h"

#define RUNS_MAX 32

EXPORT int64_t headrace_run_merge_order(const run_t *const *runs, int64_t run_count, int64_t is_unique,
                                        int32_t *run_numbers, uint32_t *rows);

typedef struct {
    const run_t *const *runs;
    int64_t run_count;
    int64_t leaves;              /* a power of two, at least 2 */
    uint64_t heads[RUNS_MAX];    /* the next word of each run; of a run at its end, the greatest */
    int64_t ranks[RUNS_MAX];     /* of equal words, the lower is first: the run's number, + RUNS_MAX at its end */
    uint32_t next[RUNS_MAX];
    int64_t losers[RUNS_MAX];    /* of the match at each node, from 1 on */
} merge_t;

/* The rows that were written. */
typedef struct {
    int32_t *run_numbers;
    uint32_t *rows;
    int64_t count;
    int64_t word_begin;          /* the first of those with the last word */
    uint64_t word;
} order_t;

ALWAYS_INLINE int precedes(const merge_t *merge, int64_t run, int64_t other) {
    uint64_t head = merge->heads[run], other_head = merge->heads[other];
    return head < other_head || (head == other_head && merge->ranks[run] < merge->ranks[other]);
}

static void set_head(merge_t *merge, int64_t run) {
    int is_there = run < merge->run_count && (int64_t)merge->next[run] < merge->runs[run]->rows;
    merge->heads[run] = is_there ? merge->runs[run]->words[merge->next[run]] : UINT64_MAX;
    merge->ranks[run] = is_there ? run : run + RUNS_MAX;
}

/* Plays all matches; returns the winner. */
static int64_t begin_merge(merge_t *merge) {
    int64_t winners[2 * RUNS_MAX];
    for (merge->leaves = 2; merge->leaves < merge->run_count;) merge->leaves *= 2;
    for (int64_t run = 0; run < merge->leaves; run++) {
        set_head(merge, run);
        winners[merge->leaves + run] = run;
    }
    for (int64_t node = merge->leaves - 1; node > 0; node--) {
        int64_t left = winners[2 * node], right = winners[2 * node + 1];
        int is_left = precedes(merge, left, right);
        winners[node] = is_left ? left : right;
        merge->losers[node] = is_left ? right : left;
    }
    return winners[1];
}

/* Repeats the matches of a run whose head has changed; returns the winner. */
static int64_t play(merge_t *merge, int64_t run) {
    for (int64_t node = (merge->leaves + run) / 2; node > 0; node /= 2) {
        int64_t loser = merge->losers[node];
        if (!precedes(merge, loser, run)) continue;
        merge->losers[node] = run;
        run = loser;
    }
    return run;
}

/* The first of the runs behind the winner: it lost to the winner. */
static int64_t second(const merge_t *merge, int64_t winner) {
    int64_t node = (merge->leaves + winner) / 2, first = merge->losers[node];
    for (node /= 2; node > 0; node /= 2)
        if (precedes(merge, merge->losers[node], first)) first = merge->losers[node];
    return first;
}

/* Whether a run before has a row with this key, among those with the same word. */
static int is_written(const merge_t *merge, const order_t *order, int64_t run, uint32_t row) {
    for (int64_t index = order->word_begin; index < order->count; index++) {
        int32_t other = order->run_numbers[index];
        if (other != run && same_row_key(&merge->runs[other]->keys, order->rows[index], &merge->runs[run]->keys, row))
            return 1;
    }
    return 0;
}

ALWAYS_INLINE void write_row(const merge_t *merge, order_t *order, int64_t run, uint32_t row, uint64_t word,
                             int is_unique) {
    if (is_unique) {
        if (likely(order->count == 0 || word != order->word)) {
            order->word = word;
            order->word_begin = order->count;
        } else if (is_written(merge, order, run, row)) {
            return;
        }
    }
    order->run_numbers[order->count] = (int32_t)run;
    order->rows[order->count++] = row;
}

/* Writes the rows of the winner that precede the head of run `other`. */
ALWAYS_INLINE void follow(merge_t *merge, order_t *order, int64_t run, int64_t other, int is_unique) {
    const uint64_t *words = merge->runs[run]->words;
    uint64_t limit = merge->heads[other];
    uint32_t row = merge->next[run], rows = (uint32_t)merge->runs[run]->rows;
    int is_first = run < merge->ranks[other];
    for (; row < rows && (words[row] < limit || (is_first && words[row] == limit)); row++)
        write_row(merge, order, run, row, words[row], is_unique);
    merge->next[run] = row;
    set_head(merge, run);
}

/* Writes the order as (run, row), for which there is room for all rows of all runs: by word, of equal words by run,
 * then by row. is_unique: of rows with equal keys, only those of the first run. Returns how many; -1 if there are more
 * than RUNS_MAX runs, or runs without words, or keys of different types. */
EXPORT int64_t headrace_run_merge_order(const run_t *const *runs, int64_t run_count, int64_t is_unique,
                                        int32_t *run_numbers, uint32_t *rows) {
    merge_t merge = {.runs = runs, .run_count = run_count};
    order_t order = {.run_numbers = run_numbers, .rows = rows};
    if (run_count < 1 || run_count > RUNS_MAX) return -1;
    for (int64_t run = 0; run < run_count; run++) {
        if (runs[run]->words == NULL && runs[run]->rows > 0) return -1;
        if (!same_forms(&runs[0]->keys, &runs[run]->keys)) return -1;
    }
    int64_t winner = begin_merge(&merge);
    while (merge.ranks[winner] < RUNS_MAX) {
        int64_t other = second(&merge, winner);
        if (is_unique) follow(&merge, &order, winner, other, 1);
        else follow(&merge, &order, winner, other, 0);
        winner = play(&merge, winner);
    }
    return order.count;
}
