/* Columns as a tree of fields: types from an Arrow schema, and addresses of the values of an Arrow array.
 *
 * The tree is an array in which the children of a field are adjacent; the children of the row itself come first, and
 * those of a field stand before those of its later siblings. */
#ifndef HEADRACE_FIELDS_H
#define HEADRACE_FIELDS_H

#include "arrow.h"

enum field_kind {
    FIELD_BOOL,
    FIELD_INT32,
    FIELD_INT64,
    FIELD_FLOAT32,
    FIELD_FLOAT64,
    FIELD_STRING,    /* 16-byte views */
    FIELD_BINARY,    /* 16-byte views */
    FIELD_DATE,      /* int32 days */
    FIELD_TIMESTAMP, /* int64 microseconds */
    FIELD_DECIMAL,   /* int128 */
    FIELD_LIST,      /* int64 offsets; one child */
    FIELD_STRUCT,
    FIELD_UNKNOWN
};

typedef struct {
    int64_t kind;
    int64_t scale;               /* of a decimal */
    int64_t source;              /* the index of the column among the children of its Arrow array */
    int64_t first_child, child_count;
    const uint8_t *key;          /* of JSON: `{"name":` or `,"name":`, in a multiple of KEY_PADDING bytes */
    int64_t key_bytes;           /* 0: an element of a list, or no JSON */
    const uint8_t *values;
    const uint8_t *valid;        /* a bitmap; NULL where no value is NULL */
    int64_t offset;              /* the index of the array's first value in its buffers */
    const void *const *texts;    /* buffers of long texts */
} field_t;

#define DEPTH_MAX 32 /* of lists and structs in each other: functions here call themselves once a level */

/* The scale of `d:10,2` or `d:10,2,128`; -1 for other widths, and for anything but a decimal of at most 38 digits. */
static inline int64_t decimal_scale(const char *format) {
    int64_t numbers[3] = {0, 0, 128};
    const char *at = format + 1;
    for (int index = 0; index < 3 && (*at == ':' || *at == ','); index++) {
        int64_t number = 0;
        const char *first = ++at;
        while (*at >= '0' && *at <= '9' && at - first < 4) number = number * 10 + (*at++ - '0');
        if (at == first) return -1;
        numbers[index] = number;
    }
    return *at == 0 && numbers[0] <= 38 && numbers[1] <= 38 && numbers[2] == 128 ? numbers[1] : -1;
}

static inline enum field_kind field_kind(const arrow_schema_t *schema) {
    const char *format = schema->format;
    if (schema->dictionary) return FIELD_UNKNOWN;
    if (!strcmp(format, "b")) return FIELD_BOOL;
    if (!strcmp(format, "i")) return FIELD_INT32;
    if (!strcmp(format, "l")) return FIELD_INT64;
    if (!strcmp(format, "f")) return FIELD_FLOAT32;
    if (!strcmp(format, "g")) return FIELD_FLOAT64;
    if (!strcmp(format, "vu")) return FIELD_STRING;
    if (!strcmp(format, "vz")) return FIELD_BINARY;
    if (!strcmp(format, "tdD")) return FIELD_DATE;
    /* other zones are written as local time, other units with another number of digits */
    if (!strcmp(format, "tsu:") || !strcmp(format, "tsu:UTC")) return FIELD_TIMESTAMP;
    if (format[0] == 'd' && decimal_scale(format) >= 0) return FIELD_DECIMAL;
    if (!strcmp(format, "+L") && schema->n_children == 1) return FIELD_LIST;
    /* an object needs a first key: the key includes the opening bracket */
    if (!strcmp(format, "+s") && schema->n_children > 0) return FIELD_STRUCT;
    return FIELD_UNKNOWN;
}

/* The fields below a column; INT32_MAX if there are too many levels. */
static inline int64_t count_children(const arrow_schema_t *schema, int depth) {
    if (depth > DEPTH_MAX) return INT32_MAX;
    int64_t count = schema->n_children;
    for (int64_t child = 0; child < schema->n_children; child++)
        count += count_children(schema->children[child], depth + 1);
    return count;
}

/* Sets a field from the schema, and adds its children. count: of the fields so far. */
static void set_field(field_t *fields, int64_t *count, field_t *field, const arrow_schema_t *schema, int64_t source) {
    memset(field, 0, sizeof *field);
    field->kind = field_kind(schema);
    field->source = source;
    field->scale = field->kind == FIELD_DECIMAL ? decimal_scale(schema->format) : 0;
    field->first_child = *count;
    field->child_count = schema->n_children;
    *count += schema->n_children;
    for (int64_t child = 0; child < schema->n_children; child++)
        set_field(fields, count, fields + field->first_child + child, schema->children[child], child);
}

static inline int64_t buffer_count(int64_t kind) {
    return kind == FIELD_STRUCT ? 1 : kind == FIELD_STRING || kind == FIELD_BINARY ? 3 : 2;
}

/* Binds a field and its children to the values of an array of at least `length`; returns 0 if the array has another
 * form. */
static int bind_field(field_t *fields, field_t *field, const arrow_array_t *array, int64_t length) {
    if (array->n_buffers < buffer_count(field->kind) || array->n_children != field->child_count) return 0;
    if (array->dictionary || array->length < length) return 0;
    field->offset = array->offset;
    field->valid = array->null_count != 0 ? array->buffers[0] : NULL;
    if (field->kind != FIELD_STRUCT) {
        /* without values there may be no buffer */
        if (array->buffers[1] == NULL && length > 0) return 0;
        field->values = array->buffers[1];
        field->texts = array->buffers + 2;
    }
    int64_t inner = 0;
    if (field->kind == FIELD_STRUCT) inner = array->offset + length;
    if (field->kind == FIELD_LIST && length > 0)
        memcpy(&inner, field->values + (array->offset + length) * (int64_t)sizeof inner, sizeof inner);
    for (int64_t child = 0; child < field->child_count; child++)
        if (!bind_field(fields, fields + field->first_child + child, array->children[child], inner)) return 0;
    return 1;
}

/* Binds all columns to the rows of the next array of a stream, of which `rows_left` are due; returns 0 for another form,
 * other columns, and more rows. */
static int bind_rows(field_t *fields, int64_t column_count, const arrow_array_t *rows, int64_t rows_left) {
    /* the stream has fewer rows than the frame, or more */
    if (rows->release == NULL || rows->length > rows_left) return 0;
    /* a frame has no NULL rows */
    if (rows->null_count != 0 && rows->n_buffers > 0 && rows->buffers[0] != NULL) return 0;
    for (int64_t index = 0; index < column_count; index++) {
        field_t *field = fields + index;
        if (field->source >= rows->n_children) return 0;
        if (!bind_field(fields, field, rows->children[field->source], rows->offset + rows->length)) return 0;
    }
    return 1;
}

#define DEFINE_VALUE_AT(name, type)                                                                                    \
    ALWAYS_INLINE type name##_at(const field_t *field, int64_t index) {                                               \
        type value;                                                                                                    \
        memcpy(&value, field->values + index * (int64_t)sizeof value, sizeof value);                                   \
        return value;                                                                                                  \
    }

DEFINE_VALUE_AT(int32, int32_t)
DEFINE_VALUE_AT(uint32, uint32_t)
DEFINE_VALUE_AT(int64, int64_t)
DEFINE_VALUE_AT(uint64, uint64_t)
DEFINE_VALUE_AT(uint128, u128)

#endif
