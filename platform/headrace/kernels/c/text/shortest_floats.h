/* The decimal with the fewest digits that reads back as the same float, the nearest of them (R. Giulietti, "The
 * Schubfach way to render doubles", 2020). */
#ifndef HEADRACE_SHORTEST_FLOATS_H
#define HEADRACE_SHORTEST_FLOATS_H

#include "text/powers_of_five.h"

/* digits * 10^exponent; digits may end in zeros. */
typedef struct {
    uint64_t digits;
    int64_t exponent;
} decimal_t;

/* significand * 2^exponent, and the distance to its neighbours: that to the lower one is half as long above a power of
 * two. */
typedef struct {
    uint64_t significand;
    int64_t exponent;
    int has_near_lower;
} binary_t;

/* The power of ten by which the spacing of floats becomes at least 1, and the shift that puts a product of four times
 * the significand with the leading bits of 10^-exponent to the point. */
typedef struct {
    int64_t exponent;
    int64_t shift;
} scaling_t;

ALWAYS_INLINE scaling_t scaling_of(binary_t binary) {
    /* floors of e * log10(2), of e * log10(2) + log10(3/4), and of e * log2(10), right far beyond all exponents */
    int64_t exponent = (binary.exponent * 1262611 - (binary.has_near_lower ? 524031 : 0)) >> 22;
    int64_t shift = binary.exponent + ((-exponent * 1741647) >> 19) + 1;
    return (scaling_t){exponent, shift};
}

/* The choice among decimals of one and of two exponents. All bounds are four times as large as the decimals, and odd
 * where they are not exact: `lower` and `upper` enclose what reads back, `middle` is the float. */
ALWAYS_INLINE decimal_t shortest_between(uint64_t lower, uint64_t middle, uint64_t upper, int64_t exponent) {
    uint64_t below = middle / 4;
    if (below >= 10) {
        uint64_t tens = below / 10;
        int is_lower_inside = lower <= 40 * tens, is_upper_inside = 40 * tens + 40 <= upper;
        if (is_lower_inside != is_upper_inside) return (decimal_t){tens + (uint64_t)is_upper_inside, exponent + 1};
    }
    int is_lower_inside = lower <= 4 * below, is_upper_inside = 4 * below + 4 <= upper;
    if (is_lower_inside != is_upper_inside) return (decimal_t){below + (uint64_t)is_upper_inside, exponent};
    uint64_t half = 4 * below + 2;
    int rounds_up = middle > half || (middle == half && (below & 1));
    return (decimal_t){below + (uint64_t)rounds_up, exponent};
}

/* The leading 128 bits of 10^exponent, rounded up. */
ALWAYS_INLINE power_of_five_t power_rounded_up(int64_t exponent) {
    power_of_five_t power = POWERS_OF_FIVE[exponent - POWER_OF_FIVE_LEAST];
    if (exponent < 0 || exponent > POWER_OF_FIVE_EXACT_MOST) {
        power.low++;
        power.high += power.low == 0;
    }
    return power;
}

/* The upper bits of factor * power, odd where bits are lost. The power is a little too large, so that a rest of 1 is
 * none. */
ALWAYS_INLINE uint64_t product_to_odd(power_of_five_t power, uint64_t factor) {
    u128 product = (u128)factor * power.high + ((u128)factor * power.low >> 64);
    return (uint64_t)(product >> 64) | ((uint64_t)product > 1);
}

/* The same for a factor of 32 bits. */
ALWAYS_INLINE uint64_t short_product_to_odd(uint64_t power, uint64_t factor) {
    u128 product = (u128)factor * power;
    return (uint64_t)(product >> 64) | ((uint32_t)(product >> 32) > 1);
}

ALWAYS_INLINE binary_t binary_of(uint64_t fraction, int64_t biased, int64_t bias, int fraction_bits) {
    if (biased == 0) return (binary_t){fraction, 1 - bias, 0};
    return (binary_t){fraction | (uint64_t)1 << fraction_bits, biased - bias, fraction == 0 && biased > 1};
}

/* Of a finite float64, not 0, from its bits. The sign is ignored. */
ALWAYS_INLINE decimal_t shortest_float64(uint64_t bits) {
    uint64_t fraction = bits & (((uint64_t)1 << 52) - 1);
    binary_t binary = binary_of(fraction, (int64_t)(bits >> 52 & 0x7ff), 1075, 52);
    scaling_t scaling = scaling_of(binary);
    power_of_five_t power = power_rounded_up(-scaling.exponent);
    uint64_t odd = binary.significand & 1, middle = binary.significand * 4;
    /* the neighbours' halves read back as this float only where its significand is even */
    uint64_t lower = product_to_odd(power, (middle - 2 + (uint64_t)binary.has_near_lower) << scaling.shift) + odd;
    uint64_t upper = product_to_odd(power, (middle + 2) << scaling.shift) - odd;
    return shortest_between(lower, product_to_odd(power, middle << scaling.shift), upper, scaling.exponent);
}

/* Of a finite float32, not 0, from its bits. The sign is ignored. */
ALWAYS_INLINE decimal_t shortest_float32(uint32_t bits) {
    binary_t binary = binary_of(bits & 0x7fffff, (int64_t)(bits >> 23 & 0xff), 150, 23);
    scaling_t scaling = scaling_of(binary);
    int64_t exponent = -scaling.exponent;
    power_of_five_t whole = POWERS_OF_FIVE[exponent - POWER_OF_FIVE_LEAST];
    uint64_t power = whole.high + (whole.low != 0 || exponent < 0);
    uint64_t odd = binary.significand & 1, middle = binary.significand * 4;
    uint64_t lower = short_product_to_odd(power, (middle - 2 + (uint64_t)binary.has_near_lower) << scaling.shift) + odd;
    uint64_t upper = short_product_to_odd(power, (middle + 2) << scaling.shift) - odd;
    return shortest_between(lower, short_product_to_odd(power, middle << scaling.shift), upper, scaling.exponent);
}

#endif
