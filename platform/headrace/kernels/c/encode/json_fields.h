/* Columns as a tree of fields: types from an Arrow schema, and addresses of the values of an Arrow array.
 *
 * The tree is an array in which the children of a field are adjacent; the children of the row itself come first. */
#ifndef HEADRACE_JSON_FIELDS_H
#define HEADRACE_JSON_FIELDS_H

#include "arrow.h"
#include "text/calendar.h"
#include "encode/json_escape.h"

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
    const uint8_t *key;          /* `{"name":` or `,"name":`, in a multiple of KEY_PADDING bytes */
    int64_t key_bytes;           /* 0: an element of a list */
    const uint8_t *values;
    const uint8_t *valid;        /* a bitmap; NULL where no value is NULL */
    int64_t offset;              /* the index of the array's first value in its buffers */
    const void *const *texts;    /* buffers of long texts */
} json_field_t;

#define DEPTH_MAX 32 /* of lists and structs in each other: functions here call themselves once a level */
#define VALUE_BYTES_MAX 96
#define KEY_BYTES_FIXED 4 /* `,"":` */
#define KEY_PADDING 16

_Static_assert(VALUE_BYTES_MAX >= NUMBER_BYTES_MAX + 2 && VALUE_BYTES_MAX >= CALENDAR_BYTES_MAX + 2, "values fit");

ALWAYS_INLINE int64_t padded(int64_t bytes) { return (bytes + KEY_PADDING - 1) / KEY_PADDING * KEY_PADDING; }

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

/* Memory that fields take. */
typedef struct {
    int64_t fields;
    int64_t name_bytes;
    int64_t key_bytes;
} extent_t;

/* Adds the memory for a column and its children; returns 0 for an unsupported type. */
static int add_extent(extent_t *extent, const arrow_schema_t *schema, int depth) {
    if (field_kind(schema) == FIELD_UNKNOWN || depth > DEPTH_MAX) return 0;
    int64_t name_bytes = schema->name ? (int64_t)strlen(schema->name) : 0;
    extent->fields++;
    extent->name_bytes += name_bytes;
    extent->key_bytes += padded(name_bytes * ESCAPED_BYTES_MAX + KEY_BYTES_FIXED);
    for (int64_t child = 0; child < schema->n_children; child++)
        if (!add_extent(extent, schema->children[child], depth + 1)) return 0;
    return 1;
}

/* Where the next fields and keys go. */
typedef struct {
    json_field_t *fields;
    int64_t field_count;
    uint8_t *keys;
} fields_t;

/* Sets a field from the schema, and adds its children. `mark`: the bracket or comma before its name; 0 for an
 * element of a list. */
static void set_field(fields_t *made, json_field_t *field, const arrow_schema_t *schema, int64_t source, uint8_t mark) {
    memset(field, 0, sizeof *field);
    field->kind = field_kind(schema);
    field->source = source;
    field->scale = field->kind == FIELD_DECIMAL ? decimal_scale(schema->format) : 0;
    if (mark) {
        uint8_t *end = made->keys;
        *end++ = mark;
        *end++ = '"';
        end = write_escaped_bytes(end, (const uint8_t *)schema->name, (int64_t)strlen(schema->name));
        *end++ = '"';
        *end++ = ':';
        field->key = made->keys;
        field->key_bytes = end - made->keys;
        made->keys += padded(field->key_bytes);
    }
    field->first_child = made->field_count;
    field->child_count = schema->n_children;
    made->field_count += schema->n_children;
    for (int64_t child = 0; child < schema->n_children; child++) {
        json_field_t *inner = made->fields + field->first_child + child;
        uint8_t inner_mark = field->kind == FIELD_LIST ? 0 : child == 0 ? '{' : ',';
        set_field(made, inner, schema->children[child], child, inner_mark);
    }
}

static inline int64_t buffer_count(int64_t kind) {
    return kind == FIELD_STRUCT ? 1 : kind == FIELD_STRING || kind == FIELD_BINARY ? 3 : 2;
}

/* Binds a field and its children to the values of an array of at least `length`; returns 0 if the array has another
 * form. */
static int bind_field(json_field_t *fields, json_field_t *field, const arrow_array_t *array, int64_t length) {
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

#endif
