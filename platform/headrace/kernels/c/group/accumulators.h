/* One aggregate's values by group: counts, sums of whole numbers, exact sums of floats, least and greatest values. */
#ifndef HEADRACE_ACCUMULATORS_H
#define HEADRACE_ACCUMULATORS_H

#include "arrow.h"
#include "group/group_keys.h"
#include "group/limbs.h"

enum action {
    ACTION_COUNT_ROWS,
    ACTION_COUNT,    /* rows with a value */
    ACTION_SUM,      /* of int64 as int64, of other whole numbers as int128; NULL counts nothing */
    ACTION_SUM_WIDE, /* of int64 as int128 */
    ACTION_LIMBS,    /* the exact sum of floats */
    ACTION_SQUARES,  /* the exact sum of their squares */
    ACTION_MIN,      /* of floats: NaN only where there is nothing else */
    ACTION_MAX       /* of floats: NaN where there is one */
};

__extension__ typedef __int128 i128;

typedef struct {
    int64_t action;
    int64_t form;        /* of its column */
    uint8_t *values;     /* groups_max sums, counts or extremes */
    uint8_t *seen;       /* of an extreme: whether the group has one */
    limbs_t sum;
} accumulator_t;

/* Rows of one block with their groups. */
typedef struct {
    const column_view_t *column;
    const uint32_t *rows;
    const uint32_t *groups;
    int64_t count;
} block_values_t;

static inline int is_exact_sum(const accumulator_t *made) {
    return made->action == ACTION_LIMBS || made->action == ACTION_SQUARES;
}

static inline int is_extreme(const accumulator_t *made) {
    return made->action == ACTION_MIN || made->action == ACTION_MAX;
}

/* Bytes of one value. */
static inline int64_t made_bytes(const accumulator_t *made) {
    if (is_exact_sum(made)) return 0;
    if (is_extreme(made)) return form_bytes(made->form);
    if (made->action == ACTION_SUM_WIDE) return 16;
    return made->action == ACTION_SUM && made->form != FORM_INT64 ? 16 : 8;
}

/* Makes room for `groups_max` groups; limbs have a room of their own. 0 where there is no memory. */
static int accumulator_reserve(accumulator_t *made, int64_t groups_max) {
    if (!grow_to(&made->values, groups_max, made_bytes(made))) return 0;
    return !is_extreme(made) || grow_to(&made->seen, groups_max, 1);
}

/* Initializes the values of new groups. Limbs are zero already. */
static void accumulator_begin(accumulator_t *made, int64_t before, int64_t groups) {
    int64_t bytes = made_bytes(made);
    if (bytes) memset(made->values + before * bytes, 0, (size_t)((groups - before) * bytes));
    if (is_extreme(made)) memset(made->seen + before, 0, (size_t)(groups - before));
}

static void accumulator_free(accumulator_t *made) {
    free(made->values);
    free(made->seen);
    free(made->sum.limbs);
    free(made->sum.others);
}

#define FOR_EACH_VALUE(block)                                                                                          \
    for (int64_t place = 0, row; place < (block)->count && (row = row_at((block)->rows, place), 1); place++)           \
        if (likely(is_valid((block)->column, row)))

static void add_counts(const block_values_t *block, uint8_t *values) {
    int64_t *counts = (int64_t *)(void *)values;
    FOR_EACH_VALUE(block) counts[block->groups[place]]++;
}

static void add_rows(const block_values_t *block, uint8_t *values) {
    int64_t *counts = (int64_t *)(void *)values;
    for (int64_t place = 0; place < block->count; place++) counts[block->groups[place]]++;
}

/* A sum beyond int64 wraps around, as in polars. */
static void add_int64(const block_values_t *block, uint8_t *values) {
    uint64_t *sums = (uint64_t *)(void *)values;
    FOR_EACH_VALUE(block) sums[block->groups[place]] += load_word(block->column->values + row * 8);
}

static void add_wide(const block_values_t *block, uint8_t *values, int64_t form) {
    FOR_EACH_VALUE(block) {
        const uint8_t *at = block->column->values + row * form_bytes(form);
        uint8_t *kept = values + (int64_t)block->groups[place] * 16;
        u128 sum, value;
        if (form == FORM_INT128) {
            memcpy(&value, at, 16);
        } else {
            value = (u128)(i128)(form == FORM_INT32 ? (int32_t)load_uint32(at) : (int64_t)load_word(at));
        }
        memcpy(&sum, kept, 16);
        sum += value;
        memcpy(kept, &sum, 16);
    }
}

static uint64_t float_bits(const uint8_t *at, int64_t form) {
    if (form == FORM_FLOAT64) return load_word(at);
    float narrow;
    memcpy(&narrow, at, 4);
    double wide = (double)narrow;
    uint64_t bits;
    memcpy(&bits, &wide, 8);
    return bits;
}

/* The limbs that the first `count` rows of a column add to. */
static limb_range_t limbs_of_rows(const accumulator_t *made, const column_view_t *column, int64_t count) {
    limb_range_t all = {INT64_MAX, INT64_MIN};
    if (column->is_absent) return all;
    for (int64_t row = 0; row < count; row++) {
        if (!is_valid(column, row)) continue;
        uint64_t bits = float_bits(column->values + row * form_bytes(made->form), made->form);
        parts_t parts = parts_of(bits);
        if (!is_finite_float(bits) || parts.number == 0) continue;
        limb_range_t limbs = limbs_of(parts.exponent, made->action == ACTION_SQUARES);
        if (limbs.first < all.first) all.first = limbs.first;
        if (limbs.last > all.last) all.last = limbs.last;
    }
    return all;
}

