/* A run: immutable rows of keyed state, sorted by word, and the comparison of their keys.
 *
 * A word is made from the hash of a key (`kernels/state/runs.py`): equal keys have equal words, different keys may have
 * equal words too. The directory has the first row of each value of `word >> shift`, an entry for about six rows. It
 * covers only the words between the first and the last, so a run of few key groups has a directory as fine as others.
 * An entry tells which low bits its words have, so that most keys that a run lacks cost no look at its words.
 *
 * Columns are those of an exported Arrow array that the run holds: it never changes, and any thread may read it.
 * Floats of keys are compared by their bits, so they must be in normal form: one zero, one NaN. */
#ifndef HEADRACE_RUN_H
#define HEADRACE_RUN_H

#include "arrow.h"

#define RUN_KEYS_MAX 8
#define BLOCK_KEYS 64
#define NO_ROW UINT32_MAX

/* The key columns of a run or of the keys asked for. */
typedef struct {
    int64_t count;
    int64_t forms[RUN_KEYS_MAX];
    column_view_t views[RUN_KEYS_MAX];
} key_columns_t;

/* A column to gather. */
typedef struct {
    column_view_t view;
    int64_t bytes;    /* of a value; at most 0: it is not gathered here */
    int64_t is_text;
} run_column_t;

/* An entry of the directory. */
typedef struct {
    uint32_t row;       /* the first */
    uint32_t low_bits;  /* bit n: a word is n modulo 32 */
} entry_t;

typedef struct {
    int64_t rows;
    int64_t column_count;
    run_column_t *columns;
    key_columns_t keys;
    const uint64_t *words;    /* NULL: rows that are only gathered */
    uint64_t first_word;
    uint64_t last_word;
    int64_t shift;
    uint64_t first_entry;     /* first word >> shift */
    uint64_t entries;         /* 0: no rows, or no words */
    entry_t *directory;       /* of entries + 1 */
    arrow_array_t array;
} run_t;

ALWAYS_INLINE uint32_t low_bit(uint64_t word) { return (uint32_t)1 << (word & 31); }

/* Reads the forms of the key columns at `places`; returns 0 if one is not there, or has a type that is not compared. */
static inline int read_key_forms(key_columns_t *keys, const arrow_schema_t *schema, const int64_t *places,
                                 int64_t count) {
    if (count < 0 || count > RUN_KEYS_MAX) return 0;
    keys->count = count;
    for (int64_t key = 0; key < count; key++) {
        if (places[key] < 0 || places[key] >= schema->n_children) return 0;
        const arrow_schema_t *type = schema->children[places[key]];
        keys->forms[key] = form_of(type->format);
        if (keys->forms[key] == FORM_ANY || type->dictionary != NULL) return 0;
    }
    return 1;
}

static inline int read_key_views(key_columns_t *keys, const arrow_array_t *array, const int64_t *places) {
    for (int64_t key = 0; key < keys->count; key++)
        if (!column_view(keys->views + key, array, places[key], keys->forms[key], 0)) return 0;
    return 1;
}

static inline int same_forms(const key_columns_t *keys, const key_columns_t *others) {
    if (keys->count != others->count) return 0;
    for (int64_t key = 0; key < keys->count; key++)
        if (keys->forms[key] != others->forms[key]) return 0;
    return 1;
}

/* Whether two texts of the same length are the same: short ones by overlapping words, which is faster than a call. */
ALWAYS_INLINE int same_bytes(const uint8_t *text, const uint8_t *other, size_t length) {
    if (length > 32 || length < 8) return !memcmp(text, other, length);
    uint64_t differing = load_word(text) ^ load_word(other);
    differing |= load_word(text + length - 8) ^ load_word(other + length - 8);
    if (length > 16) {
        differing |= load_word(text + 8) ^ load_word(other + 8);
        differing |= load_word(text + length - 16) ^ load_word(other + length - 16);
    }
    return differing == 0;
}

ALWAYS_INLINE int same_text(const column_view_t *column, const uint8_t *view, const column_view_t *other_column,
                            const uint8_t *other) {
    uint32_t length = load_uint32(view);
    if (length != load_uint32(other)) return 0;
    /* the first four bytes of a long text are in its view */
    if (length > 12 && load_uint32(view + 4) != load_uint32(other + 4)) return 0;
    return same_bytes(view_bytes(column->texts, view), view_bytes(other_column->texts, other), length);
}

/* Whether two rows have the same key; the forms of their columns are the same. NULL equals NULL. */
static inline int same_row_key(const key_columns_t *keys, int64_t row, const key_columns_t *others, int64_t other_row) {
    for (int64_t key = 0; key < keys->count; key++) {
        const column_view_t *column = keys->views + key, *other_column = others->views + key;
        int valid = is_valid(column, row);
        if (valid != is_valid(other_column, other_row)) return 0;
        if (!valid) continue;
        int64_t bytes = form_bytes(keys->forms[key]);
        const uint8_t *value = column->values + row * bytes, *other = other_column->values + other_row * bytes;
        if (keys->forms[key] == FORM_TEXT) {
            if (!same_text(column, value, other_column, other)) return 0;
        } else if (bytes == 4) {
            if (load_uint32(value) != load_uint32(other)) return 0;
        } else {
            if (load_word(value) != load_word(other)) return 0;
            if (bytes == 16 && load_word(value + 8) != load_word(other + 8)) return 0;
        }
    }
    return 1;
}

#endif
