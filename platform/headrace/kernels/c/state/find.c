/* Finds the rows of keys in runs. Keys are processed in blocks: each step of a lookup prefetches what the next step of
 * all keys of the block reads, so that their cache misses overlap. */
#include "state/run.h"

#include <stdlib.h>

#define SCAN_ROWS_MAX 16

EXPORT int64_t headrace_run_find(const run_t *const *runs, int64_t run_count, const uint64_t *words,
                                 const uint32_t *order, arrow_stream_t *stream, const int64_t *places, int64_t count,
                                 int32_t *run_numbers, uint32_t *rows);
EXPORT int64_t headrace_run_find_all(const run_t *const *runs, int64_t run_count, const uint64_t *words,
                                     const uint32_t *order, arrow_stream_t *stream, const int64_t *places,
                                     int64_t count, int64_t capacity, uint32_t *asked_rows, int32_t *run_numbers,
                                     uint32_t *rows);

/* The keys asked for. Key `index` has the word `words[index]`, and is row `order[index]`, or `index` without an order. */
typedef struct {
    const uint64_t *words;
    const uint32_t *order;
    int64_t count;
    key_columns_t keys;
    arrow_array_t array;
} asked_t;

/* ---- one block in one run ---------------------------------------------------------------------------------------- */

/* The first of the rows [begin, end) whose word is at least `word`. */
ALWAYS_INLINE uint32_t lower_bound(const uint64_t *words, uint32_t begin, uint32_t end, uint64_t word) {
    while (end - begin > SCAN_ROWS_MAX) {
        uint32_t middle = begin + (end - begin) / 2;
        if (words[middle] < word) begin = middle + 1;
        else end = middle;
    }
    while (begin < end && words[begin] < word) begin++;
    return begin;
}

static inline void prefetch_key(const run_t *run, uint32_t row) {
    for (int64_t key = 0; key < run->keys.count; key++)
        __builtin_prefetch(run->keys.views[key].values + (int64_t)row * form_bytes(run->keys.forms[key]));
}

/* The words of a block, and what is known of them. */
typedef struct {
    const uint64_t *words;
    int64_t count;
    int is_sorted;
    uint64_t least;
    uint64_t greatest;
} words_t;

static words_t words_of(const uint64_t *words, int64_t count) {
    words_t block = {.words = words, .count = count, .is_sorted = 1, .least = words[0], .greatest = words[0]};
    for (int64_t place = 1; place < count; place++) {
        block.is_sorted &= words[place - 1] <= words[place];
        if (words[place] < block.least) block.least = words[place];
        if (words[place] > block.greatest) block.greatest = words[place];
    }
    return block;
}

/* Whether a run can have words of a block: of runs that divide all words among them, few can where keys are sorted. */
ALWAYS_INLINE int meets(const run_t *run, const words_t *block) {
    return run->entries > 0 && run->first_word <= block->greatest && block->least <= run->last_word;
}

/* The first row of each of `count` words: NO_ROW where the run lacks the word, or where `skipped` (or NULL) is not
 * negative. */
static void locate(const run_t *run, const uint64_t *words, int64_t count, const int32_t *skipped, uint32_t *rows) {
    uint32_t ends[BLOCK_KEYS];
    for (int64_t place = 0; place < count; place++) {
        uint64_t entry = (words[place] >> run->shift) - run->first_entry;
        __builtin_prefetch(run->directory + (entry < run->entries ? entry : 0));
    }
    for (int64_t place = 0; place < count; place++) {
        uint64_t entry = (words[place] >> run->shift) - run->first_entry;
        rows[place] = NO_ROW;
        if (entry >= run->entries || (skipped != NULL && skipped[place] >= 0)) continue;
        if (!(run->directory[entry].low_bits & low_bit(words[place]))) continue;
        rows[place] = run->directory[entry].row;
        ends[place] = run->directory[entry + 1].row;
        __builtin_prefetch(run->words + rows[place]);
        __builtin_prefetch(run->words + ends[place] - 1);
    }
    for (int64_t place = 0; place < count; place++) {
        if (rows[place] == NO_ROW) continue;
        uint32_t row = lower_bound(run->words, rows[place], ends[place], words[place]);
        rows[place] = row < ends[place] && run->words[row] == words[place] ? row : NO_ROW;
        if (rows[place] != NO_ROW) prefetch_key(run, row);
    }
}

