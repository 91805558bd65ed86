/* Numbers from their decimal text: integers, and the nearest float64.
 *
 * A number is read once, as digits and an exponent of ten. Floats come from them by Clinger's fast path, else by Eisel
 * and Lemire's algorithm (D. Lemire, "Number parsing at a gigabyte per second", 2021; N. Mushtak and D. Lemire, "Fast
 * number parsing without fallback", 2023), which is exact. Text that needs more than 19 digits, and floats that are
 * subnormal or infinite, are doubt. */
#ifndef HEADRACE_NUMBER_H
#define HEADRACE_NUMBER_H

#include "text/powers_of_five.h"
#include "words.h"

#define DIGITS_MAX 19 /* this many digits always fit into 64 bits */
#define FLOAT32_LIMIT 0x1.ffffffp127 /* the smallest magnitude that rounds to an infinite float32 */

typedef struct {
    uint64_t digits;     /* without the point */
    int64_t exponent;    /* the value is digits * 10^exponent */
    int is_negative;
    int is_integer;      /* neither point nor exponent */
} number_t;

/* Appends the digits at `at` to *digits, which wraps beyond 64 bits; returns where they end. */
ALWAYS_INLINE const uint8_t *read_digits(const uint8_t *at, const uint8_t *end, uint64_t *digits) {
    uint64_t read = *digits;
    while (end - at >= 8) {
        uint64_t word = load_word(at);
        if (!are_digits(word)) break;
        read = read * 100000000 + eight_digits(word);
        at += 8;
    }
    while (at < end && (uint8_t)(*at - '0') <= 9) read = read * 10 + (uint8_t)(*at++ - '0');
    *digits = read;
    return at;
}

/* Whether digits with zeros or a point in front are at most DIGITS_MAX without those. */
static inline int digits_fit(const uint8_t *first, const uint8_t *end) {
    while (first < end && (*first == '0' || *first == '.')) first++;
    int64_t count = 0;
    for (; first < end; first++) count += *first != '.';
    return count <= DIGITS_MAX;
}

/* Reads `e` or `E` and up to four digits behind it into *exponent; NULL for doubt. */
static inline const uint8_t *read_exponent(const uint8_t *at, const uint8_t *end, int64_t *exponent) {
    at++;
    int is_negative = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+')) at++;
    const uint8_t *first = at;
    int64_t read = 0;
    while (at < end && (uint8_t)(*at - '0') <= 9 && at - first < 5) read = read * 10 + (*at++ - '0');
    if (at == first || at - first > 4) return NULL;
    *exponent += is_negative ? -read : read;
    return at;
}

/* Reads a number as JSON writes it: no plus, no zeros in front, digits on both sides of a point.
 * Returns where it ends; NULL for doubt. */
ALWAYS_INLINE const uint8_t *read_number(const uint8_t *at, const uint8_t *end, number_t *number) {
    number->is_negative = at < end && *at == '-';
    at += number->is_negative;
    const uint8_t *first = at;
    uint64_t digits = 0;
    int64_t exponent = 0;
    at = read_digits(at, end, &digits);
    int64_t count = at - first;
    if (count == 0 || (count > 1 && *first == '0')) return NULL;
    int is_integer = 1;
    if (at < end && *at == '.') {
        const uint8_t *point = ++at;
        at = read_digits(at, end, &digits);
        if (at == point) return NULL;
        exponent = point - at;
        count -= exponent;
        is_integer = 0;
    }
    if (unlikely(count > DIGITS_MAX) && !digits_fit(first, at)) return NULL;
    if (at < end && (*at | 0x20) == 'e') {
        at = read_exponent(at, end, &exponent);
        is_integer = 0;
        if (at == NULL) return NULL;
    }
    number->digits = digits;
    number->exponent = exponent;
    number->is_integer = is_integer;
    return at;
}

/* The integer within 64 bits; 0 for doubt. */
ALWAYS_INLINE int number_to_int64(const number_t *number, int64_t *value) {
    /* -0 is an integer to some readers and a float to others */
    if (!number->is_integer || (number->is_negative && number->digits == 0)) return 0;
    if (number->digits > (uint64_t)INT64_MAX + (uint64_t)number->is_negative) return 0;
    *value = (int64_t)(number->is_negative ? 0 - number->digits : number->digits);
    return 1;
}

/* 5^q with its upper 128 bits rounded as Eisel and Lemire's proof takes them: up from -27 to -1, else down. */
ALWAYS_INLINE power_of_five_t power_of_five(int64_t q) {
    power_of_five_t power = POWERS_OF_FIVE[q - POWER_OF_FIVE_LEAST];
    if (q < 0 && q >= -27) {
        power.low++;
        power.high += power.low == 0;
    }
    return power;
}

/* digits * 10^exponent, digits not 0, as a normal float64; 0 for doubt. */
static inline int eisel_lemire(uint64_t digits, int64_t exponent, uint64_t *bits) {
    if (exponent < POWER_OF_FIVE_LEAST || exponent > 308) return 0;
    int zeros = __builtin_clzll(digits);
    uint64_t scaled = digits << zeros;
    power_of_five_t power = power_of_five(exponent);
    u128 product = (u128)scaled * power.high;
    uint64_t high = (uint64_t)(product >> 64), low = (uint64_t)product;
    /* 53 bits, one to round by, one that may be 0 in front: the 9 behind them are all ones only where the lower half
     * of the power can carry into them */
    if ((high & 0x1ff) == 0x1ff) {
        uint64_t second = (uint64_t)((u128)scaled * power.low >> 64);
        low += second;
        high += low < second;
        /* no proof covers this case for inexact powers, and no known input reaches it */
        if (low == UINT64_MAX && (exponent < -27 || exponent > POWER_OF_FIVE_EXACT_MOST)) return 0;
    }
    int upper = (int)(high >> 63), shift = upper + 9;
    uint64_t mantissa = high >> shift;
    int64_t binary = ((217706 * exponent) >> 16) + 63 + upper - zeros + 1023;
    if (binary <= 0) return 0;
    /* a tie between two floats, which only small powers can make: to even, so not up */
    if (low <= 1 && exponent >= -4 && exponent <= 23 && (mantissa & 3) == 1 && mantissa << shift == high)
        mantissa &= ~(uint64_t)1;
    mantissa += mantissa & 1;
    mantissa >>= 1;
    if (mantissa >= (uint64_t)1 << 53) {
        mantissa = (uint64_t)1 << 52;
        binary++;
    }
    if (binary >= 0x7ff) return 0;
    *bits = (mantissa & (((uint64_t)1 << 52) - 1)) | (uint64_t)binary << 52;
    return 1;
}

/* The nearest float64, ties to even; 0 for doubt. */
ALWAYS_INLINE int number_to_float64(const number_t *number, double *value) {
    static const double TENS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                  1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    uint64_t digits = number->digits;
    int64_t exponent = number->exponent;
    double read;
    if (digits <= (uint64_t)1 << 53 && exponent >= -22 && exponent <= 22) {
        /* both are exact, so one operation rounds once (W. Clinger, 1990) */
        read = exponent < 0 ? (double)digits / TENS[-exponent] : (double)digits * TENS[exponent];
        if (number->is_negative && digits == 0 && number->is_integer) return 0;
    } else if (digits == 0) {
        read = 0.0;
    } else {
        uint64_t bits;
        if (!eisel_lemire(digits, exponent, &bits)) return 0;
        memcpy(&read, &bits, sizeof read);
    }
    *value = number->is_negative ? -read : read;
    return 1;
}

#endif
