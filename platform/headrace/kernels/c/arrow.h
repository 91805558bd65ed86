/* Input columns: the structures of Arrow's C data and C stream interface
 * (https://arrow.apache.org/docs/format/CDataInterface.html), and a view of one column in them. */
#ifndef HEADRACE_ARROW_H
#define HEADRACE_ARROW_H

#include "words.h"

typedef struct arrow_schema {
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct arrow_schema **children;
    struct arrow_schema *dictionary;
    void (*release)(struct arrow_schema *);
    void *private_data;
} arrow_schema_t;

typedef struct arrow_array {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct arrow_array **children;
    struct arrow_array *dictionary;
    void (*release)(struct arrow_array *);
    void *private_data;
} arrow_array_t;

typedef struct arrow_stream {
    int (*get_schema)(struct arrow_stream *, arrow_schema_t *);
    int (*get_next)(struct arrow_stream *, arrow_array_t *);
    const char *(*get_last_error)(struct arrow_stream *);
    void (*release)(struct arrow_stream *);
    void *private_data;
} arrow_stream_t;

/* The physical type of a column's values. */
enum form {
    FORM_INT32,   /* also dates */
    FORM_INT64,   /* also timestamps */
    FORM_INT128,  /* also decimals */
    FORM_FLOAT32,
    FORM_FLOAT64,
    FORM_TEXT,    /* 16-byte views of strings and binaries */
    FORM_ANY      /* only its validity is read */
};

/* One column of an array. `values` stands at its first row; `valid` is NULL where no row is NULL. */
typedef struct {
    const uint8_t *values;
    const uint8_t *valid;
    int64_t valid_offset;         /* bit of the first row */
    const void *const *texts;     /* buffers of the texts of long views */
    int64_t is_absent;            /* there is no such column */
} column_view_t;

static inline int64_t form_bytes(int64_t form) {
    switch (form) {
    case FORM_INT32: case FORM_FLOAT32: return 4;
    case FORM_INT64: case FORM_FLOAT64: return 8;
    case FORM_INT128: case FORM_TEXT: return 16;
    default: return 0;
    }
}

/* The form of a column with this format string; FORM_ANY for all others. */
static inline int64_t form_of(const char *format) {
    if (!strcmp(format, "i") || !strcmp(format, "tdD")) return FORM_INT32;
    if (!strcmp(format, "l") || !strncmp(format, "tsu", 3)) return FORM_INT64;
    if (!strcmp(format, "_pli128") || !strncmp(format, "d:", 2)) return FORM_INT128;
    if (!strcmp(format, "f")) return FORM_FLOAT32;
    if (!strcmp(format, "g")) return FORM_FLOAT64;
    if (!strcmp(format, "vu") || !strcmp(format, "vz")) return FORM_TEXT;
    return FORM_ANY;
}

/* Bytes of a value of the type with this format string; 0 for booleans, which are bits; -1 for types without
 * one number of bytes. */
static inline int64_t value_bytes(const char *format) {
    static const struct {
        const char *format;
        int64_t bytes;
    } widths[] = {{"b", 0}, {"c", 1}, {"C", 1}, {"s", 2}, {"S", 2}, {"i", 4}, {"I", 4}, {"l", 8}, {"L", 8},
                  {"f", 4}, {"g", 8}, {"tdD", 4}, {"tdm", 8}, {"ttu", 8}, {"ttn", 8}, {"vu", 16}, {"vz", 16}};
    for (size_t index = 0; index < sizeof widths / sizeof widths[0]; index++)
        if (!strcmp(format, widths[index].format)) return widths[index].bytes;
    if (!strncmp(format, "ts", 2) || !strncmp(format, "tD", 2)) return 8;
    /* d:precision,scale has 128 bits; other widths are named behind a second comma */
    if (!strncmp(format, "d:", 2)) {
        const char *scale = strchr(format, ',');
        return scale != NULL && strchr(scale + 1, ',') == NULL ? 16 : -1;
    }
    return -1;
}

/* Column `index` of a struct array from row `begin` on; returns 0 if it lacks the buffers of this form. */
static inline int column_view(column_view_t *view, const arrow_array_t *rows, int64_t index, int64_t form,
                              int64_t begin) {
    if (index < 0 || index >= rows->n_children) return 0;
    const arrow_array_t *column = rows->children[index];
    int64_t first = column->offset + rows->offset + begin;
    int64_t buffers = form == FORM_TEXT ? 3 : form == FORM_ANY ? 0 : 2;
    if (column->length < rows->offset + rows->length || column->n_buffers < buffers || column->dictionary) return 0;
    memset(view, 0, sizeof *view);
    int has_bitmap = column->n_buffers > 0 && column->buffers[0] != NULL;
    /* the null type: all its rows are NULL, and it has no bitmap that says so */
    if (column->null_count > 0 && !has_bitmap) return 0;
    if (column->null_count != 0 && has_bitmap) {
        view->valid = column->buffers[0];
        view->valid_offset = first;
    }
    if (form == FORM_ANY) return 1;
    if (column->buffers[1] == NULL) return 0;
    view->values = (const uint8_t *)column->buffers[1] + first * form_bytes(form);
    view->texts = column->buffers + 2;
    return 1;
}

ALWAYS_INLINE int bit_at(const uint8_t *bits, int64_t index) { return bits[index >> 3] >> (index & 7) & 1; }

ALWAYS_INLINE int is_valid(const column_view_t *view, int64_t row) {
    return view->valid == NULL || bit_at(view->valid, view->valid_offset + row);
}

/* The bytes of a view, of which long ones are in `texts`; their number is its first word. */
ALWAYS_INLINE const uint8_t *view_bytes(const void *const *texts, const uint8_t *view) {
    uint32_t length = load_uint32(view);
    if (length <= 12) return view + 4;
    return (const uint8_t *)texts[load_uint32(view + 8)] + load_uint32(view + 12);
}

/* A text of more than 12 bytes. Short ones as two overlapping words, which is faster than a call. */
ALWAYS_INLINE void copy_text(uint8_t *to, const uint8_t *text, size_t length) {
    if (length > 32) {
        memcpy(to, text, length);
    } else if (length >= 16) {
        memcpy(to, text, 16);
        memcpy(to + length - 16, text + length - 16, 16);
    } else {
        memcpy(to, text, 8);
        memcpy(to + length - 8, text + length - 8, 8);
    }
}

#endif
