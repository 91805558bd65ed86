/* Exact sums of whole numbers times powers of two, divided by counts, rounded once to float64.
 *
 * A group's sum is a number with digits of 32 bits, most significant last. It is divided by the count digit by digit
 * (D. Knuth, TAOCP 2, 4.3.1, exercise 16), with as many digits below its unit as the quotient needs for 64 bits. All
 * bits below those are one sticky bit. Results beyond the normal range of float64 are left to the caller. */
#include "export.h"

#define DIGITS_MAX 128
#define DIGIT_BITS 32
#define DIGITS_BELOW 3 /* a sum of one unit by a count below 2^32 still has 64 bits */

typedef struct {
    const int64_t *const *columns; /* `column_count` times one number per group */
    const int64_t *digits;         /* the digit that each column counts; ascending */
    int64_t column_count;
    int64_t digit_count;           /* of a sum, with room for what is carried */
    int64_t exponent;              /* of digit 0 */
    const int64_t *counts;         /* at least 1, or NULL: nothing is divided */
    int64_t groups;
    double *values;
    uint8_t *sure;
} quotients_t;

EXPORT int64_t headrace_exact_quotients(const quotients_t *given);

/* Writes the sum's absolute value as digits; returns whether it is negative. */
static int sum_digits(const quotients_t *given, int64_t group, uint32_t *digits) {
    __extension__ __int128 carry = 0;
    int64_t column = 0;
    for (int64_t digit = 0; digit < given->digit_count; digit++) {
        if (column < given->column_count && given->digits[column] == digit) carry += given->columns[column++][group];
        digits[digit] = (uint32_t)carry;
        carry >>= DIGIT_BITS;
    }
    if (carry >= 0) return 0;
    uint64_t borrow = 1;
    for (int64_t digit = 0; digit < given->digit_count; digit++) {
        borrow += (uint32_t)~digits[digit];
        digits[digit] = (uint32_t)borrow;
        borrow >>= DIGIT_BITS;
    }
    return 1;
}

/* Divides in place; returns the remainder. */
static uint64_t divide(uint32_t *digits, int64_t count, uint64_t divisor) {
    uint64_t rest = 0;
    for (int64_t digit = count - 1; digit >= 0; digit--) {
        uint64_t part = rest << DIGIT_BITS | digits[digit];
        digits[digit] = (uint32_t)(part / divisor);
        rest = part % divisor;
    }
    return rest;
}

/* The number with these digits times 2^exponent, rounded to nearest, halves to even; 0 where it is not normal. */
static int rounded(const uint32_t *digits, int64_t count, int64_t exponent, int is_more, double *value) {
    while (count > 0 && digits[count - 1] == 0) count--;
    if (count == 0) {
        *value = 0.0;
        return !is_more;
    }
    /* three digits have at least 65 bits: the highest 64 of them are kept */
    u128 top = 0;
    for (int64_t digit = count - 1; digit >= count - 3; digit--) top = top << 32 | (digit < 0 ? 0 : digits[digit]);
    for (int64_t digit = 0; digit < count - 3; digit++) is_more |= digits[digit] != 0;
    int64_t below = 32 - __builtin_clz((uint32_t)(top >> 64));
    uint64_t kept = (uint64_t)(top >> below);
    is_more |= (top & (((u128)1 << below) - 1)) != 0;
    uint64_t half = (uint64_t)1 << 10, rest = kept & 0x7ff, number = kept >> 11;
    number += rest > half || (rest == half && (is_more || (number & 1)));
    int64_t power = exponent + (count - 3) * DIGIT_BITS + below + 11;
    if (number >> 53) {
        number >>= 1;
        power++;
    }
    int64_t biased = power + 52 + 1023;
    if (biased < 1 || biased > 2046) return 0;
    uint64_t bits = (uint64_t)biased << 52 | (number & (((uint64_t)1 << 52) - 1));
    memcpy(value, &bits, sizeof bits);
    return 1;
}

/* Writes the values, and for each whether it is valid. Returns 0 and writes nothing if there are too many digits. */
EXPORT int64_t headrace_exact_quotients(const quotients_t *given) {
    uint32_t digits[DIGITS_MAX];
    int64_t below = given->counts == NULL ? 0 : DIGITS_BELOW, count = given->digit_count + below;
    if (count > DIGITS_MAX) return 0;
    for (int64_t group = 0; group < given->groups; group++) {
        int64_t divisor = given->counts == NULL ? 1 : given->counts[group];
        int is_negative = sum_digits(given, group, digits + below);
        uint64_t rest = 0;
        given->sure[group] = 0;
        given->values[group] = 0.0;
        if (divisor < 1 || divisor > UINT32_MAX) continue;
        if (below) {
            memset(digits, 0, DIGITS_BELOW * sizeof *digits);
            rest = divide(digits, count, (uint64_t)divisor);
        }
        double value;
        if (!rounded(digits, count, given->exponent - below * DIGIT_BITS, rest != 0, &value)) continue;
        given->values[group] = is_negative ? 0.0 - value : value;
        given->sure[group] = 1;
    }
    return 1;
}
