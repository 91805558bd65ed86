/* An Arrow column of byte strings or texts: binary, string, large_binary or large_string, maybe a slice. */
#ifndef HEADRACE_BINARY_COLUMN_H
#define HEADRACE_BINARY_COLUMN_H

#include "export.h"

typedef struct {
    const uint8_t *data;    /* never NULL: an empty value has an address */
    int64_t data_bytes;
    const void *offsets;    /* one more than rows; NULL: there is no column, every value is NULL */
    int64_t offset_bytes;   /* of one offset: 4 or 8 */
    const uint8_t *valid;   /* a bitmap; NULL: no value is NULL */
    int64_t first_bit;      /* of the first row */
} binary_column_t;

typedef struct {
    const uint8_t *at;      /* NULL: the value is NULL */
    uint64_t size;
} binary_value_t;

ALWAYS_INLINE int64_t binary_offset(const binary_column_t *column, int64_t row) {
    return column->offset_bytes == 4 ? ((const int32_t *)column->offsets)[row]
                                     : ((const int64_t *)column->offsets)[row];
}

ALWAYS_INLINE int binary_is_null(const binary_column_t *column, int64_t row) {
    if (column->offsets == NULL) return 1;
    if (column->valid == NULL) return 0;
    int64_t bit = column->first_bit + row;
    return !(column->valid[bit >> 3] >> (bit & 7) & 1);
}

/* Reads a value; returns 0 if its offsets are outside the data. Offsets of a NULL are not read. */
ALWAYS_INLINE int binary_value(const binary_column_t *column, int64_t row, binary_value_t *value) {
    *value = (binary_value_t){NULL, 0};
    if (binary_is_null(column, row)) return 1;
    int64_t begin = binary_offset(column, row), end = binary_offset(column, row + 1);
    if (unlikely(begin < 0 || end < begin || end > column->data_bytes)) return 0;
    *value = (binary_value_t){column->data + begin, (uint64_t)(end - begin)};
    return 1;
}

#endif