/* `locate` for a block: of sorted words, only those that the run can have are looked at. */
static void locate_block(const run_t *run, const words_t *block, const int32_t *skipped, uint32_t *rows) {
    int64_t begin = 0, end = block->count;
    if (block->is_sorted) {
        while (begin < end && block->words[begin] < run->first_word) rows[begin++] = NO_ROW;
        while (begin < end && block->words[end - 1] > run->last_word) rows[--end] = NO_ROW;
    }
    locate(run, block->words + begin, end - begin, skipped == NULL ? NULL : skipped + begin, rows + begin);
}

/* Prefetches the long texts of the located keys. */
static void prefetch_texts(const run_t *run, int64_t count, const uint32_t *rows) {
    for (int64_t key = 0; key < run->keys.count; key++) {
        const column_view_t *column = run->keys.views + key;
        if (run->keys.forms[key] != FORM_TEXT) continue;
        for (int64_t place = 0; place < count; place++) {
            if (rows[place] == NO_ROW || !is_valid(column, rows[place])) continue;
            const uint8_t *view = column->values + (int64_t)rows[place] * 16, *text = view_bytes(column->texts, view);
            uint32_t length = load_uint32(view);
            __builtin_prefetch(text);
            if (length > 0) __builtin_prefetch(text + length - 1);
        }
    }
}

ALWAYS_INLINE int64_t asked_row_of(const asked_t *asked, int64_t index) {
    return asked->order == NULL ? index : asked->order[index];
}

/* Prefetches the texts of the keys asked for: where they are sorted they lie anywhere. */
static void prefetch_asked(const asked_t *asked, int64_t begin, int64_t count) {
    for (int64_t key = 0; key < asked->keys.count; key++) {
        const column_view_t *column = asked->keys.views + key;
        if (asked->keys.forms[key] != FORM_TEXT) continue;
        for (int64_t index = begin; index < begin + count; index++) {
            int64_t row = asked_row_of(asked, index);
            if (is_valid(column, row)) __builtin_prefetch(view_bytes(column->texts, column->values + row * 16));
        }
    }
}

