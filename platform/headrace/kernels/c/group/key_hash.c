/* The hash of each row's key, bit for bit as `core/keygroups.py` defines it, and the order of rows by their subtask.
 *
 * XXH64 (Y. Collet, https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md), seed 42, over each key column,
 * chained over the columns. */
#include "arrow.h"

#define SEED 42
#define NULL_HASH 42
#define P1 0x9e3779b185ebca87U
#define P2 0xc2b2ae3d27d4eb4fU
#define P3 0x165667b19e3779f9U
#define P4 0x85ebca77c2b2ae63U
#define P5 0x27d4eb2f165667c5U

EXPORT int64_t headrace_key_hash(arrow_stream_t *stream, const int64_t *forms, int64_t key_count, uint64_t *hashes,
                                 int64_t rows);
EXPORT void headrace_split_order(const uint64_t *hashes, int64_t rows, uint64_t max_parallelism, uint64_t parallelism,
                                 uint16_t *targets, uint32_t *order, int64_t *counts);

ALWAYS_INLINE uint64_t rotated(uint64_t value, int bits) { return value << bits | value >> (64 - bits); }

ALWAYS_INLINE uint64_t rounded(uint64_t lane, uint64_t word) { return rotated(lane + word * P2, 31) * P1; }

ALWAYS_INLINE uint64_t with_word(uint64_t hash, uint64_t word) {
    return rotated(hash ^ rounded(0, word), 27) * P1 + P4;
}

ALWAYS_INLINE uint64_t finished(uint64_t hash) {
    hash ^= hash >> 33;
    hash *= P2;
    hash ^= hash >> 29;
    hash *= P3;
    return hash ^ hash >> 32;
}

ALWAYS_INLINE uint64_t hash_word(uint64_t word, uint64_t seed) { return finished(with_word(seed + P5 + 8, word)); }

static uint64_t hash_bytes(const uint8_t *at, uint64_t length, uint64_t seed) {
    const uint8_t *end = at + length;
    uint64_t hash = seed + P5;
    if (length >= 32) {
        uint64_t lanes[4] = {seed + P1 + P2, seed + P2, seed, seed - P1};
        for (; end - at >= 32; at += 32)
            for (int lane = 0; lane < 4; lane++) lanes[lane] = rounded(lanes[lane], load_word(at + 8 * lane));
        hash = rotated(lanes[0], 1) + rotated(lanes[1], 7) + rotated(lanes[2], 12) + rotated(lanes[3], 18);
        for (int lane = 0; lane < 4; lane++) hash = (hash ^ rounded(0, lanes[lane])) * P1 + P4;
    }
    hash += length;
    for (; end - at >= 8; at += 8) hash = with_word(hash, load_word(at));
    if (end - at >= 4) {
        hash = rotated(hash ^ load_uint32(at) * P1, 23) * P2 + P3;
        at += 4;
    }
    for (; at < end; at++) hash = rotated(hash ^ *at * P5, 11) * P1;
    return finished(hash);
}

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
    case FORM_INT64: return hash_word(load_word(at), SEED);
    case FORM_INT32: return hash_word((uint64_t)(int64_t)(int32_t)load_uint32(at), SEED);
    case FORM_INT128: return finished(with_word(with_word(SEED + P5 + 16, load_word(at)), load_word(at + 8)));
    case FORM_FLOAT64: memcpy(&value, at, 8); return hash_word(float_word(value), SEED);
    case FORM_FLOAT32: memcpy(&narrow, at, 4); return hash_word(float_word((double)narrow), SEED);
    default: return hash_bytes(view_bytes(column, at), load_uint32(at), SEED);
    }
}

/* One column of all rows; `form` is a constant wherever this is inlined. */
ALWAYS_INLINE void hash_column(const column_view_t *column, int64_t form, int64_t rows, int is_first,
                               uint64_t *hashes) {
    for (int64_t row = 0; row < rows; row++) {
        uint64_t hash = column_hash(column, form, row);
        hashes[row] = is_first ? hash : hash_word(hash, hashes[row]);
    }
}

/* Hashes the rows of one array whose columns are the keys; 0 where a column is not of its form. */
static int hash_array(const arrow_array_t *array, const int64_t *forms, int64_t key_count, uint64_t *hashes) {
    for (int64_t key = 0; key < key_count; key++) {
        column_view_t column;
        int64_t rows = array->length;
        if (!column_view(&column, array, key, forms[key], 0)) return 0;
        if (forms[key] == FORM_INT64 && key == 0 && column.valid == NULL) {
            for (int64_t row = 0; row < rows; row++) hashes[row] = hash_word(load_word(column.values + row * 8), SEED);
        } else if (forms[key] == FORM_TEXT) {
            hash_column(&column, FORM_TEXT, rows, key == 0, hashes);
        } else {
            hash_column(&column, forms[key], rows, key == 0, hashes);
        }
    }
    return 1;
}

static int fits(arrow_stream_t *stream, const int64_t *forms, int64_t key_count) {
    arrow_schema_t schema;
    if (stream->get_schema(stream, &schema)) return 0;
    int is_fit = schema.n_children == key_count;
    for (int64_t key = 0; key < key_count && is_fit; key++)
        is_fit = forms[key] != FORM_ANY && form_of(schema.children[key]->format) == forms[key];
    if (schema.release != NULL) schema.release(&schema);
    return is_fit;
}

/* Hashes all rows of a stream whose columns are the keys. Returns how many: `rows`, or fewer where they do not fit. */
EXPORT int64_t headrace_key_hash(arrow_stream_t *stream, const int64_t *forms, int64_t key_count, uint64_t *hashes,
                                 int64_t rows) {
    int64_t hashed = 0;
    if (!fits(stream, forms, key_count)) return -1;
    for (;;) {
        arrow_array_t array;
        if (stream->get_next(stream, &array) || array.release == NULL) return hashed;
        int64_t length = array.length;
        int is_hashed = length <= rows - hashed && hash_array(&array, forms, key_count, hashes + hashed);
        array.release(&array);
        if (!is_hashed) return -1;
        hashed += length;
    }
}

/* The subtask that owns the key group of each row, how many rows each one has (`counts`, zero at first), and the rows
 * in the order of their subtasks, which keeps that of equal ones. parallelism <= max_parallelism <= 2^15. */
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
    /* each one is at its end now: the begin of the next */
    for (uint64_t target = parallelism; target-- > 1;) counts[target] -= counts[target - 1];
}
