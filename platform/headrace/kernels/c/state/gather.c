/* Gathers rows of runs by their places, column by column. */
#include "state/run.h"

#define GATHER_AHEAD 16
#define TEXT_AHEAD 8

EXPORT int64_t headrace_run_gather(const run_t *const *runs, int64_t run_count, const int64_t *columns,
                                   const int32_t *run_numbers, const uint32_t *rows, int64_t count, int64_t bytes,
                                   int64_t is_text, uint8_t *values, uint8_t *valid, int64_t *nulls);
EXPORT void headrace_run_gather_texts(const run_t *const *runs, const int64_t *columns, const int32_t *run_numbers,
                                      int64_t count, uint8_t *views, uint8_t *texts);

/* The rows to gather, of one column of each run. A negative run stands for a row of NULL. */
typedef struct {
    const run_t *const *runs;
    const int64_t *columns;
    const int32_t *run_numbers;
    const uint32_t *rows;
    int64_t count;
} places_t;

ALWAYS_INLINE const run_column_t *column_at(const places_t *places, int64_t index) {
    int32_t run = places->run_numbers[index];
    return places->runs[run]->columns + places->columns[run];
}

/* Whether all places are inside of the runs, and all columns have values of `bytes` bytes: texts, or none of them. */
static int fits(const places_t *places, int64_t run_count, int64_t bytes, int64_t is_text) {
    for (int64_t run = 0; run < run_count; run++) {
        const run_t *source = places->runs[run];
        if (places->columns[run] < 0 || places->columns[run] >= source->column_count) return 0;
        const run_column_t *column = source->columns + places->columns[run];
        if (source->rows > 0 && (column->bytes != bytes || column->is_text != is_text)) return 0;
    }
    for (int64_t index = 0; index < places->count; index++) {
        int32_t run = places->run_numbers[index];
        if (run >= run_count || (run >= 0 && places->rows[index] >= places->runs[run]->rows)) return 0;
    }
    return 1;
}

/* Values of `bytes` bytes, which is a constant wherever this is inlined. */
ALWAYS_INLINE void gather_values(const places_t *places, uint8_t *values, size_t bytes) {
    for (int64_t index = 0; index < places->count; index++) {
        int64_t ahead = index + GATHER_AHEAD;
        if (ahead < places->count && places->run_numbers[ahead] >= 0)
            __builtin_prefetch(column_at(places, ahead)->view.values + (size_t)places->rows[ahead] * bytes);
        uint8_t *to = values + (size_t)index * bytes;
        if (unlikely(places->run_numbers[index] < 0)) memset(to, 0, bytes);
        else memcpy(to, column_at(places, index)->view.values + (size_t)places->rows[index] * bytes, bytes);
    }
}

static int has_nulls(const places_t *places, int64_t run_count) {
    for (int64_t run = 0; run < run_count; run++)
        if (places->runs[run]->columns[places->columns[run]].view.valid != NULL) return 1;
    for (int64_t index = 0; index < places->count; index++)
        if (places->run_numbers[index] < 0) return 1;
    return 0;
}

/* Writes the bitmap of valid rows; returns how many are NULL. */
static int64_t gather_valid(const places_t *places, uint8_t *valid) {
    int64_t nulls = 0;
    memset(valid, 0, ((size_t)places->count + 7) / 8);
    for (int64_t index = 0; index < places->count; index++) {
        int bit = places->run_numbers[index] >= 0 && is_valid(&column_at(places, index)->view, places->rows[index]);
        valid[index >> 3] |= (uint8_t)(bit << (index & 7));
        nulls += !bit;
    }
    return nulls;
}

/* The bytes of the long texts of gathered views. Views of NULLs become 0, whatever they were. */
static int64_t texts_bytes(uint8_t *views, const uint8_t *valid, int64_t count) {
    int64_t bytes = 0;
    for (int64_t index = 0; index < count; index++) {
        uint8_t *view = views + index * 16;
        if (valid != NULL && !bit_at(valid, index)) memset(view, 0, 16);
        uint32_t length = load_uint32(view);
        bytes += length > 12 ? length : 0;
    }
    return bytes;
}

/* Gathers column `columns[r]` of each run r, whose values have `bytes` bytes: 1, 2, 4, 8 or 16. `valid` has room for
 * the bitmap, which is written if `*nulls`, the number of NULLs, becomes positive. Returns the bytes of long texts, to
 * which the views still refer in the runs: `headrace_run_gather_texts` copies them. Returns -1 if a place is outside of
 * the runs, or a column has other values. */
EXPORT int64_t headrace_run_gather(const run_t *const *runs, int64_t run_count, const int64_t *columns,
                                   const int32_t *run_numbers, const uint32_t *rows, int64_t count, int64_t bytes,
                                   int64_t is_text, uint8_t *values, uint8_t *valid, int64_t *nulls) {
    places_t places = {runs, columns, run_numbers, rows, count};
    if (!fits(&places, run_count, bytes, is_text)) return -1;
    switch (bytes) {
    case 1: gather_values(&places, values, 1); break;
    case 2: gather_values(&places, values, 2); break;
    case 4: gather_values(&places, values, 4); break;
    case 8: gather_values(&places, values, 8); break;
    case 16: gather_values(&places, values, 16); break;
    default: return -1;
    }
    *nulls = has_nulls(&places, run_count) ? gather_valid(&places, valid) : 0;
    return is_text ? texts_bytes(values, *nulls ? valid : NULL, count) : 0;
}

/* Copies the long texts of gathered views one behind the other into `texts`, to which the views refer then as their
 * buffer 0. They have less than 2^31 bytes. */
EXPORT void headrace_run_gather_texts(const run_t *const *runs, const int64_t *columns, const int32_t *run_numbers,
                                      int64_t count, uint8_t *views, uint8_t *texts) {
    places_t places = {runs, columns, run_numbers, NULL, count};
    uint64_t written = 0;
    for (int64_t index = 0; index < count; index++) {
        int64_t ahead = index + TEXT_AHEAD;
        if (ahead < count && load_uint32(views + ahead * 16) > 12)
            __builtin_prefetch(view_bytes(column_at(&places, ahead)->view.texts, views + ahead * 16));
        uint8_t *view = views + index * 16;
        uint32_t length = load_uint32(view);
        if (length <= 12) continue;
        copy_text(texts + written, view_bytes(column_at(&places, index)->view.texts, view), length);
        store_word(view + 8, written << 32);
        written += length;
    }
}