/* The first row from `row` on that has the key `index`; NO_ROW if there is none. */
ALWAYS_INLINE uint32_t next_match(const run_t *run, uint32_t row, const asked_t *asked, int64_t index) {
    uint64_t word = asked->words[index];
    int64_t asked_row = asked_row_of(asked, index);
    for (; row < run->rows && run->words[row] == word; row++)
        if (same_row_key(&run->keys, row, &asked->keys, asked_row)) return row;
    return NO_ROW;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* Opens the only array of a stream; returns 0 if it does not have the keys of the runs. */
static int open_asked(asked_t *asked, arrow_stream_t *stream, const int64_t *places, const run_t *const *runs,
                      int64_t run_count) {
    arrow_schema_t schema;
    asked->array.release = NULL;
    if (run_count < 1 || stream->get_schema(stream, &schema)) return 0;
    int is_inside = 1;
    for (int64_t index = 0; index < asked->count && asked->order != NULL; index++)
        is_inside &= asked->order[index] < asked->count;
    int is_fit = is_inside && read_key_forms(&asked->keys, &schema, places, runs[0]->keys.count);
    if (schema.release != NULL) schema.release(&schema);
    for (int64_t index = 0; index < run_count && is_fit; index++)
        is_fit = same_forms(&asked->keys, &runs[index]->keys) && (runs[index]->words != NULL || !runs[index]->rows);
    if (!is_fit || stream->get_next(stream, &asked->array)) {
        asked->array.release = NULL;
        return 0;
    }
    return asked->array.release != NULL && asked->array.length == asked->count &&
           read_key_views(&asked->keys, &asked->array, places);
}

static void close_asked(asked_t *asked) {
    if (asked->array.release != NULL) asked->array.release(&asked->array);
}

/* Writes the first run that has each asked key, and its row there; -1 and 0 where no run has it. Returns the number of
 * keys that were found; -1 if the keys do not have the types of the runs, or an order leads out of them, or a run has no
 * words. */
EXPORT int64_t headrace_run_find(const run_t *const *runs, int64_t run_count, const uint64_t *words,
                                 const uint32_t *order, arrow_stream_t *stream, const int64_t *places, int64_t count,
                                 int32_t *run_numbers, uint32_t *rows) {
    asked_t asked = {.words = words, .order = order, .count = count};
    uint32_t located[BLOCK_KEYS];
    int64_t found = open_asked(&asked, stream, places, runs, run_count) ? 0 : -1;
    for (int64_t begin = 0; begin < count && found >= 0; begin += BLOCK_KEYS) {
        int64_t block = count - begin < BLOCK_KEYS ? count - begin : BLOCK_KEYS;
        int32_t *block_runs = run_numbers + begin;
        words_t block_words = words_of(words + begin, block);
        prefetch_asked(&asked, begin, block);
        for (int64_t place = 0; place < block; place++) block_runs[place] = -1;
        memset(rows + begin, 0, (size_t)block * sizeof *rows);
        for (int64_t index = 0; index < run_count; index++) {
            const run_t *run = runs[index];
            if (!meets(run, &block_words)) continue;
            locate_block(run, &block_words, block_runs, located);
            prefetch_texts(run, block, located);
            for (int64_t place = 0; place < block; place++) {
                if (located[place] == NO_ROW) continue;
                uint32_t row = next_match(run, located[place], &asked, begin + place);
                if (row == NO_ROW) continue;
                block_runs[place] = (int32_t)index;
                rows[begin + place] = row;
                found++;
            }
        }
    }
    close_asked(&asked);
    return found;
}

/* Writes all rows of all runs that have the asked keys, as (asked row, run, row), in this order; as many as there is
 * room for. Returns their number; -1 as `headrace_run_find` does, -2 if there is no memory. */
EXPORT int64_t headrace_run_find_all(const run_t *const *runs, int64_t run_count, const uint64_t *words,
                                     const uint32_t *order, arrow_stream_t *stream, const int64_t *places,
                                     int64_t count, int64_t capacity, uint32_t *asked_rows, int32_t *run_numbers,
                                     uint32_t *rows) {
    asked_t asked = {.words = words, .order = order, .count = count};
    int64_t found = open_asked(&asked, stream, places, runs, run_count) ? 0 : -1;
    uint32_t *located = found < 0 ? NULL : malloc((size_t)run_count * BLOCK_KEYS * sizeof *located);
    int64_t *met = found < 0 ? NULL : malloc((size_t)run_count * sizeof *met);
    if (found == 0 && (located == NULL || met == NULL)) found = -2;
    for (int64_t begin = 0; begin < count && found >= 0; begin += BLOCK_KEYS) {
        int64_t block = count - begin < BLOCK_KEYS ? count - begin : BLOCK_KEYS;
        words_t block_words = words_of(words + begin, block);
        int64_t met_count = 0;
        prefetch_asked(&asked, begin, block);
        for (int64_t index = 0; index < run_count; index++) {
            if (!meets(runs[index], &block_words)) continue;
            uint32_t *in_run = located + met_count * BLOCK_KEYS;
            met[met_count++] = index;
            locate_block(runs[index], &block_words, NULL, in_run);
            prefetch_texts(runs[index], block, in_run);
        }
        for (int64_t place = 0; place < block; place++) {
            for (int64_t number = 0; number < met_count; number++) {
                uint32_t row = located[number * BLOCK_KEYS + place];
                int64_t index = met[number];
                if (row == NO_ROW) continue;
                for (; (row = next_match(runs[index], row, &asked, begin + place)) != NO_ROW; row++, found++) {
                    if (found >= capacity) continue;
                    asked_rows[found] = (uint32_t)asked_row_of(&asked, begin + place);
                    run_numbers[found] = (int32_t)index;
                    rows[found] = row;
                }
            }
        }
    }
    free(located);
    free(met);
    close_asked(&asked);
    return found;
}
