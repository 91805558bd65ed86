/* Gathers rows of runs by their places, all columns in one call. */
#include "state/run.h"

#include <stdlib.h>

#define GATHER_AHEAD 16
#define TEXT_AHEAD 8

/* A column to gather. All runs have it at the same place. */
typedef struct {
    int64_t place;
    int64_t bytes;       /* of a value: 1, 2, 4, 8 or 16 */
    int64_t is_text;
    uint8_t *values;     /* room for the values */
    uint8_t *valid;      /* room for the bitmap, which is written if there are NULLs */
    int64_t nulls;       /* written: how many rows are NULL */
    int64_t text_bytes;  /* written: of long texts, to which the views still refer in the runs */
} gathered_t;

EXPORT int64_t headrace_run_gather(const run_t *const *runs, int64_t run_count, const int32_t *run_numbers,
                                   const uint32_t *rows, int64_t count, gathered_t *columns, int64_t column_count);
EXPORT void headrace_run_gather_texts(const run_t *const *runs, int64_t place, const int32_t *run_numbers,
                                      int64_t count, uint8_t *views, uint8_t *texts);

/* The rows to gather. A negative run stands for a row of NULL. */
typedef struct {
    const run_t *const *runs;
    int64_t run_count;
    const int32_t *run_numbers;
    const uint32_t *rows;
    int64_t count;
} places_t;

/* Whether all places are inside of the runs. */
static int are_inside(const places_t *places) {
    int is_inside = 1;
    for (int64_t index = 0; index < places->count; index++) {
        int32_t run = places->run_numbers[index];
        if (run < 0) continue;
        if (run >= places->run_count) return 0;
        is_inside &= (int64_t)places->rows[index] < places->runs[run]->rows;
    }
    return is_inside;
}

/* Writes where the values of a column begin in each run; returns 0 if a run has other values. */
static int begins_of(const places_t *places, const gathered_t *to, const uint8_t **begins) {
    for (int64_t number = 0; number < places->run_count; number++) {
        const run_t *run = places->runs[number];
        if (to->place < 0 || to->place >= run->column_count) return 0;
        const run_column_t *column = run->columns + to->place;
        if (run->rows > 0 && (column->bytes != to->bytes || column->is_text != to->is_text)) return 0;
        begins[number] = column->view.values;
    }
    return 1;
}

/* Values of `bytes` bytes, which is a constant wherever this is inlined. */
ALWAYS_INLINE void gather_values(const places_t *places, const uint8_t *const *begins, uint8_t *values, size_t bytes) {
    for (int64_t index = 0; index < places->count; index++) {
        int64_t ahead = index + GATHER_AHEAD;
        if (ahead < places->count && places->run_numbers[ahead] >= 0)
            __builtin_prefetch(begins[places->run_numbers[ahead]] + (size_t)places->rows[ahead] * bytes);
        int32_t run = places->run_numbers[index];
        uint8_t *to = values + (size_t)index * bytes;
        if (unlikely(run < 0)) memset(to, 0, bytes);
        else memcpy(to, begins[run] + (size_t)places->rows[index] * bytes, bytes);
    }
}

static int has_nulls(const places_t *places, int64_t place) {
    for (int64_t run = 0; run < places->run_count; run++)
        if (places->runs[run]->columns[place].view.valid != NULL) return 1;
    for (int64_t index = 0; index < places->count; index++)
        if (places->run_numbers[index] < 0) return 1;
    return 0;
}

/* Writes the bitmap of valid rows; returns how many are NULL. */
static int64_t gather_valid(const places_t *places, int64_t place, uint8_t *valid) {
    int64_t nulls = 0;
    memset(valid, 0, ((size_t)places->count + 7) / 8);
    for (int64_t index = 0; index < places->count; index++) {
        int32_t run = places->run_numbers[index];
        int bit = run >= 0 && is_valid(&places->runs[run]->columns[place].view, places->rows[index]);
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

/* Returns 0 if a run has other values. */
static int gather_column(const places_t *places, gathered_t *to, const uint8_t **begins) {
    if (!begins_of(places, to, begins)) return 0;
    switch (to->bytes) {
    case 1: gather_values(places, begins, to->values, 1); break;
    case 2: gather_values(places, begins, to->values, 2); break;
    case 4: gather_values(places, begins, to->values, 4); break;
    case 8: gather_values(places, begins, to->values, 8); break;
    case 16: gather_values(places, begins, to->values, 16); break;
    default: return 0;
    }
    to->nulls = has_nulls(places, to->place) ? gather_valid(places, to->place, to->valid) : 0;
    to->text_bytes = to->is_text ? texts_bytes(to->values, to->nulls ? to->valid : NULL, places->count) : 0;
    return 1;
}

/* Gathers these columns of the rows. `headrace_run_gather_texts` copies long texts. Returns 0; -1 if a place is outside
 * of the runs, or a column has other values in one of them; -2 if there is no memory. */
EXPORT int64_t headrace_run_gather(const run_t *const *runs, int64_t run_count, const int32_t *run_numbers,
                                   const uint32_t *rows, int64_t count, gathered_t *columns, int64_t column_count) {
    places_t places = {runs, run_count, run_numbers, rows, count};
    if (!are_inside(&places)) return -1;
    const uint8_t **begins = malloc((size_t)(run_count + 1) * sizeof *begins);
    if (begins == NULL) return -2;
    int is_gathered = 1;
    for (int64_t column = 0; column < column_count && is_gathered; column++)
        is_gathered = gather_column(&places, columns + column, begins);
    free(begins);
    return is_gathered ? 0 : -1;
}

/* Copies the long texts of gathered views of column `place` one behind the other into `texts`, to which the views refer
 * then as their buffer 0. They have less than 2^31 bytes. */
EXPORT void headrace_run_gather_texts(const run_t *const *runs, int64_t place, const int32_t *run_numbers,
                                      int64_t count, uint8_t *views, uint8_t *texts) {
    uint64_t written = 0;
    for (int64_t index = 0; index < count; index++) {
        int64_t ahead = index + TEXT_AHEAD;
        if (ahead < count && load_uint32(views + ahead * 16) > 12)
            __builtin_prefetch(view_bytes(runs[run_numbers[ahead]]->columns[place].view.texts, views + ahead * 16));
        uint8_t *view = views + index * 16;
        uint32_t length = load_uint32(view);
        if (length <= 12) continue;
        copy_text(texts + written, view_bytes(runs[run_numbers[index]]->columns[place].view.texts, view), length);
        store_word(view + 8, written << 32);
        written += length;
    }
}
