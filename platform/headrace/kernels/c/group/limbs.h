/* Exact sums of float64: each value is added as three digits of 32 bits to int64 limbs on a fixed grid.
 *
 * Limb q counts units of 2^(32 q). A group has the limbs `low` .. `low + width - 1` of its sum, side by side; they are
 * the same for all groups of a sum, and grow to where values are: one value far from the others widens all groups. A
 * value adds less than 2^32 to a limb, so limbs are carried at least every 2^30 rows. (G. Malcolm, "On accurate
 * floating-point summation", 1971, has the idea of accumulators by exponent; decision 6 has ours.) */
#ifndef HEADRACE_LIMBS_H
#define HEADRACE_LIMBS_H

#include "group/growing.h"

#define LIMB_BITS 32
#define LIMBS_MAX 160 /* of squares: 2^-2148 .. 2^2048, with room for counts */
#define CARRY_ROWS_MAX ((int64_t)1 << 30)
#define TOP_MAX ((int64_t)1 << 44)
#define NARROW_MAX 12 /* limbs of values that are near each other; a reset frees wider ones */

typedef struct {
    int64_t *limbs;  /* groups_max times `width` */
    int64_t groups_max;
    int64_t low;
    int64_t width;
    int64_t rows;    /* added since limbs were carried */
    int64_t *others; /* per group the number of NaN, +inf and -inf; NULL until there are some */
} limbs_t;

/* Limbs of a sum; none where first > last. */
typedef struct {
    int64_t first;
    int64_t last;
} limb_range_t;

/* Makes room for `groups` groups; 0 where there is no memory. */
static int limbs_reserve(limbs_t *sum, int64_t groups) {
    if (likely(groups <= sum->groups_max)) return 1;
    int64_t before = sum->groups_max, groups_max = room_for(groups), more = groups_max - before;
    if (sum->width) {
        if (!grow_to(&sum->limbs, groups_max * sum->width, 8)) return 0;
        memset(sum->limbs + before * sum->width, 0, (size_t)(more * sum->width) * 8);
    }
    if (sum->others != NULL) {
        if (!grow_to(&sum->others, groups_max * 3, 8)) return 0;
        memset(sum->others + before * 3, 0, (size_t)more * 24);
    }
    sum->groups_max = groups_max;
    return 1;
}

/* The limbs of a sum that holds `more` too. */
static inline limb_range_t limbs_with(const limbs_t *sum, limb_range_t more) {
    if (!sum->width) return more;
    int64_t last = sum->low + sum->width - 1;
    if (more.first > more.last) return (limb_range_t){sum->low, last};
    return (limb_range_t){sum->low < more.first ? sum->low : more.first, last > more.last ? last : more.last};
}

/* Widens the limbs of all groups to hold `more` too; 0 where there is no memory. */
static int limbs_widen(limbs_t *sum, int64_t groups, limb_range_t more) {
    limb_range_t limbs = limbs_with(sum, more);
    int64_t low = limbs.first, width = limbs.last - low + 1, groups_max = room_for(groups);
    int64_t *wider = calloc((size_t)(groups_max * width), sizeof *wider);
    if (wider == NULL) return 0;
    for (int64_t group = 0; group < groups && sum->width; group++)
        memcpy(wider + group * width + (sum->low - low), sum->limbs + group * sum->width,
               (size_t)sum->width * sizeof *wider);
    free(sum->limbs);
    sum->limbs = wider;
    sum->low = low;
    sum->width = width;
    sum->groups_max = groups_max;
    return 1;
}

/* Forgets the sums of all groups, and keeps the memory of narrow limbs. */
static void limbs_reset(limbs_t *sum, int64_t groups) {
    if (sum->width > NARROW_MAX) {
        free(sum->limbs);
        sum->limbs = NULL;
        sum->low = sum->width = 0;
    } else if (sum->width) {
        memset(sum->limbs, 0, (size_t)(groups * sum->width) * sizeof *sum->limbs);
    }
    free(sum->others);
    sum->others = NULL;
    sum->rows = 0;
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

/* The limbs that a value with this exponent adds to, or its square. */
ALWAYS_INLINE limb_range_t limbs_of(int64_t exponent, int is_square) {
    int64_t first = (is_square ? 2 * exponent : exponent) >> 5;
    return (limb_range_t){first, first + (is_square ? 4 : 2)};
}

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

/* Counts a value that is no number. */
static int add_other(limbs_t *sum, int64_t group, uint64_t bits) {
    if (sum->others == NULL) {
        sum->others = calloc((size_t)sum->groups_max * 3, sizeof *sum->others);
        if (sum->others == NULL) return 0;
    }
    int is_nan = (bits & (((uint64_t)1 << 52) - 1)) != 0;
    sum->others[group * 3 + (is_nan ? 0 : bits >> 63 ? 2 : 1)]++;
    return 1;
}

/* Group `place` of the chosen ones; of all groups where `chosen` is NULL. */
ALWAYS_INLINE int64_t group_at(const uint32_t *chosen, int64_t place) {
    return chosen ? (int64_t)chosen[place] : place;
}

/* Carries the limbs of `count` groups, all of them or those chosen: all but the top one into [-2^31, 2^31). A top limb
 * beyond 2^44 gets one more above it. 0 where there is no memory. */
static int limbs_carry(limbs_t *sum, int64_t groups, const uint32_t *chosen, int64_t count) {
    int is_full = 0;
    for (int64_t index = 0; index < count; index++) {
        int64_t *limbs = sum->limbs + group_at(chosen, index) * sum->width;
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
    if (chosen == NULL) sum->rows = 0;
    if (!is_full) return 1;
    int64_t above = sum->low + sum->width;
    return limbs_widen(sum, groups, (limb_range_t){above, above}) && limbs_carry(sum, groups, chosen, count);
}

#endif
