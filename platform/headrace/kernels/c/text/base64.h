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

#endif
