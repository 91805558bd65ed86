/* Rows of columns to JSON: one compact object per row, byte for byte as polars writes it.
 *
 * The caller owns the Arrow stream of the columns, whose values are read in place. `open` reads the stream's schema
 * and returns how much memory the fields take. `write` writes rows until the text is full; then the caller continues
 * with a larger one. `close` releases the arrays and the schema that the stream returned. A column of another type and
 * a date that polars does not write are doubt: the caller then encodes all rows with polars. */
#include "text/base64.h"
#include "encode/json_fields.h"

#define VALUE_BYTES_GUESS 10

enum status {
    STATUS_DONE,
    STATUS_FULL,  /* text_bytes_max has to grow by `missing` bytes or more */
    STATUS_DOUBT
};

typedef struct {
    arrow_stream_t *stream;
    const uint8_t *names;    /* of the columns to write, each with a NUL behind it */
    int64_t column_count;
    int64_t is_epoch_ms;     /* timestamps as whole milliseconds, else RFC 3339 */
    int64_t row_count;       /* of the stream */
    /* set by `open` */
    int64_t field_bytes;     /* that `fields` has to hold */
    int64_t key_bytes;       /* that `keys` has to hold */
    int64_t row_bytes_guess;
    int64_t fixed_bytes_max; /* of all fields, once each, without texts and binaries; `text` is never shorter */
    /* memory of the caller */
    field_t *fields;
    uint8_t *keys;
    uint8_t *text;
    int64_t *ends;           /* row_count + 1 of them */
    int64_t text_bytes_max;
    int64_t text_bytes;      /* written */
    int64_t row;             /* the next one to write */
    int64_t missing;
    /* between calls */
    int64_t is_placed;       /* fields are set */
    int64_t is_bound;        /* fields lead into `rows` */
    int64_t first_row;       /* of `rows` */
    arrow_schema_t schema;
    arrow_array_t rows;
} json_encode_t;

/* The output. The `fixed_bytes_max` bytes after `soft_end` are reserved for values of known size. At the start of
 * a row, at the start of a list's element and behind a text, `at` is at `soft_end` or before it; from there to the next
 * such place each field is written at most once, so the reserve suffices without a check at each value. */
typedef struct {
    const json_encode_t *encode;
    uint8_t *soft_end;
    int64_t missing;         /* 0 with doubt */
} writer_t;

/* Returns STATUS_DONE or STATUS_DOUBT. */
EXPORT int64_t headrace_json_open(json_encode_t *encode);

/* Returns STATUS_DONE when all rows are written. */
EXPORT int64_t headrace_json_write(json_encode_t *encode);

/* Must be called once after `open`, whatever `open` returned. */
EXPORT void headrace_json_close(json_encode_t *encode);

static uint8_t *write_value(writer_t *writer, const field_t *field, int64_t index, uint8_t *at);

/* The index of a column; -1 if there is none. The search starts behind `last`, because columns mostly are in order. */
static int64_t find_column(const arrow_schema_t *schema, const char *name, int64_t last) {
    for (int64_t step = 1; step <= schema->n_children; step++) {
        int64_t index = (last + step) % schema->n_children;
        const char *found = schema->children[index]->name;
        if (found && !strcmp(found, name)) return index;
    }
    return -1;
}

static const char *next_name(const char *name) { return name + strlen(name) + 1; }

EXPORT int64_t headrace_json_open(json_encode_t *encode) {
    extent_t extent = {0, 0, 0};
    if (encode->stream->get_schema(encode->stream, &encode->schema)) {
        encode->schema.release = NULL;
        return STATUS_DOUBT;
    }
    const char *name = (const char *)encode->names;
    int64_t column = -1;
    if (strcmp(encode->schema.format, "+s")) return STATUS_DOUBT;
    for (int64_t index = 0; index < encode->column_count; index++, name = next_name(name)) {
        column = find_column(&encode->schema, name, column);
        if (column < 0 || !add_extent(&extent, encode->schema.children[column], 1)) return STATUS_DOUBT;
    }
    encode->field_bytes = extent.fields * (int64_t)sizeof(field_t);
    encode->key_bytes = extent.key_bytes;
    encode->row_bytes_guess = extent.fields * (VALUE_BYTES_GUESS + KEY_BYTES_FIXED) + extent.name_bytes;
    encode->fixed_bytes_max = (extent.fields + 1) * VALUE_BYTES_MAX + extent.key_bytes;
    return STATUS_DONE;
}

