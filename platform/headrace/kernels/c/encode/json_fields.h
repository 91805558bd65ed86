/* The fields of JSON objects: a tree of columns with the key of each.
 *
 * The children of a field are adjacent: encode/fields.h. */
#ifndef HEADRACE_JSON_FIELDS_H
#define HEADRACE_JSON_FIELDS_H

#include "encode/fields.h"
#include "encode/json_escape.h"
#include "text/calendar.h"

#define VALUE_BYTES_MAX 96
#define KEY_BYTES_FIXED 4 /* `,"":` */
#define KEY_PADDING 16

_Static_assert(VALUE_BYTES_MAX >= NUMBER_BYTES_MAX + 2 && VALUE_BYTES_MAX >= CALENDAR_BYTES_MAX + 2, "values fit");

ALWAYS_INLINE int64_t padded(int64_t bytes) { return (bytes + KEY_PADDING - 1) / KEY_PADDING * KEY_PADDING; }

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

/* Writes the key of a field and those of its children at `keys`; returns where the next one goes. `mark`: the bracket or
 * comma before its name; 0 for an element of a list. */
static uint8_t *set_keys(field_t *fields, field_t *field, const arrow_schema_t *schema, uint8_t mark, uint8_t *keys) {
    if (mark) {
        uint8_t *end = keys;
        *end++ = mark;
        *end++ = '"';
        end = write_escaped_bytes(end, (const uint8_t *)schema->name, (int64_t)strlen(schema->name));
        *end++ = '"';
        *end++ = ':';
        field->key = keys;
        field->key_bytes = end - keys;
        keys += padded(field->key_bytes);
    }
    for (int64_t child = 0; child < schema->n_children; child++) {
        uint8_t inner_mark = field->kind == FIELD_LIST ? 0 : child == 0 ? '{' : ',';
        keys = set_keys(fields, fields + field->first_child + child, schema->children[child], inner_mark, keys);
    }
    return keys;
}

#endif
