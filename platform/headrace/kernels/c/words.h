/* Eight bytes at a time: loads that need no alignment, what hashes do with words, and tests of all bytes of a word at
 * once. Little-endian. */
#ifndef HEADRACE_WORDS_H
#define HEADRACE_WORDS_H

#include "export.h"

ALWAYS_INLINE uint64_t load_word(const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

ALWAYS_INLINE uint32_t load_uint32(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

ALWAYS_INLINE void store_word(uint8_t *at, uint64_t word) { memcpy(at, &word, sizeof word); }

ALWAYS_INLINE uint64_t rotated(uint64_t word, int bits) { return word << bits | word >> (64 - bits); }

/* The two halves of a 128-bit product, folded: every bit of the result depends on all bits of both factors. */
ALWAYS_INLINE uint64_t folded(uint64_t first, uint64_t second) {
    u128 product = (u128)first * second;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Whether all eight bytes are ASCII digits. */
ALWAYS_INLINE int are_digits(uint64_t word) {
    return ((word & 0xf0f0f0f0f0f0f0f0U) | (((word + 0x0606060606060606U) & 0xf0f0f0f0f0f0f0f0U) >> 4)) ==
           0x3333333333333333U;
}

/* The number of eight ASCII digits, the first in the lowest byte (D. Lemire, "Quickly parsing eight digits", 2022). */
ALWAYS_INLINE uint64_t eight_digits(uint64_t word) {
    word = (word & 0x0f0f0f0f0f0f0f0fU) * 2561 >> 8;
    word = (word & 0x00ff00ff00ff00ffU) * 6553601 >> 16;
    return (word & 0x0000ffff0000ffffU) * 42949672960001U >> 32;
}

#endif