static void place_fields(json_encode_t *encode) {
    const char *name = (const char *)encode->names;
    int64_t column = -1, count = encode->column_count;
    uint8_t *keys = encode->keys;
    encode->is_placed = 1;
    for (int64_t index = 0; index < encode->column_count; index++, name = next_name(name)) {
        column = find_column(&encode->schema, name, column);
        field_t *field = encode->fields + index;
        const arrow_schema_t *schema = encode->schema.children[column];
        set_field(encode->fields, &count, field, schema, column);
        keys = set_keys(encode->fields, field, schema, index ? ',' : '{', keys);
    }
}

static void release_rows(json_encode_t *encode) {
    if (encode->rows.release) encode->rows.release(&encode->rows);
    encode->rows.release = NULL;
    encode->is_bound = 0;
}

/* Reads the next array of the stream; 0 for doubt. */
static int next_rows(json_encode_t *encode) {
    release_rows(encode);
    arrow_array_t *rows = &encode->rows;
    if (encode->stream->get_next(encode->stream, rows)) {
        rows->release = NULL;
        return 0;
    }
    if (!bind_rows(encode->fields, encode->column_count, rows, encode->row_count - encode->row)) return 0;
    encode->first_row = encode->row;
    encode->is_bound = 1;
    return 1;
}

/* Whether `bytes` fit at `at`; notes how many are missing. */
ALWAYS_INLINE int text_fits(writer_t *writer, const uint8_t *at, int64_t bytes) {
    int64_t missing = bytes - (writer->soft_end - at);
    if (likely(missing <= 0)) return 1;
    writer->missing = missing;
    return 0;
}

ALWAYS_INLINE uint8_t *write_string(writer_t *writer, const field_t *field, int64_t index, uint8_t *at) {
    const uint8_t *view = field->values + index * 16;
    int64_t length = load_uint32(view);
    if (likely(length <= 12)) {
        if (!text_fits(writer, at, 12 * ESCAPED_BYTES_MAX + 2)) return NULL;
        *at = '"';
        at = write_escaped_inline(at + 1, view, length);
    } else {
        const uint8_t *text = view_bytes(field->texts, view);
        /* near the end of the buffer the exact length is counted: six times a long text would grow it far too much */
        if (unlikely(writer->soft_end - at < length * ESCAPED_BYTES_MAX + 2) &&
            !text_fits(writer, at, escaped_length(text, length) + 2))
            return NULL;
        *at = '"';
        at = write_escaped(at + 1, text, length);
    }
    *at = '"';
    return at + 1;
}

static uint8_t *write_binary(writer_t *writer, const field_t *field, int64_t index, uint8_t *at) {
    const uint8_t *view = field->values + index * 16;
    int64_t length = load_uint32(view);
    if (!text_fits(writer, at, base64_length(length) + 2)) return NULL;
    *at = '"';
    at = write_base64(at + 1, view_bytes(field->texts, view), length);
    *at = '"';
    return at + 1;
}

static uint8_t *write_list(writer_t *writer, const field_t *field, int64_t index, uint8_t *at) {
    const field_t *element = writer->encode->fields + field->first_child;
    int64_t begin = int64_at(field, index), end = int64_at(field, index + 1);
    *at++ = '[';
    for (int64_t item = begin; item < end; item++) {
        if (!text_fits(writer, at, 0)) return NULL;
        if (item > begin) *at++ = ',';
        if ((at = write_value(writer, element, item, at)) == NULL) return NULL;
    }
    *at = ']';
    return at + 1;
}

ALWAYS_INLINE uint8_t *write_key(const field_t *field, uint8_t *at) {
    /* a copy of known length is one instruction: keys are padded, and the reserve has room for the padding */
    for (int64_t done = 0; done < field->key_bytes; done += KEY_PADDING)
        memcpy(at + done, field->key + done, KEY_PADDING);
    return at + field->key_bytes;
}

static uint8_t *write_object(writer_t *writer, const field_t *field, int64_t index, uint8_t *at) {
    for (int64_t child = 0; child < field->child_count; child++) {
        const field_t *inner = writer->encode->fields + field->first_child + child;
        at = write_value(writer, inner, index, write_key(inner, at));
        if (at == NULL) return NULL;
    }
    *at = '}';
    return at + 1;
}