/* Adds floats to limbs; 0 where there is no memory. */
static int add_floats(accumulator_t *made, const block_values_t *block, int64_t groups) {
    limbs_t *sum = &made->sum;
    int is_square = made->action == ACTION_SQUARES;
    if (sum->rows > CARRY_ROWS_MAX && !limbs_carry(sum, groups, NULL, groups)) return 0;
    sum->rows += block->count;
    FOR_EACH_VALUE(block) {
        uint64_t bits = float_bits(block->column->values + row * form_bytes(made->form), made->form);
        uint32_t group = block->groups[place];
        if (unlikely(!is_finite_float(bits))) {
            if (!add_other(sum, group, bits)) return 0;
            continue;
        }
        parts_t parts = parts_of(bits);
        if (parts.number == 0) continue;
        limb_range_t range = limbs_of(parts.exponent, is_square);
        if (unlikely(range.first < sum->low || range.last >= sum->low + sum->width) && !limbs_widen(sum, groups, range))
            return 0;
        int64_t *limbs = sum->limbs + (int64_t)group * sum->width + (range.first - sum->low);
        if (is_square) {
            add_square(limbs, parts);
        } else {
            add_value(limbs, parts);
        }
    }
    return 1;
}

#define DEFINE_EXTREME(name, type)                                                                                     \
    ALWAYS_INLINE void name(const block_values_t *block, accumulator_t *made, int is_max) {                            \
        type *kept = (type *)(void *)made->values;                                                                     \
        FOR_EACH_VALUE(block) {                                                                                        \
            uint32_t group = block->groups[place];                                                                     \
            type value;                                                                                                \
            memcpy(&value, block->column->values + row * (int64_t)sizeof value, sizeof value);                         \
            if (!made->seen[group] || (is_max ? value > kept[group] : value < kept[group])) kept[group] = value;       \
            made->seen[group] = 1;                                                                                     \
        }                                                                                                              \
    }

DEFINE_EXTREME(keep_int32, int32_t)
DEFINE_EXTREME(keep_int64, int64_t)
DEFINE_EXTREME(keep_int128, i128)

/* Zeros are equal and become 0.0, NaN is one value: `normal_value` in `operators/aggregates/needs.py`. */
#define DEFINE_FLOAT_EXTREME(name, type)                                                                               \
    ALWAYS_INLINE void name(const block_values_t *block, accumulator_t *made, int is_max) {                            \
        type *kept = (type *)(void *)made->values;                                                                     \
        FOR_EACH_VALUE(block) {                                                                                        \
            uint32_t group = block->groups[place];                                                                     \
            type value;                                                                                                \
            memcpy(&value, block->column->values + row * (int64_t)sizeof value, sizeof value);                         \
            int is_nan = value != value, was_nan = kept[group] != kept[group];                                         \
            value = is_nan ? (type)__builtin_nan("") : value + 0;                                                      \
            int is_better = is_max ? is_nan || (!was_nan && value > kept[group])                                       \
                                   : !is_nan && (was_nan || value < kept[group]);                                      \
            if (!made->seen[group] || is_better) kept[group] = value;                                                  \
            made->seen[group] = 1;                                                                                     \
        }                                                                                                              \
    }

DEFINE_FLOAT_EXTREME(keep_float32, float)
DEFINE_FLOAT_EXTREME(keep_float64, double)

static void keep_extremes(const block_values_t *block, accumulator_t *made, int is_max) {
    switch (made->form) {
    case FORM_INT32: keep_int32(block, made, is_max); break;
    case FORM_INT64: keep_int64(block, made, is_max); break;
    case FORM_INT128: keep_int128(block, made, is_max); break;
    case FORM_FLOAT32: keep_float32(block, made, is_max); break;
    default: keep_float64(block, made, is_max); break;
    }
}

/* Whether there is such an aggregate. */
static int is_accumulator(int64_t action, int64_t form) {
    int is_whole = form == FORM_INT32 || form == FORM_INT64 || form == FORM_INT128;
    int is_float = form == FORM_FLOAT32 || form == FORM_FLOAT64;
    switch (action) {
    case ACTION_COUNT_ROWS: case ACTION_COUNT: return form == FORM_ANY;
    case ACTION_SUM: return is_whole;
    case ACTION_SUM_WIDE: return form == FORM_INT64;
    case ACTION_LIMBS: case ACTION_SQUARES: return is_float;
    case ACTION_MIN: case ACTION_MAX: return is_whole || is_float;
    default: return 0;
    }
}

/* Adds the rows of one block; 0 where there is no memory. */
static int accumulate(accumulator_t *made, const block_values_t *block, int64_t groups) {
    switch (made->action) {
    case ACTION_COUNT_ROWS: add_rows(block, made->values); return 1;
    case ACTION_COUNT: add_counts(block, made->values); return 1;
    case ACTION_SUM_WIDE: add_wide(block, made->values, FORM_INT64); return 1;
    case ACTION_SUM:
        if (made->form == FORM_INT64) {
            add_int64(block, made->values);
        } else {
            add_wide(block, made->values, made->form);
        }
        return 1;
    case ACTION_MIN: keep_extremes(block, made, 0); return 1;
    case ACTION_MAX: keep_extremes(block, made, 1); return 1;
    default: return add_floats(made, block, groups);
    }
}

#endif
