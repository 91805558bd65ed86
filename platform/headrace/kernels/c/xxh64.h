/* XXH64 (Y. Collet, "XXH64 specification", in doc/xxhash_spec.md of xxHash 0.8.2). Little-endian. */
#ifndef HEADRACE_XXH64_H
#define HEADRACE_XXH64_H

#include "words.h"

#define XXH_PRIME64_1 0x9e3779b185ebca87U
#define XXH_PRIME64_2 0xc2b2ae3d27d4eb4fU
#define XXH_PRIME64_3 0x165667b19e3779f9U
#define XXH_PRIME64_4 0x85ebca77c2b2ae63U
#define XXH_PRIME64_5 0x27d4eb2f165667c5U

ALWAYS_INLINE uint64_t xxh64_lane(uint64_t lane, uint64_t word) {
    return rotated(lane + word * XXH_PRIME64_2, 31) * XXH_PRIME64_1;
}

ALWAYS_INLINE uint64_t xxh64_with_word(uint64_t hash, uint64_t word) {
    return rotated(hash ^ xxh64_lane(0, word), 27) * XXH_PRIME64_1 + XXH_PRIME64_4;
}

ALWAYS_INLINE uint64_t xxh64_avalanche(uint64_t hash) {
    hash = (hash ^ hash >> 33) * XXH_PRIME64_2;
    hash = (hash ^ hash >> 29) * XXH_PRIME64_3;
    return hash ^ hash >> 32;
}

/* Of 8 bytes. */
ALWAYS_INLINE uint64_t xxh64_of_word(uint64_t word, uint64_t seed) {
    return xxh64_avalanche(xxh64_with_word(seed + XXH_PRIME64_5 + 8, word));
}

/* Of 16 bytes. */
ALWAYS_INLINE uint64_t xxh64_of_words(uint64_t first, uint64_t second, uint64_t seed) {
    return xxh64_avalanche(xxh64_with_word(xxh64_with_word(seed + XXH_PRIME64_5 + 16, first), second));
}

static inline uint64_t xxh64(const uint8_t *at, uint64_t size, uint64_t seed) {
    const uint8_t *end = at + size;
    uint64_t hash = seed + XXH_PRIME64_5;
    if (size >= 32) {
        uint64_t lanes[4] = {seed + XXH_PRIME64_1 + XXH_PRIME64_2, seed + XXH_PRIME64_2, seed, seed - XXH_PRIME64_1};
        for (; end - at >= 32; at += 32)
            for (int lane = 0; lane < 4; lane++) lanes[lane] = xxh64_lane(lanes[lane], load_word(at + 8 * lane));
        hash = rotated(lanes[0], 1) + rotated(lanes[1], 7) + rotated(lanes[2], 12) + rotated(lanes[3], 18);
        for (int lane = 0; lane < 4; lane++)
            hash = (hash ^ xxh64_lane(0, lanes[lane])) * XXH_PRIME64_1 + XXH_PRIME64_4;
    }
    hash += size;
    for (; end - at >= 8; at += 8) hash = xxh64_with_word(hash, load_word(at));
    if (end - at >= 4) {
        hash = rotated(hash ^ load_uint32(at) * XXH_PRIME64_1, 23) * XXH_PRIME64_2 + XXH_PRIME64_3;
        at += 4;
    }
    for (; at < end; at++) hash = rotated(hash ^ *at * XXH_PRIME64_5, 11) * XXH_PRIME64_1;
    return xxh64_avalanche(hash);
}

#endif
