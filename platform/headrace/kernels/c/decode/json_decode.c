/* JSON messages of one schema to columns.
 *
 * Each message is one object. The search for a field begins at the next field of the schema, because most producers
 * write fields in that order. The kernel accepts a message only if it has checked every byte; it checks unknown fields
 * before it skips them. A message is in doubt if the row reader might read it differently or must report a reason: a
 * repeated field, a missing field that is not nullable, a key with an escape, a value of another type or out of range.
 * The row of such a message is removed, and the message is marked. */
#include "decode/decode.h"
#include "decode/json_text.h"
#include "text/base64.h"
#include "text/number.h"
#include "text/text_values.h"

/* Returns the next message to read: their count, or the one in front of which table.full has no room. */
EXPORT int64_t headrace_json_decode(decode_t *decode);

static const uint8_t *read_value(table_t *table, column_t *column, const uint8_t *at, const uint8_t *end);

/* Reads a string after its opening quote: the text in place, or with its escapes resolved in `table->text`. */
ALWAYS_INLINE const uint8_t *read_string(table_t *table, column_t *column, const uint8_t *at, const uint8_t *end) {
    const uint8_t *first = at;
    if ((at = run_end(at, end)) == NULL) return NULL;
    uint8_t *text = table->text + table->text_bytes;
    /* all strings of a batch are no longer than its messages, so `text` has room for what is between the quotes */
    if (likely(*at == '"')) {
        put_text(table, column, first, at - first);
        return at + 1;
    }
    uint8_t *out = text;
    for (;;) {
        memcpy(out, first, (size_t)(at - first));
        out += at - first;
        if (*at == '"') break;
        uint32_t character;
        if ((first = read_escape(at, end, &character)) == NULL) return NULL;
        out += utf8_write(character, out);
        if ((at = run_end(first, end)) == NULL) return NULL;
    }
    put_written(table, column, out - text);
    return at + 1;
}

/* The text between two quotes that holds no escapes: sets *length; returns behind the closing one. */
ALWAYS_INLINE const uint8_t *plain_text(const uint8_t *at, const uint8_t *end, int64_t *length) {
    const uint8_t *close = plain_end(at, end);
    if (close >= end || *close != '"') return NULL;
    *length = close - at;
    return close + 1;
}

static const uint8_t *read_binary(table_t *table, column_t *column, const uint8_t *at, const uint8_t *end) {
    int64_t length;
    const uint8_t *next = *at == '"' ? plain_text(at + 1, end, &length) : NULL;
    if (next == NULL) return NULL;
    int64_t decoded = read_base64(at + 1, length, table->text + table->text_bytes);
    if (decoded < 0) return NULL;
    put_written(table, column, decoded);
    return next;
}

static const uint8_t *read_date_value(column_t *column, const uint8_t *at, const uint8_t *end) {
    int64_t length, days;
    const uint8_t *next = *at == '"' ? plain_text(at + 1, end, &length) : NULL;
    if (next == NULL || length != 10 || !read_date(at + 1, &days)) return NULL;
    put_int32(column, (int32_t)days);
    return next;
}

ALWAYS_INLINE const uint8_t *read_timestamp_value(column_t *column, const uint8_t *at, const uint8_t *end) {
    int64_t micros;
    const uint8_t *next;
    if (*at == '"') {
        int64_t length;
        next = plain_text(at + 1, end, &length);
        if (next == NULL || !read_timestamp(at + 1, length, &micros)) return NULL;
    } else {
        number_t number;
        next = read_number(at, end, &number);
        if (next == NULL || !number_to_int64(&number, &micros)) return NULL;
        if (__builtin_mul_overflow(micros, column->parameter, &micros)) return NULL;
    }
    put_int64(column, micros);
    return next;
}

static const uint8_t *read_decimal_value(column_t *column, const uint8_t *at, const uint8_t *end) {
    const uint8_t *text = at, *next;
    int64_t length;
    u128 value;
    if (*at == '"') {
        text = at + 1;
        if ((next = plain_text(text, end, &length)) == NULL) return NULL;
        at = next - 1;
    } else {
        if ((next = skip_number(at, end)) == NULL) return NULL;
        at = next;
    }
    if (!read_decimal(text, at, column->parameter, column->scale, &value)) return NULL;
    put_int128(column, value);
    return next;
}

ALWAYS_INLINE const uint8_t *read_integer(column_t *column, const uint8_t *at, const uint8_t *end) {
    number_t number;
    int64_t value;
    at = read_number(at, end, &number);
    if (at == NULL || !number_to_int64(&number, &value)) return NULL;
    if (column->kind == KIND_INT64) {
        put_int64(column, value);
        return at;
    }
    if (value < INT32_MIN || value > INT32_MAX) return NULL;
    put_int32(column, (int32_t)value);
    return at;
}

ALWAYS_INLINE const uint8_t *read_float(column_t *column, const uint8_t *at, const uint8_t *end) {
    number_t number;
    double value;
    at = read_number(at, end, &number);
    if (at == NULL || !number_to_float64(&number, &value)) return NULL;
    if (column->kind == KIND_FLOAT64) {
        put_float64(column, value);
        return at;
    }
    if (value >= FLOAT32_LIMIT || value <= -FLOAT32_LIMIT) return NULL;
    put_float32(column, (float)value);
    return at;
}

static const uint8_t *read_bool(column_t *column, const uint8_t *at, const uint8_t *end) {
    int is_true = *at == 't';
    at = is_true ? skip_literal(at, end, "true", 4) : skip_literal(at, end, "false", 5);
    if (at != NULL) put_byte(column, (uint8_t)is_true);
    return at;
}

