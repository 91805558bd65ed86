/* Typed columns that a kernel fills row by row, nested ones too, in Arrow's layout.
 *
 * Columns form a tree, stored as an array in which the children of a column are adjacent. `values` holds fixed-width
 * numbers, 16-byte views of strings and binaries, int64 ends of lists (after a leading 0); nothing for a struct. Each
 * value has a byte in `valid`, which becomes a bitmap at the end. `columns_rewind` removes the values of a row in
 * doubt: the row counts of its parents determine how many values each column keeps.
 *
 * Columns below a list have one value per element. If one is full, the kernel stops before the row, and its caller
 * continues with larger buffers. */
#ifndef HEADRACE_COLUMNS_H
#define HEADRACE_COLUMNS_H

#include "export.h"

enum kind {
    KIND_BOOL,
    KIND_INT32,
    KIND_INT64,
    KIND_FLOAT32,
    KIND_FLOAT64,
    KIND_STRING,
    KIND_BINARY,
    KIND_DATE,      /* int32 days */
    KIND_TIMESTAMP, /* int64 microseconds; `parameter`: microseconds of one unit of an integer */
    KIND_DECIMAL,   /* int128; `parameter`: precision */
    KIND_LIST,      /* one child */
    KIND_STRUCT     /* `child_count` children */
};

typedef struct {
    int64_t kind;
    int64_t is_nullable;
    int64_t first_child;
    int64_t child_count;
    int64_t parameter;
    int64_t scale;          /* of a decimal */
    const uint8_t *name;    /* in the quotes of a key */
    int64_t name_bytes;     /* with them */
    uint8_t *values;
    uint8_t *valid;
    int64_t rows;           /* values written */
    int64_t rows_max;       /* values that fit */
    int64_t nulls;          /* set at the end */
} column_t;

typedef struct {
    column_t *columns;      /* the first one is the row itself, a struct */
    uint8_t *text;          /* what views longer than 12 bytes lead to */
    int64_t text_bytes;
    int64_t text_bytes_max; /* below 2^31 */
    int64_t full;           /* the column that has no room, or -1 */
} table_t;

#define VIEW_BYTES 16
#define INLINE_BYTES_MAX 12

/* Whether one more value fits; if not, sets table->full to the column. */
ALWAYS_INLINE int has_room(table_t *table, const column_t *column) {
    if (likely(column->rows < column->rows_max)) return 1;
    table->full = column - table->columns;
    return 0;
}

#define DEFINE_PUT(name, type)                                                                                         \
    ALWAYS_INLINE void put_##name(column_t *column, type value) {                                                      \
        memcpy(column->values + column->rows * (int64_t)sizeof value, &value, sizeof value);                           \
        column->valid[column->rows++] = 1;                                                                             \
    }

DEFINE_PUT(byte, uint8_t)
DEFINE_PUT(int32, int32_t)
DEFINE_PUT(int64, int64_t)
DEFINE_PUT(float32, float)
DEFINE_PUT(float64, double)
DEFINE_PUT(int128, u128)

/* A string or binary. A view contains short ones itself; the bytes of longer ones must be in `text` at `offset`. */
ALWAYS_INLINE void put_view(column_t *column, const uint8_t *bytes, int64_t length, int64_t offset) {
    uint8_t *view = column->values + column->rows * VIEW_BYTES;
    int32_t size = (int32_t)length;
    memset(view, 0, VIEW_BYTES);
    memcpy(view, &size, 4);
    if (length <= INLINE_BYTES_MAX) {
        memcpy(view + 4, bytes, (size_t)length);
    } else {
        int32_t place = (int32_t)offset;
        memcpy(view + 4, bytes, 4);
        memcpy(view + 12, &place, 4);
    }
    column->valid[column->rows++] = 1;
}

/* A string or binary that is part of a message. `text` has room for it: all strings of a batch together are no longer
 * than its messages. */
ALWAYS_INLINE void put_text(table_t *table, column_t *column, const uint8_t *bytes, int64_t length) {
    put_view(column, bytes, length, table->text_bytes);
    if (length > INLINE_BYTES_MAX) {
        memcpy(table->text + table->text_bytes, bytes, (size_t)length);
        table->text_bytes += length;
    }
}

/* A string or binary whose bytes have been written after the last one in `text`. */
ALWAYS_INLINE void put_written(table_t *table, column_t *column, int64_t length) {
    put_view(column, table->text + table->text_bytes, length, table->text_bytes);
    if (length > INLINE_BYTES_MAX) table->text_bytes += length;
}

ALWAYS_INLINE int64_t *list_ends(const column_t *column) { return (int64_t *)(void *)column->values; }

static inline int64_t value_bytes(const column_t *column) {
    switch (column->kind) {
    case KIND_BOOL: return 1;
    case KIND_INT32: case KIND_FLOAT32: case KIND_DATE: return 4;
    case KIND_STRING: case KIND_BINARY: case KIND_DECIMAL: return 16;
    case KIND_STRUCT: return 0;
    default: return 8;
    }
}

/* Appends NULL, for a struct also to its children; returns 0 if there is no room. */
static int put_null(table_t *table, column_t *column) {
    if (!has_room(table, column)) return 0;
    int64_t row = column->rows;
    if (column->kind == KIND_LIST) {
        list_ends(column)[row + 1] = list_ends(column)[row];
    } else if (column->kind == KIND_STRUCT) {
        for (int64_t child = 0; child < column->child_count; child++)
            if (!put_null(table, table->columns + column->first_child + child)) return 0;
    } else {
        int64_t size = value_bytes(column);
        memset(column->values + row * size, 0, (size_t)size);
    }
    column->valid[row] = 0;
    column->rows = row + 1;
    return 1;
}

/* Removes all values from row `rows` of this column on. */
static void column_rewind(table_t *table, column_t *column, int64_t rows) {
    column_t *children = table->columns + column->first_child;
    column->rows = rows;
    if (column->kind == KIND_LIST) column_rewind(table, children, list_ends(column)[rows]);
    if (column->kind == KIND_STRUCT)
        for (int64_t child = 0; child < column->child_count; child++) column_rewind(table, children + child, rows);
}

/* Counts the NULLs of each column, except the row itself, which has none. */
static inline void count_nulls(table_t *table, int64_t columns) {
    for (int64_t index = 1; index < columns; index++) {
        column_t *column = table->columns + index;
        int64_t valid = 0;
        for (int64_t row = 0; row < column->rows; row++) valid += column->valid[row];
        column->nulls = column->rows - valid;
    }
}

#endif
