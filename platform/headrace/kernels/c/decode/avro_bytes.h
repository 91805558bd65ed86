/* Avro's binary form: integers, lengths and texts, each read inside of its message.
 *
 * Each function moves r->at behind what it has read and returns 1; 0 is doubt. */
#ifndef HEADRACE_AVRO_BYTES_H
#define HEADRACE_AVRO_BYTES_H

#include "text/utf8.h"
#include "words.h"

#define HIGH_BITS 0x8080808080808080U

typedef struct {
    const uint8_t *at;
    const uint8_t *end;
} span_t;

/* Seven bits a byte, the lowest first: at most 64 bits in ten bytes. */
ALWAYS_INLINE int read_varint(span_t *r, uint64_t *value) {
    const uint8_t *at = r->at;
    if (likely(at < r->end && *at < 0x80)) {
        *value = *at;
        r->at = at + 1;
        return 1;
    }
    if (likely(r->end - at >= 8)) {
        uint64_t word = load_word(at), last = ~word & HIGH_BITS;
        if (likely(last)) { /* ends within the word: its bits are moved together in three steps */
            int bits = __builtin_ctzll(last) + 1;
            if (bits < 64) word &= ((uint64_t)1 << bits) - 1;
            word &= ~HIGH_BITS;
            word = (word & 0x007f007f007f007fU) | (word & 0x7f007f007f007f00U) >> 1;
            word = (word & 0x00003fff00003fffU) | (word & 0x3fff00003fff0000U) >> 2;
            *value = (word & 0x000000000fffffffU) | (word & 0x0fffffff00000000U) >> 4;
            r->at = at + bits / 8;
            return 1;
        }
    }
    uint64_t read = 0;
    for (int shift = 0; shift < 70 && at < r->end; shift += 7) {
        uint8_t byte = *at++;
        if (shift == 63 && byte > 1) return 0;
        read |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = read;
            r->at = at;
            return 1;
        }
    }
    return 0;
}

/* An int or long: zigzag. */
ALWAYS_INLINE int read_long(span_t *r, int64_t *value) {
    uint64_t read;
    if (!read_varint(r, &read)) return 0;
    *value = (int64_t)(read >> 1 ^ (0 - (read & 1)));
    return 1;
}

/* The length of a text or of bytes, all of which are in the message. */
ALWAYS_INLINE int read_length(span_t *r, int64_t *length) {
    return read_long(r, length) && *length >= 0 && *length <= r->end - r->at;
}

/* The items of the next block of an array, each of which takes a byte or more; 0 items end the array. */
ALWAYS_INLINE int read_block(span_t *r, int64_t *items) {
    int64_t bytes;
    if (!read_long(r, items)) return 0;
    if (*items < 0) { /* with the size of the block, which nobody needs who reads it */
        if (*items == INT64_MIN || !read_long(r, &bytes)) return 0;
        *items = -*items;
    }
    return *items <= r->end - r->at;
}

static inline int is_utf8(const uint8_t *at, const uint8_t *end) {
    while (at < end) {
        if (likely(end - at >= 8) && !(load_word(at) & HIGH_BITS)) {
            at += 8;
        } else if (likely(*at < 0x80)) {
            at++;
        } else {
            int64_t length = utf8_length(at, end);
            if (length == 0) return 0;
            at += length;
        }
    }
    return 1;
}

#endif