static const uint8_t *read_list(table_t *table, column_t *column, const uint8_t *at, const uint8_t *end) {
    column_t *child = table->columns + column->first_child;
    if (*at != '[') return NULL;
    at = skip_blanks(at + 1, end);
    if (at < end && *at == ']') {
        at++;
    } else {
        for (;;) {
            if (at >= end || (at = read_value(table, child, at, end)) == NULL) return NULL;
            at = skip_blanks(at, end);
            if (at >= end) return NULL;
            if (*at == ']') break;
            if (*at != ',') return NULL;
            at = skip_blanks(at + 1, end);
        }
        at++;
    }
    list_ends(column)[column->rows + 1] = child->rows;
    column->valid[column->rows++] = 1;
    return at;
}

ALWAYS_INLINE int is_key(const column_t *column, const uint8_t *at, const uint8_t *end) {
    return end - at >= column->name_bytes && memcmp(at, column->name, (size_t)column->name_bytes) == 0;
}

/* The field of the key at `at`, and in *next what is behind the key. NULL with *next: none of that name. The search
 * starts at `expected`: a producer that leaves fields out still keeps the order of the others. */
static inline column_t *find_field(column_t *fields, int64_t count, int64_t expected, const uint8_t *at,
                                   const uint8_t *end, const uint8_t **next) {
    const uint8_t *close = *at == '"' ? run_end(at + 1, end) : NULL;
    *next = close == NULL || *close != '"' ? NULL : close + 1;
    if (*next == NULL) return NULL;
    int64_t length = *next - at;
    for (int64_t step = 0; step < count; step++) {
        int64_t index = expected + step < count ? expected + step : expected + step - count;
        if (fields[index].name_bytes == length && memcmp(at, fields[index].name, (size_t)length) == 0)
            return fields + index;
    }
    return NULL;
}

/* The object at `at` as row `row` of the children of `parent`. */
static const uint8_t *read_object(table_t *table, const column_t *parent, int64_t row, const uint8_t *at,
                                  const uint8_t *end) {
    column_t *fields = table->columns + parent->first_child;
    int64_t count = parent->child_count, expected = 0, found = 0;
    if (at >= end || *at != '{') return NULL;
    at = skip_blanks(at + 1, end);
    if (at < end && *at == '}') {
        at++;
    } else {
        for (;;) {
            if (at >= end) return NULL;
            column_t *field;
            if (likely(expected < count && is_key(fields + expected, at, end))) {
                field = fields + expected;
                at += field->name_bytes;
            } else {
                field = find_field(fields, count, expected, at, end, &at);
                if (at == NULL) return NULL;
            }
            at = skip_blanks(at, end);
            if (at >= end || *at != ':') return NULL;
            at = skip_blanks(at + 1, end);
            if (at >= end) return NULL;
            if (field == NULL) {
                at = skip_value(at, end);
            } else {
                if (field->rows != row) return NULL; /* twice: the row reader knows which one holds */
                at = read_value(table, field, at, end);
                expected = field - fields + 1;
                found++;
            }
            if (at == NULL) return NULL;
            at = skip_blanks(at, end);
            if (at >= end) return NULL;
            if (*at == '}') break;
            if (*at != ',') return NULL;
            at = skip_blanks(at + 1, end);
        }
        at++;
    }
    if (likely(found == count)) return at;
    for (int64_t index = 0; index < count; index++)
        if (fields[index].rows == row && (!fields[index].is_nullable || !put_null(table, fields + index))) return NULL;
    return at;
}

static const uint8_t *read_struct(table_t *table, column_t *column, const uint8_t *at, const uint8_t *end) {
    at = read_object(table, column, column->rows, at, end);
    if (at != NULL) column->valid[column->rows++] = 1;
    return at;
}

static const uint8_t *read_value(table_t *table, column_t *column, const uint8_t *at, const uint8_t *end) {
    if (unlikely(!has_room(table, column))) return NULL;
    if (unlikely(*at == 'n')) {
        at = skip_literal(at, end, "null", 4);
        return at != NULL && column->is_nullable && put_null(table, column) ? at : NULL;
    }
    switch (column->kind) {
    case KIND_INT32: case KIND_INT64: return read_integer(column, at, end);
    case KIND_FLOAT32: case KIND_FLOAT64: return read_float(column, at, end);
    case KIND_STRING: return *at == '"' ? read_string(table, column, at + 1, end) : NULL;
    case KIND_TIMESTAMP: return read_timestamp_value(column, at, end);
    case KIND_BOOL: return read_bool(column, at, end);
    case KIND_BINARY: return read_binary(table, column, at, end);
    case KIND_DATE: return read_date_value(column, at, end);
    case KIND_DECIMAL: return read_decimal_value(column, at, end);
    case KIND_LIST: return read_list(table, column, at, end);
    case KIND_STRUCT: return read_struct(table, column, at, end);
    default: return NULL;
    }
}

EXPORT int64_t headrace_json_decode(decode_t *decode) {
    messages_t messages = decode->messages;
    table_t *table = &decode->table;
    column_t *row = table->columns;
    int64_t message = decode->message;
    for (; message < messages.count; message++) {
        const uint8_t *at = messages.data + message_offset(&messages, message);
        const uint8_t *end = messages.data + message_offset(&messages, message + 1);
        int64_t text_bytes = table->text_bytes;
        at = read_object(table, row, row->rows, skip_blanks(at, end), end);
        int is_sure = at != NULL && skip_blanks(at, end) == end;
        if (!end_message(decode, message, is_sure, text_bytes)) break;
    }
    return end_messages(decode, message);
}
