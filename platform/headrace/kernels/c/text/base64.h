/* Standard base64 with padding. */
#ifndef HEADRACE_BASE64_H
#define HEADRACE_BASE64_H

#include "export.h"

static inline int64_t base64_length(int64_t length) { return (length + 2) / 3 * 4; }

/* Writes base64_length(length) bytes at `out`; returns where they end. */
static inline uint8_t *write_base64(uint8_t *out, const uint8_t *at, int64_t length) {
    static const char LETTERS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (; length > 0; length -= 3, at += 3, out += 4) {
        uint32_t bits = (uint32_t)at[0] << 16;
        if (length > 1) bits |= (uint32_t)at[1] << 8;
        if (length > 2) bits |= at[2];
        out[0] = (uint8_t)LETTERS[bits >> 18];
        out[1] = (uint8_t)LETTERS[bits >> 12 & 63];
        out[2] = length > 1 ? (uint8_t)LETTERS[bits >> 6 & 63] : '=';
        out[3] = length > 2 ? (uint8_t)LETTERS[bits & 63] : '=';
    }
    return out;
}

/* A value of A-Z, a-z, 0-9, + or / as its 6 bits; 255 for anything else. */
ALWAYS_INLINE uint8_t base64_bits(uint8_t letter) {
    if ((uint8_t)(letter - 'A') < 26) return (uint8_t)(letter - 'A');
    if ((uint8_t)(letter - 'a') < 26) return (uint8_t)(letter - 'a' + 26);
    if ((uint8_t)(letter - '0') < 10) return (uint8_t)(letter - '0' + 52);
    return letter == '+' ? 62 : letter == '/' ? 63 : 255;
}

/* Standard base64 with padding into `out`, which has room for length / 4 * 3 bytes; returns how many, -1 for doubt.
 * Bits behind the last byte are doubt unless they are 0. */
static inline int64_t read_base64(const uint8_t *text, int64_t length, uint8_t *out) {
    if (length % 4) return -1;
    if (length == 0) return 0;
    int64_t padding = (text[length - 1] == '=') + (text[length - 1] == '=' && text[length - 2] == '=');
    int64_t written = 0;
    for (int64_t at = 0; at < length; at += 4) {
        int64_t letters = at + 4 == length ? 4 - padding : 4;
        uint32_t bits = 0;
        for (int64_t place = 0; place < 4; place++) {
            uint8_t six = place < letters ? base64_bits(text[at + place]) : 0;
            if (six > 63) return -1;
            bits = bits << 6 | six;
        }
        if (bits & ((1U << (4 - letters) * 8) - 1)) return -1;
        for (int64_t place = 0; place < letters - 1; place++) out[written++] = (uint8_t)(bits >> (16 - 8 * place));
    }
    return written;
}

#endif
