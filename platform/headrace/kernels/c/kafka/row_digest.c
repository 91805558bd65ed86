/* The digest of rows, bit for bit as headrace.core.digest defines it. */
#include "kafka/binary_column.h"
#include "kafka/xxh3.h"

#define NULL_HASH 42
#define FIRST_SEED 0x9e3779b97f4a7c15U
#define SECOND_SEED 0xc2b2ae3d27d4eb4fU

typedef struct {
    binary_column_t values, keys;
    int64_t count;
    uint64_t low, high;   /* the sum modulo 2^128 */
} row_digest_t;

EXPORT int64_t headrace_row_digest(row_digest_t *digest);

ALWAYS_INLINE uint64_t value_hash(const binary_value_t *value, uint64_t seed, const uint8_t *derived) {
    return value->at == NULL ? NULL_HASH : xxh3(value->at, value->size, seed, derived);
}

ALWAYS_INLINE uint64_t row_hash(const binary_value_t *key, const binary_value_t *value, uint64_t seed,
                                const uint8_t *derived) {
    return xxh64_of_words(value_hash(key, seed, derived), value_hash(value, seed, derived), seed);
}

/* Adds rows to the sum. Returns how many: fewer than `count` if the offsets of the next one are outside the data. */
EXPORT int64_t headrace_row_digest(row_digest_t *digest) {
    uint8_t first[XXH3_SECRET_BYTES], second[XXH3_SECRET_BYTES];
    xxh3_derive(FIRST_SEED, first);
    xxh3_derive(SECOND_SEED, second);
    u128 low = 0, high = 0;
    int64_t row = 0;
    for (; row < digest->count; row++) {
        binary_value_t value, key;
        if (!binary_value(&digest->values, row, &value) || !binary_value(&digest->keys, row, &key)) break;
        low += row_hash(&key, &value, FIRST_SEED, first);
        high += row_hash(&key, &value, SECOND_SEED, second);
    }
    u128 sum = ((u128)digest->high << 64 | digest->low) + low + (high << 64);
    digest->low = (uint64_t)sum;
    digest->high = (uint64_t)(sum >> 64);
    return row;
}
