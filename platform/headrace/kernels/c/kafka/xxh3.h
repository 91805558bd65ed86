/* XXH3, 64 bits, with a seed (Y. Collet, "XXH3 specification", in doc/xxhash_spec.md of xxHash 0.8.2).
 * Little-endian. */
#ifndef HEADRACE_XXH3_H
#define HEADRACE_XXH3_H

#include "xxh64.h"

#define XXH_PRIME32_1 0x9e3779b1U
#define XXH_PRIME32_2 0x85ebca77U
#define XXH_PRIME32_3 0xc2b2ae3dU

#define XXH3_SECRET_BYTES 192
#define XXH3_STRIPE_BYTES 64
#define XXH3_BLOCK_STRIPES ((XXH3_SECRET_BYTES - XXH3_STRIPE_BYTES) / 8)
#define XXH3_LANES 8

static const uint8_t XXH3_SECRET[XXH3_SECRET_BYTES] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};

/* The secret that long inputs take, derived from the seed. */
static inline void xxh3_derive(uint64_t seed, uint8_t *secret) {
    for (int place = 0; place < XXH3_SECRET_BYTES; place += 16) {
        store_word(secret + place, load_word(XXH3_SECRET + place) + seed);
        store_word(secret + place + 8, load_word(XXH3_SECRET + place + 8) - seed);
    }
}

ALWAYS_INLINE uint64_t xxh3_avalanche(uint64_t hash) {
    hash ^= hash >> 37;
    hash *= 0x165667919e3779f9U;
    return hash ^ hash >> 32;
}

ALWAYS_INLINE uint64_t xxh3_to_3(const uint8_t *at, uint64_t size, uint64_t seed) {
    uint32_t combined = (uint32_t)at[0] << 16 | (uint32_t)at[size >> 1] << 24 | at[size - 1] | (uint32_t)size << 8;
    uint64_t flip = (load_uint32(XXH3_SECRET) ^ load_uint32(XXH3_SECRET + 4)) + seed;
    return xxh64_avalanche(combined ^ flip);
}

ALWAYS_INLINE uint64_t xxh3_to_8(const uint8_t *at, uint64_t size, uint64_t seed) {
    seed ^= (uint64_t)__builtin_bswap32((uint32_t)seed) << 32;
    uint64_t flip = (load_word(XXH3_SECRET + 8) ^ load_word(XXH3_SECRET + 16)) - seed;
    uint64_t hash = (load_uint32(at + size - 4) + ((uint64_t)load_uint32(at) << 32)) ^ flip;
    hash ^= rotated(hash, 49) ^ rotated(hash, 24);
    hash *= 0x9fb21c651e98df25U;
    hash ^= (hash >> 35) + size;
    hash *= 0x9fb21c651e98df25U;
    return hash ^ hash >> 28;
}

ALWAYS_INLINE uint64_t xxh3_to_16(const uint8_t *at, uint64_t size, uint64_t seed) {
    uint64_t low = load_word(at) ^ ((load_word(XXH3_SECRET + 24) ^ load_word(XXH3_SECRET + 32)) + seed);
    uint64_t high = load_word(at + size - 8) ^ ((load_word(XXH3_SECRET + 40) ^ load_word(XXH3_SECRET + 48)) - seed);
    return xxh3_avalanche(size + __builtin_bswap64(low) + high + folded(low, high));
}

ALWAYS_INLINE uint64_t xxh3_mixed(const uint8_t *at, const uint8_t *secret, uint64_t seed) {
    return folded(load_word(at) ^ (load_word(secret) + seed), load_word(at + 8) ^ (load_word(secret + 8) - seed));
}

/* 17 to 128 bytes: pairs of 16 bytes from both ends, which may overlap in the middle. */
ALWAYS_INLINE uint64_t xxh3_to_128(const uint8_t *at, uint64_t size, uint64_t seed) {
    const uint8_t *end = at + size;
    uint64_t hash = size * XXH_PRIME64_1;
    hash += xxh3_mixed(at, XXH3_SECRET, seed) + xxh3_mixed(end - 16, XXH3_SECRET + 16, seed);
    if (size > 32) hash += xxh3_mixed(at + 16, XXH3_SECRET + 32, seed) + xxh3_mixed(end - 32, XXH3_SECRET + 48, seed);
    if (size > 64) hash += xxh3_mixed(at + 32, XXH3_SECRET + 64, seed) + xxh3_mixed(end - 48, XXH3_SECRET + 80, seed);
    if (size > 96) hash += xxh3_mixed(at + 48, XXH3_SECRET + 96, seed) + xxh3_mixed(end - 64, XXH3_SECRET + 112, seed);
    return xxh3_avalanche(hash);
}

