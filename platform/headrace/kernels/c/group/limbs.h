/* Exact sums of float64: each value is added as three digits of 32 bits to int64 limbs on a fixed grid.
 *
 * Limb q counts units of 2^(32 q). A group has the limbs `low` .. `low + width - 1` of its sum, adjacent in memory.
 * All groups of a sum have the same limbs; the range grows as values need it. A value adds less than 2^32 to a limb,
 * so limbs are carried at least every 2^30 rows. (G. Malcolm, "On accurate floating-point summation", 1971,
 * describes accumulators by exponent; docs/decisions/0006 describes this variant.) */
#ifndef HEADRACE_LIMBS_H
#define HEADRACE_LIMBS_H

#include "group/growing.h"

#define LIMB_BITS 32
#define LIMBS_MAX 160 /* of squares: 2^-2148 .. 2^2048, with room for counts */
#define CARRY_ROWS_MAX ((int64_t)1 << 30)
#define TOP_MAX ((int64_t)1 << 44)

typedef struct {
    int64_t *limbs;  /* groups_max times `width` */
    int64_t low;
    int64_t width;
    int64_t rows;    /* added since limbs were carried */
    int64_t *others; /* per group the number of NaN, +inf and -inf; NULL until there are some */
} limbs_t;

/* Widens the limbs of all groups to include `first` .. `last`; returns 0 if there is no memory. */
static int limbs_widen(limbs_t *sum, int64_t groups, int64_t groups_max, int64_t first, int64_t last) {
    int64_t low = sum->width && sum->low < first ? sum->low : first;
    int64_t behind = sum->low + sum->width;
    if (!sum->width || behind <= last) behind = last + 1;
    int64_t width = behind - low;
    if (groups_max > INT64_MAX / 16 / width) return 0;
    int64_t *wider = calloc((size_t)(groups_max * width), sizeof *wider);
    if (wider == NULL) return 0;
    for (int64_t group = 0; group < groups && sum->width; group++)
        memcpy(wider + group * width + (sum->low - low), sum->limbs + group * sum->width,
               (size_t)sum->width * sizeof *wider);
    free(sum->limbs);
    sum->limbs = wider;
    sum->low = low;
    sum->width = width;
    return 1;
}

/* A finite value as sign, whole number and exponent: +-number * 2^exponent. */
typedef struct {
    uint64_t number;
    int64_t exponent;
    int64_t sign; /* 0, or -1 for negative values */
} parts_t;

ALWAYS_INLINE int is_finite_float(uint64_t bits) { return (bits >> 52 & 0x7ff) != 0x7ff; }

ALWAYS_INLINE parts_t parts_of(uint64_t bits) {
    uint64_t exponent = bits >> 52 & 0x7ff, fraction = bits & (((uint64_t)1 << 52) - 1);
    parts_t parts;
    parts.number = exponent ? fraction | (uint64_t)1 << 52 : fraction;
    parts.exponent = (int64_t)(exponent ? exponent : 1) - 1075;
    parts.sign = -(int64_t)(bits >> 63);
    return parts;
}

ALWAYS_INLINE void add_digit(int64_t *limb, uint64_t digit, int64_t sign) { *limb += ((int64_t)digit ^ sign) - sign; }

/* The first limb of a value, or of its square, and the last one. */
ALWAYS_INLINE int64_t first_limb(int64_t exponent) { return exponent >> 5; }

ALWAYS_INLINE void add_value(int64_t *limbs, parts_t parts) {
    u128 digits = (u128)parts.number << (parts.exponent & 31);
    add_digit(limbs, (uint64_t)digits & 0xffffffffU, parts.sign);
    add_digit(limbs + 1, (uint64_t)(digits >> 32) & 0xffffffffU, parts.sign);
    add_digit(limbs + 2, (uint64_t)(digits >> 64), parts.sign);
}

ALWAYS_INLINE void add_square(int64_t *limbs, parts_t parts) {
    int64_t shift = 2 * parts.exponent & 31;
    u128 square = (u128)parts.number * parts.number, digits = square << shift;
    for (int place = 0; place < 4; place++) add_digit(limbs + place, (uint64_t)(digits >> 32 * place) & 0xffffffffU, 0);
    /* 106 bits and a shift of at most 30 reach 8 bits beyond 128 */
    if (shift) add_digit(limbs + 4, (uint64_t)(square >> (128 - shift)), 0);
}

/* Counts a NaN or an infinity. */
static int add_other(limbs_t *sum, int64_t groups_max, int64_t group, uint64_t bits) {
    if (sum->others == NULL) {
        sum->others = calloc((size_t)groups_max * 3, sizeof *sum->others);
        if (sum->others == NULL) return 0;
    }
    int is_nan = (bits & (((uint64_t)1 << 52) - 1)) != 0;
    sum->others[group * 3 + (is_nan ? 0 : bits >> 63 ? 2 : 1)]++;
    return 1;
}

/* Carries all limbs but the top one into [-2^31, 2^31). A top limb beyond 2^44 gets one more above it. */
static int limbs_carry(limbs_t *sum, int64_t groups, int64_t groups_max) {
    int is_full = 0;
    for (int64_t group = 0; group < groups; group++) {
        int64_t *limbs = sum->limbs + group * sum->width;
        for (int64_t place = 0; place + 1 < sum->width; place++) {
            int64_t carry = (limbs[place] + ((int64_t)1 << 31)) >> 32;
            limbs[place] -= carry * ((int64_t)1 << 32);
            limbs[place + 1] += carry;
        }
        if (sum->width) {
            int64_t top = limbs[sum->width - 1];
            is_full |= top > TOP_MAX || top < -TOP_MAX;
        }
    }
    sum->rows = 0;
    if (!is_full) return 1;
    int64_t above = sum->low + sum->width;
    return limbs_widen(sum, groups, groups_max, above, above) && limbs_carry(sum, groups, groups_max);
}

#endif
