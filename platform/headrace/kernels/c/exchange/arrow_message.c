/* Rows of an array as one record batch message of Arrow's IPC format, uncompressed
 * (https://arrow.apache.org/docs/format/Columnar.html#encapsulated-message-format): gathered and written in one pass,
 * with texts copied into one buffer a column, so that the message holds nothing of the rows that were not chosen.
 *
 *     0xFFFFFFFF | size of metadata, u32 | metadata: a flatbuffer | body: the buffers, each at a multiple of 64 bytes
 *
 * The metadata has the same layout for every message of the same columns (`message_metadata.h`). */
#include "../arrow.h"
#include "../xxh64.h"
#include "message_metadata.h"

EXPORT int64_t headrace_arrow_message(arrow_stream_t *stream, const uint32_t *rows, int64_t row_count,
                                      uint8_t *message, int64_t capacity, uint64_t *columns);

/* The rows to write: `rows` of the array, or, where `rows` is NULL, the first `count`. */
typedef struct {
    const uint32_t *rows;
    int64_t count;
} chosen_t;

ALWAYS_INLINE int64_t row_at(const chosen_t *chosen, int64_t index) {
    return chosen->rows == NULL ? index : (int64_t)chosen->rows[index];
}

static int is_text(const char *format) { return format[0] == 'v'; }

/* A column to write, and where its buffers are in the body. */
typedef struct {
    column_view_t view;     /* `values` of booleans is the first byte of their bits */
    int64_t first;          /* the row of the column that is the array's first: for bits */
    int64_t bytes;          /* of a value; 0: bits */
    int is_text;
    int64_t texts_bytes;    /* of the texts of long views */
} source_t;

/* Column `index` of the array; returns 0 if this kernel does not write its type. */
static int open_source(source_t *source, const arrow_schema_t *schema, const arrow_array_t *array, int64_t index) {
    const arrow_schema_t *type = schema->children[index];
    const arrow_array_t *column = array->children[index];
    int64_t bytes = value_bytes(type->format);
    if (bytes < 0 || type->dictionary != NULL || type->n_children > 0) return 0;
    if (!column_view(&source->view, array, index, FORM_ANY, 0)) return 0;
    source->is_text = is_text(type->format);
    if (column->n_buffers < (source->is_text ? 3 : 2) || column->buffers[1] == NULL) return 0;
    source->bytes = bytes;
    source->first = column->offset + array->offset;
    source->view.values = (const uint8_t *)column->buffers[1] + source->first * bytes;
    source->view.texts = column->buffers + 2;
    return 1;
}