ALWAYS_INLINE int64_t floored_milliseconds(int64_t micros) { return micros / 1000 - (micros % 1000 < 0); }

static uint8_t *write_quoted_time(writer_t *writer, const field_t *field, int64_t index, uint8_t *at) {
    *at++ = '"';
    at = field->kind == FIELD_DATE ? write_date(at, int32_at(field, index))
                                   : write_timestamp(at, int64_at(field, index));
    if (unlikely(at == NULL)) {
        writer->missing = 0;
        return NULL;
    }
    *at = '"';
    return at + 1;
}

static uint8_t *write_quoted_decimal(const field_t *field, int64_t index, uint8_t *at) {
    *at = '"';
    at = write_decimal(at + 1, uint128_at(field, index), field->scale);
    *at = '"';
    return at + 1;
}

/* Writes value `index` of a field, counted without the array's offset. Returns NULL if there is no room, or on
 * doubt. */
ALWAYS_INLINE uint8_t *write_field(writer_t *writer, const field_t *field, int64_t index, uint8_t *at) {
    index += field->offset;
    if (field->valid && !bit_at(field->valid, index)) return write_null(at);
    switch (field->kind) {
    case FIELD_BOOL:
        return bit_at(field->values, index) ? write_word(at, "true   ", 4) : write_word(at, "false  ", 5);
    case FIELD_INT32: return write_int64(at, int32_at(field, index));
    case FIELD_INT64: return write_int64(at, int64_at(field, index));
    case FIELD_FLOAT32: return write_float32(at, uint32_at(field, index));
    case FIELD_FLOAT64: return write_float64(at, uint64_at(field, index));
    case FIELD_STRING: return write_string(writer, field, index, at);
    case FIELD_BINARY: return write_binary(writer, field, index, at);
    case FIELD_DECIMAL: return write_quoted_decimal(field, index, at);
    case FIELD_LIST: return write_list(writer, field, index, at);
    case FIELD_STRUCT: return write_object(writer, field, index, at);
    case FIELD_TIMESTAMP:
        if (writer->encode->is_epoch_ms) return write_int64(at, floored_milliseconds(int64_at(field, index)));
        return write_quoted_time(writer, field, index, at);
    default: return write_quoted_time(writer, field, index, at);
    }
}

static uint8_t *write_value(writer_t *writer, const field_t *field, int64_t index, uint8_t *at) {
    return write_field(writer, field, index, at);
}

ALWAYS_INLINE uint8_t *write_row(writer_t *writer, int64_t index, uint8_t *at) {
    const json_encode_t *encode = writer->encode;
    for (int64_t column = 0; column < encode->column_count; column++) {
        const field_t *field = encode->fields + column;
        at = write_field(writer, field, index, write_key(field, at));
        if (unlikely(at == NULL)) return NULL;
    }
    *at = '}';
    return at + 1;
}

EXPORT int64_t headrace_json_write(json_encode_t *encode) {
    if (!encode->is_placed) place_fields(encode);
    int64_t *ends = encode->ends;
    ends[0] = 0;
    for (;;) {
        if (encode->is_bound && encode->row == encode->first_row + encode->rows.length) release_rows(encode);
        if (encode->row == encode->row_count) return STATUS_DONE;
        if (!encode->is_bound && !next_rows(encode)) return STATUS_DOUBT;
        int64_t hidden = encode->rows.offset - encode->first_row, end = encode->first_row + encode->rows.length;
        uint8_t *text = encode->text, *at = text + encode->text_bytes;
        writer_t writer = {encode, text + encode->text_bytes_max - encode->fixed_bytes_max, 0};
        for (int64_t row = encode->row; row < end; row++) {
            uint8_t *next = text_fits(&writer, at, 0) ? write_row(&writer, row + hidden, at) : NULL;
            if (unlikely(next == NULL)) {
                encode->missing = writer.missing + encode->fixed_bytes_max;
                return writer.missing ? STATUS_FULL : STATUS_DOUBT;
            }
            at = next;
            ends[row + 1] = encode->text_bytes = at - text;
            encode->row = row + 1;
        }
    }
}

EXPORT void headrace_json_close(json_encode_t *encode) {
    release_rows(encode);
    if (encode->schema.release) encode->schema.release(&encode->schema);
    encode->schema.release = NULL;
}
