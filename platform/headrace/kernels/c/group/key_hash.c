/* The hash of each row's key, bit for bit as `core/keygroups.py` defines it, and the order of rows by their subtask.
 *
 * XXH64, seed 42, over each key column, chained over the columns. */
#include "arrow.h"
#include "xxh64.h"

#define SEED 42
#define NULL_HASH 42

#define KEYS_MAX 64

EXPORT int64_t headrace_key_hash(arrow_stream_t *stream, const int64_t *places, int64_t key_count, uint64_t *hashes,
                                 int64_t rows);
EXPORT void headrace_split_order(const uint64_t *hashes, int64_t rows, uint64_t max_parallelism, uint64_t parallelism,
                                 uint16_t *targets, uint32_t *order, int64_t *counts);

/* One zero, one NaN. */
ALWAYS_INLINE uint64_t float_word(double value) {
    uint64_t word;
    value += 0.0;
    memcpy(&word, &value, sizeof word);
    return value != value ? 0x7ff8000000000000U : word;
}

ALWAYS_INLINE uint64_t column_hash(const column_view_t *column, int64_t form, int64_t row) {
    const uint8_t *at = column->values + row * form_bytes(form);
    double value;
    float narrow;
    if (unlikely(!is_valid(column, row))) return NULL_HASH;
    switch (form) {
    case FORM_INT64: return xxh64_of_word(load_word(at), SEED);
    case FORM_INT32: return xxh64_of_word((uint64_t)(int64_t)(int32_t)load_uint32(at), SEED);
    case FORM_INT128: return xxh64_of_words(load_word(at), load_word(at + 8), SEED);
    case FORM_FLOAT64: memcpy(&value, at, 8); return xxh64_of_word(float_word(value), SEED);
    case FORM_FLOAT32: memcpy(&narrow, at, 4); return xxh64_of_word(float_word((double)narrow), SEED);
    default: return xxh64(view_bytes(column->texts, at), load_uint32(at), SEED);
    }
}

/* One column of all rows; `form` is a constant wherever this is inlined. */
ALWAYS_INLINE void hash_column(const column_view_t *column, int64_t form, int64_t rows, int is_first,
                               uint64_t *hashes) {
    for (int64_t row = 0; row < rows; row++) {
        uint64_t hash = column_hash(column, form, row);
        hashes[row] = is_first ? hash : xxh64_of_word(hash, hashes[row]);
    }
}

/* The key columns: their places in an array, and their forms. */
typedef struct {
    const int64_t *places;
    int64_t count;
    int64_t forms[KEYS_MAX];
} keys_t;

/* Hashes the rows of one array; returns 0 if a column lacks the buffers of its form. */
static int hash_array(const arrow_array_t *array, const keys_t *keys, uint64_t *hashes) {
    for (int64_t key = 0; key < keys->count; key++) {
        column_view_t column;
        int64_t rows = array->length, form = keys->forms[key];
        if (!column_view(&column, array, keys->places[key], form, 0)) return 0;
        if (form == FORM_INT64 && key == 0 && column.valid == NULL) {
            for (int64_t row = 0; row < rows; row++)
                hashes[row] = xxh64_of_word(load_word(column.values + row * 8), SEED);
        } else if (form == FORM_TEXT) {
            hash_column(&column, FORM_TEXT, rows, key == 0, hashes);
        } else {
            hash_column(&column, form, rows, key == 0, hashes);
        }
    }
    return 1;
}

/* Reads the forms of the key columns; returns 0 if one is not there, or has a type that is not hashed here. */
static int read_forms(arrow_stream_t *stream, keys_t *keys) {
    arrow_schema_t schema;
    if (keys->count > KEYS_MAX || stream->get_schema(stream, &schema)) return 0;
    int is_fit = 1;
    for (int64_t key = 0; key < keys->count && is_fit; key++) {
        int64_t place = keys->places[key];
        is_fit = place >= 0 && place < schema.n_children;
        keys->forms[key] = is_fit ? form_of(schema.children[place]->format) : FORM_ANY;
        is_fit = is_fit && keys->forms[key] != FORM_ANY && schema.children[place]->dictionary == NULL;
    }
    if (schema.release != NULL) schema.release(&schema);
    return is_fit;
}

/* Hashes all rows of a stream; `places` are the key columns' places among its columns. Returns how many: `rows`, or -1
 * where a key has a type that is not hashed here. */
EXPORT int64_t headrace_key_hash(arrow_stream_t *stream, const int64_t *places, int64_t key_count, uint64_t *hashes,
                                 int64_t rows) {
    keys_t keys = {.places = places, .count = key_count};
    int64_t hashed = 0;
    if (!read_forms(stream, &keys)) return -1;
    for (;;) {
        arrow_array_t array;
        if (stream->get_next(stream, &array) || array.release == NULL) return hashed;
        int64_t length = array.length;
        int is_hashed = length <= rows - hashed && hash_array(&array, &keys, hashes + hashed);
        array.release(&array);
        if (!is_hashed) return -1;
        hashed += length;
    }
}

/* Writes the subtask that owns the key group of each row, the row count per subtask (`counts`, zero at first), and the
 * rows ordered by subtask; the sort is stable. parallelism <= max_parallelism <= 2^15. */
EXPORT void headrace_split_order(const uint64_t *hashes, int64_t rows, uint64_t max_parallelism, uint64_t parallelism,
                                 uint16_t *targets, uint32_t *order, int64_t *counts) {
    if ((max_parallelism & (max_parallelism - 1)) == 0) {
        int bits = __builtin_ctzll(max_parallelism); /* no division */
        for (int64_t row = 0; row < rows; row++)
            targets[row] = (uint16_t)((hashes[row] & (max_parallelism - 1)) * parallelism >> bits);
    } else {
        for (int64_t row = 0; row < rows; row++)
            targets[row] = (uint16_t)(hashes[row] % max_parallelism * parallelism / max_parallelism);
    }
    for (int64_t row = 0; row < rows; row++) counts[targets[row]]++;
    int64_t begin = 0;
    for (uint64_t target = 0; target < parallelism; target++) {
        int64_t count = counts[target];
        counts[target] = begin;
        begin += count;
    }
    for (int64_t row = 0; row < rows; row++) order[counts[targets[row]]++] = (uint32_t)row;
    /* each position is at the end of its subtask's rows now, which is the begin of the next subtask's */
    for (uint64_t target = parallelism; target-- > 1;) counts[target] -= counts[target - 1];
}