/* The bytes of the texts of long views of the chosen rows. NULL rows have none, whatever their view says. */
static int64_t texts_bytes(const source_t *source, const chosen_t *chosen) {
    int64_t bytes = 0;
    for (int64_t index = 0; index < chosen->count; index++) {
        int64_t row = row_at(chosen, index);
        uint32_t length = load_uint32(source->view.values + row * 16);
        bytes += length > 12 && is_valid(&source->view, row) ? length : 0;
    }
    return bytes;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void zero_tail(uint8_t *buffer, int64_t bytes) {
    memset(buffer + bytes, 0, (size_t)(padded(bytes) - bytes));
}

/* The bits `first + row` of the chosen rows; returns how many are 0. */
static int64_t write_bits(uint8_t *to, const uint8_t *bits, int64_t first, const chosen_t *chosen) {
    int64_t zeros = 0, bytes = bits_bytes(chosen->count);
    for (int64_t byte = 0; byte < bytes; byte++) {
        int64_t begin = byte * 8, end = begin + 8 < chosen->count ? begin + 8 : chosen->count;
        int word = 0;
        for (int64_t index = begin; index < end; index++)
            word |= bit_at(bits, first + row_at(chosen, index)) << (index - begin);
        zeros += end - begin - __builtin_popcount((unsigned)word);
        to[byte] = (uint8_t)word;
    }
    zero_tail(to, bytes);
    return zeros;
}

/* Values of `bytes` bytes, which is a constant wherever this is inlined. */
ALWAYS_INLINE void gather(uint8_t *to, const uint8_t *values, const chosen_t *chosen, size_t bytes) {
    for (int64_t index = 0; index < chosen->count; index++)
        memcpy(to + (size_t)index * bytes, values + (size_t)chosen->rows[index] * bytes, bytes);
}

static void write_values(uint8_t *to, const source_t *source, const chosen_t *chosen) {
    const uint8_t *values = source->view.values;
    int64_t bytes = chosen->count * source->bytes;
    if (chosen->rows == NULL) {
        memcpy(to, values, (size_t)bytes);
    } else {
        switch (source->bytes) {
        case 1: gather(to, values, chosen, 1); break;
        case 2: gather(to, values, chosen, 2); break;
        case 4: gather(to, values, chosen, 4); break;
        case 8: gather(to, values, chosen, 8); break;
        default: gather(to, values, chosen, 16); break;
        }
    }
    zero_tail(to, bytes);
}

/* Views, and behind them the texts that they refer to: long ones refer to buffer 0 then. */
static void write_texts(uint8_t *views, uint8_t *texts, const source_t *source, const chosen_t *chosen) {
    int64_t written = 0;
    for (int64_t index = 0; index < chosen->count; index++) {
        int64_t row = row_at(chosen, index);
        const uint8_t *view = source->view.values + row * 16;
        uint8_t *to = views + index * 16;
        if (unlikely(!is_valid(&source->view, row))) {
            memset(to, 0, 16);
            continue;
        }
        uint32_t length = load_uint32(view);
        memcpy(to, view, 16);
        if (length <= 12) continue;
        copy_text(texts + written, view_bytes(source->view.texts, view), length);
        store_word(to + 8, (uint64_t)written << 32); /* buffer 0, offset */
        written += length;
    }
    zero_tail(views, chosen->count * 16);
    zero_tail(texts, written);
}

/* Lays the buffers of a column out from `at` on, which becomes the end of the last one. */
static void lay_out(message_t *message, const source_t *source, const chosen_t *chosen) {
    int64_t count = chosen->count;
    add_node(message, count);
    add_buffer(message, source->view.valid == NULL ? 0 : bits_bytes(count));
    add_buffer(message, source->bytes == 0 ? bits_bytes(count) : count * source->bytes);
    if (!source->is_text) return;
    add_variadic(message, source->texts_bytes > 0);
    if (source->texts_bytes > 0) add_buffer(message, source->texts_bytes);
}

/* Writes the buffers of a column, of which `buffers[0]` is the first, into the body; returns its number of NULLs. */
static int64_t write_column(uint8_t *body, const buffer_t *buffers, const source_t *source, const chosen_t *chosen) {
    int64_t nulls = 0;
    uint8_t *values = body + buffers[1].offset;
    if (source->view.valid != NULL)
        nulls = write_bits(body + buffers[0].offset, source->view.valid, source->view.valid_offset, chosen);
    if (source->bytes == 0)
        write_bits(values, source->view.values, source->first, chosen);
    else if (source->is_text)
        write_texts(values, source->texts_bytes ? body + buffers[2].offset : values + padded(chosen->count * 16),
                    source, chosen);
    else
        write_values(values, source, chosen);
    return nulls;
}

static int are_inside(const chosen_t *chosen, int64_t length) {
    uint32_t greatest = 0;
    if (chosen->rows == NULL) return chosen->count <= length;
    for (int64_t index = 0; index < chosen->count; index++)
        greatest = chosen->rows[index] > greatest ? chosen->rows[index] : greatest;
    return chosen->count == 0 || greatest < length;
}

/* Opens all columns and lays the message out; returns 0 if this kernel does not write it. */
static int prepare(message_t *message, source_t *sources, const arrow_schema_t *schema, const arrow_array_t *array,
                   const chosen_t *chosen) {
    for (int64_t index = 0; index < array->n_children; index++) {
        source_t *source = sources + index;
        if (!open_source(source, schema, array, index)) return 0;
        source->texts_bytes = source->is_text ? texts_bytes(source, chosen) : 0;
        if (source->texts_bytes > INT32_MAX) return 0; /* offsets of views have 32 bits */
        lay_out(message, source, chosen);
    }
    return 1;
}

static int64_t write_message(const arrow_schema_t *schema, const arrow_array_t *array, const chosen_t *chosen,
                             uint8_t *to, int64_t capacity) {
    source_t sources[COLUMNS_MAX];
    message_t message;
    if (array->n_children > COLUMNS_MAX || array->n_children != schema->n_children) return -1;
    if (!are_inside(chosen, array->length)) return -1;
    begin_message(&message, chosen->count);
    if (!prepare(&message, sources, schema, array, chosen)) return -1;
    int64_t prefix = prefix_bytes(&message), size = prefix + message.body_bytes;
    if (size > capacity) return size;
    for (int64_t index = 0, buffer = 0; index < array->n_children; index++) {
        const source_t *source = sources + index;
        message.nodes[index].null_count = write_column(to + prefix, message.buffers + buffer, source, chosen);
        buffer += source->texts_bytes > 0 ? 3 : 2;
    }
    write_prefix(to, &message);
    return size;
}

/* A digest of the names and types of all columns, in order. */
static uint64_t columns_digest(const arrow_schema_t *schema) {
    uint64_t digest = (uint64_t)schema->n_children;
    for (int64_t index = 0; index < schema->n_children; index++) {
        const arrow_schema_t *column = schema->children[index];
        digest = xxh64((const uint8_t *)column->name, strlen(column->name), digest);
        digest = xxh64((const uint8_t *)column->format, strlen(column->format), digest);
    }
    return digest;
}

/* Writes the chosen rows of the only array of the stream, in the order in which they are chosen: `row_count` numbers
 * in `rows`, or its first `row_count` where `rows` is NULL. Sets `columns` to a digest of the columns.
 *
 * Returns the bytes of the message. Where they are more than `capacity`, nothing is written. Returns -1 if the stream
 * has no array, or columns that this kernel does not write. */
EXPORT int64_t headrace_arrow_message(arrow_stream_t *stream, const uint32_t *rows, int64_t row_count,
                                      uint8_t *message, int64_t capacity, uint64_t *columns) {
    arrow_schema_t schema;
    arrow_array_t array;
    chosen_t chosen = {rows, row_count};
    int64_t size = -1;
    if (stream->get_schema(stream, &schema)) return -1;
    *columns = columns_digest(&schema);
    if (!stream->get_next(stream, &array) && array.release != NULL) {
        size = write_message(&schema, &array, &chosen, message, capacity);
        array.release(&array);
    }
    if (schema.release != NULL) schema.release(&schema);
    return size;
}
