/* Numbers as text: integers, decimals, and floats in the form of polars' JSON.
 *
 * Each function writes at `at` and returns where the text ends. It may overwrite up to 16 bytes behind that; in all it
 * touches at most NUMBER_BYTES_MAX. */
#ifndef HEADRACE_NUMBER_TEXT_H
#define HEADRACE_NUMBER_TEXT_H

#include "text/shortest_floats.h"
#include "words.h"

#define NUMBER_BYTES_MAX 80
#define ZEROS 0x3030303030303030U

static const uint64_t POWERS_OF_TEN[20] = {
    1U, 10U, 100U, 1000U, 10000U, 100000U, 1000000U, 10000000U, 100000000U, 1000000000U, 10000000000U, 100000000000U,
    1000000000000U, 10000000000000U, 100000000000000U, 1000000000000000U, 10000000000000000U, 100000000000000000U,
    1000000000000000000U, 10000000000000000000U,
};

/* The digits of a number below 10^8, one a byte, the first in the lowest byte (P. Khuong, "How to print integers really
 * fast", 2017). */
ALWAYS_INLINE uint64_t digit_bytes(uint64_t number) {
    uint64_t fours = number / 10000 | (number % 10000) << 32;
    uint64_t hundreds = (fours * 10486 >> 20) & 0x0000007f0000007fU;
    uint64_t pairs = hundreds | (fours - 100 * hundreds) << 16;
    uint64_t tens = (pairs * 103 >> 10) & 0x000f000f000f000fU;
    return tens | (pairs - 10 * tens) << 8;
}

/* A number below 10^8 without zeros in front. */
ALWAYS_INLINE uint8_t *write_short(uint8_t *at, uint64_t number) {
    uint64_t digits = digit_bytes(number);
    /* the last digit counts even if it is 0 */
    int zeros = __builtin_ctzll(digits | (uint64_t)1 << 56) / 8;
    store_word(at, (digits | ZEROS) >> 8 * zeros);
    return at + 8 - zeros;
}

ALWAYS_INLINE uint8_t *write_eight(uint8_t *at, uint64_t number) {
    store_word(at, digit_bytes(number) | ZEROS);
    return at + 8;
}

ALWAYS_INLINE uint8_t *write_uint64(uint8_t *at, uint64_t number) {
    if (likely(number < 100000000)) return write_short(at, number);
    uint64_t high = number / 100000000;
    if (high < 100000000) {
        at = write_short(at, high);
    } else {
        at = write_eight(write_short(at, high / 100000000), high % 100000000);
    }
    return write_eight(at, number % 100000000);
}

ALWAYS_INLINE uint8_t *write_int64(uint8_t *at, int64_t number) {
    *at = '-';
    return write_uint64(at + (number < 0), number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

/* unscaled * 10^-scale, with `scale` digits behind the point; 0 <= scale <= 38. */
static inline uint8_t *write_decimal(uint8_t *at, u128 unscaled, int64_t scale) {
    uint8_t digits[48];
    int is_negative = (int)(unscaled >> 127);
    u128 rest = is_negative ? 0 - unscaled : unscaled;
    /* 128 bits have up to 39 digits: five groups of eight, from the last one, most of them by the faster division */
    int group = 4;
    for (; rest >> 64; rest /= 100000000) write_eight(digits + 8 * group--, (uint64_t)(rest % 100000000));
    uint64_t low = (uint64_t)rest;
    for (; group >= 0; low /= 100000000) write_eight(digits + 8 * group--, low % 100000000);
    int64_t first = 0, point = 40 - scale;
    while (first < point - 1 && digits[first] == '0') first++;
    if (is_negative) *at++ = '-';
    memcpy(at, digits + first, (size_t)(point - first));
    at += point - first;
    if (scale == 0) return at;
    *at++ = '.';
    memcpy(at, digits + point, (size_t)scale);
    return at + scale;
}

ALWAYS_INLINE int digit_count(uint64_t number) {
    int estimate = (64 - __builtin_clzll(number)) * 1233 >> 12;
    return estimate + (number >= POWERS_OF_TEN[estimate]);
}

/* An exponent between -324 and 308, with its sign. */
static inline uint8_t *write_exponent(uint8_t *at, int64_t exponent) {
    at[0] = 'e';
    at[1] = exponent < 0 ? '-' : '+';
    return write_short(at + 2, (uint64_t)(exponent < 0 ? -exponent : exponent));
}

/* A decimal that is not 0: with a point and at least one digit on both sides of it where its exponent, as in 1.5e7, is
 * between `least` and `most`; with an exponent otherwise. -7 < least, most < 16. */
ALWAYS_INLINE uint8_t *write_float(uint8_t *at, decimal_t decimal, int64_t least, int64_t most) {
    int count = digit_count(decimal.digits);
    int64_t exponent = decimal.exponent + count - 1;
    uint64_t digits = decimal.digits * POWERS_OF_TEN[17 - count];
    uint64_t behind = digits % 10000000000000000U;
    uint8_t first = (uint8_t)('0' + digits / 10000000000000000U);
    uint64_t high = digit_bytes(behind / 100000000), low = digit_bytes(behind % 100000000);
    /* digits without the zeros at the end: one and those in the two words */
    int64_t used = low ? 17 - __builtin_clzll(low) / 8 : high ? 9 - __builtin_clzll(high) / 8 : 1;
    u128 rest = (u128)(low | ZEROS) << 64 | (high | ZEROS);
    if (likely(exponent >= 0 && exponent <= most)) {
        at[0] = first;
        memcpy(at + 1, &rest, sizeof rest);
        at[exponent + 1] = '.';
        rest >>= 8 * exponent;
        memcpy(at + exponent + 2, &rest, sizeof rest);
        return at + (used > exponent + 2 ? used : exponent + 2) + 1;
    }
    if (exponent < 0 && exponent >= least) {
        store_word(at, 0x3030303030302e30U); /* 0.000000 */
        at += 1 - exponent;
        at[0] = first;
        memcpy(at + 1, &rest, sizeof rest);
        return at + used;
    }
    at[0] = first;
    at[1] = '.';
    memcpy(at + 2, &rest, sizeof rest);
    return write_exponent(at + (used == 1 ? 1 : used + 1), exponent);
}

ALWAYS_INLINE uint8_t *write_word(uint8_t *at, const char *word, int64_t length) {
    memcpy(at, word, 8);
    return at + length;
}

ALWAYS_INLINE uint8_t *write_null(uint8_t *at) { return write_word(at, "null   ", 4); }

/* NaN and infinities are NULL. */
ALWAYS_INLINE uint8_t *write_float64(uint8_t *at, uint64_t bits) {
    uint64_t size = bits & INT64_MAX;
    if (unlikely(size >= (uint64_t)0x7ff << 52)) return write_null(at);
    *at = '-';
    at += bits >> 63;
    if (unlikely(size == 0)) return write_word(at, "0.0    ", 3);
    return write_float(at, shortest_float64(size), -5, 15);
}

ALWAYS_INLINE uint8_t *write_float32(uint8_t *at, uint32_t bits) {
    uint32_t size = bits & INT32_MAX;
    if (unlikely(size >= (uint32_t)0xff << 23)) return write_null(at);
    *at = '-';
    at += bits >> 31;
    if (unlikely(size == 0)) return write_word(at, "0.0    ", 3);
    return write_float(at, shortest_float32(size), -6, 12);
}

#endif
