/* Columns as they come: the structures of Arrow's C data and C stream interface
 * (https://arrow.apache.org/docs/format/CDataInterface.html). */
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

ALWAYS_INLINE uint32_t load_uint32(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

#endif
