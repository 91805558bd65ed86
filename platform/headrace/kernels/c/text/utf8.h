/* One character of UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef HEADRACE_UTF8_H
#define HEADRACE_UTF8_H

#include "export.h"

/* The length in bytes of the character at `at`, whose first byte is 0x80 or above; 0 where it is none. */
ALWAYS_INLINE int64_t utf8_length(const uint8_t *at, const uint8_t *end) {
    int64_t left = end - at;
    uint8_t first = at[0];
    if (first < 0xc2 || left < 2 || (at[1] & 0xc0) != 0x80) return 0;
    if (first < 0xe0) return 2;
    if (left < 3 || (at[2] & 0xc0) != 0x80) return 0;
    if (first < 0xf0) {
        if (first == 0xe0 && at[1] < 0xa0) return 0; /* overlong */
        if (first == 0xed && at[1] > 0x9f) return 0; /* a surrogate */
        return 3;
    }
    if (first > 0xf4 || left < 4 || (at[3] & 0xc0) != 0x80) return 0;
    if (first == 0xf0 && at[1] < 0x90) return 0; /* overlong */
    if (first == 0xf4 && at[1] > 0x8f) return 0; /* above U+10FFFF */
    return 4;
}

/* Writes a character that is no surrogate, at most 4 bytes; returns its length. */
ALWAYS_INLINE int64_t utf8_write(uint32_t character, uint8_t *out) {
    if (character < 0x80) {
        out[0] = (uint8_t)character;
        return 1;
    }
    if (character < 0x800) {
        out[0] = (uint8_t)(0xc0 | character >> 6);
        out[1] = (uint8_t)(0x80 | (character & 0x3f));
        return 2;
    }
    if (character < 0x10000) {
        out[0] = (uint8_t)(0xe0 | character >> 12);
        out[1] = (uint8_t)(0x80 | (character >> 6 & 0x3f));
        out[2] = (uint8_t)(0x80 | (character & 0x3f));
        return 3;
    }
    out[0] = (uint8_t)(0xf0 | character >> 18);
    out[1] = (uint8_t)(0x80 | (character >> 12 & 0x3f));
    out[2] = (uint8_t)(0x80 | (character >> 6 & 0x3f));
    out[3] = (uint8_t)(0x80 | (character & 0x3f));
    return 4;
}

#endif