static inline uint64_t xxh3_to_240(const uint8_t *at, uint64_t size, uint64_t seed) {
    uint64_t hash = size * XXH_PRIME64_1;
    for (uint64_t place = 0; place < 128; place += 16) hash += xxh3_mixed(at + place, XXH3_SECRET + place, seed);
    hash = xxh3_avalanche(hash);
    for (uint64_t place = 128; place + 16 <= size; place += 16) {
        hash += xxh3_mixed(at + place, XXH3_SECRET + place - 128 + 3, seed);
    }
    return xxh3_avalanche(hash + xxh3_mixed(at + size - 16, XXH3_SECRET + 136 - 17, seed));
}

ALWAYS_INLINE void xxh3_stripe(uint64_t *lanes, const uint8_t *at, const uint8_t *secret) {
    for (int lane = 0; lane < XXH3_LANES; lane++) {
        uint64_t data = load_word(at + lane * 8), keyed = data ^ load_word(secret + lane * 8);
        lanes[lane ^ 1] += data;
        lanes[lane] += (keyed & 0xffffffffU) * (keyed >> 32);
    }
}

ALWAYS_INLINE void xxh3_scramble(uint64_t *lanes, const uint8_t *secret) {
    for (int lane = 0; lane < XXH3_LANES; lane++) {
        lanes[lane] = (lanes[lane] ^ lanes[lane] >> 47 ^ load_word(secret + lane * 8)) * XXH_PRIME32_1;
    }
}

/* More than 240 bytes: stripes of 64 bytes in eight lanes; the last one ends with the input. */
static inline uint64_t xxh3_long(const uint8_t *at, uint64_t size, const uint8_t *secret) {
    uint64_t lanes[XXH3_LANES] = {XXH_PRIME32_3, XXH_PRIME64_1, XXH_PRIME64_2, XXH_PRIME64_3,
                                  XXH_PRIME64_4, XXH_PRIME32_2, XXH_PRIME64_5, XXH_PRIME32_1};
    uint64_t whole = (size - 1) / XXH3_STRIPE_BYTES;
    for (uint64_t stripe = 0; stripe < whole; stripe++) {
        uint64_t place = stripe % XXH3_BLOCK_STRIPES;
        xxh3_stripe(lanes, at + stripe * XXH3_STRIPE_BYTES, secret + place * 8);
        if (place == XXH3_BLOCK_STRIPES - 1) xxh3_scramble(lanes, secret + XXH3_SECRET_BYTES - XXH3_STRIPE_BYTES);
    }
    xxh3_stripe(lanes, at + size - XXH3_STRIPE_BYTES, secret + XXH3_SECRET_BYTES - XXH3_STRIPE_BYTES - 7);
    uint64_t hash = size * XXH_PRIME64_1;
    for (int pair = 0; pair < XXH3_LANES / 2; pair++) {
        const uint8_t *key = secret + 11 + pair * 16;
        hash += folded(lanes[pair * 2] ^ load_word(key), lanes[pair * 2 + 1] ^ load_word(key + 8));
    }
    return xxh3_avalanche(hash);
}

/* `derived`: of this seed, by xxh3_derive. */
ALWAYS_INLINE uint64_t xxh3(const uint8_t *at, uint64_t size, uint64_t seed, const uint8_t *derived) {
    if (size > 240) return xxh3_long(at, size, derived);
    if (size > 128) return xxh3_to_240(at, size, seed);
    if (size > 16) return xxh3_to_128(at, size, seed);
    if (size > 8) return xxh3_to_16(at, size, seed);
    if (size > 3) return xxh3_to_8(at, size, seed);
    if (size > 0) return xxh3_to_3(at, size, seed);
    return xxh64_avalanche(seed ^ load_word(XXH3_SECRET + 56) ^ load_word(XXH3_SECRET + 64));
}

#endif
