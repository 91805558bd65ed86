/* Lines of CSV to columns: one message is one line, with or without a line break at its end.
 *
 * A field that begins with a quote ends at the next quote; a doubled quote makes the line doubt. Other fields end at
 * the next delimiter. A line is also doubt if it is not UTF-8, contains a NUL, has another number of fields, or a
 * field does not parse as its type; special floats like nan do not. */
#include "decode/decode.h"
#include "text/base64.h"
#include "text/number.h"
#include "text/text_values.h"
#include "text/utf8.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define INTEGER_BYTES_MAX 40 /* longer ones are bad to the row reader, zeros in front counted */

typedef struct {
    int64_t delimiter, quote;   /* ASCII */
    const uint8_t *null;        /* the text of NULL, unquoted */
    int64_t null_bytes;
    int64_t field_count;        /* of a line */
    const int64_t *columns;     /* of each field: its column, or -1 */
} csv_t;

/* Returns the next message to read: their count, or the one in front of which table.full has no room. */
EXPORT int64_t headrace_csv_decode(decode_t *decode, const csv_t *csv);

/* Returns the end of a field without quotes: a delimiter or the line's end; NULL for doubt. Checks UTF-8. */
ALWAYS_INLINE const uint8_t *field_end(const uint8_t *at, const uint8_t *end, uint8_t delimiter) {
    for (;;) {
#ifdef __SSE2__
        while (end - at >= 16) {
            __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
            __m128i breaks = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\n')),
                                          _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\r')));
            /* as signed numbers, NUL and bytes beyond ASCII are both below 1 */
            __m128i special = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8((char)delimiter)),
                                           _mm_or_si128(breaks, _mm_cmplt_epi8(bytes, _mm_set1_epi8(1))));
            unsigned found = (unsigned)_mm_movemask_epi8(special);
            if (found) {
                at += __builtin_ctz(found);
                break;
            }
            at += 16;
        }
#endif
        while (at < end && *at != delimiter && *at != '\n' && *at != '\r' && *at > 0 && *at < 0x80) at++;
        if (at == end || *at == delimiter) return at;
        int64_t length = *at < 0x80 ? 0 : utf8_length(at, end);
        if (length == 0) return NULL;
        at += length;
    }
}

/* The closing quote of a field that opens in front of `at`; NULL for doubt. */
static const uint8_t *quoted_end(const uint8_t *at, const uint8_t *end, uint8_t quote) {
    while (at < end && *at != quote) {
        int64_t length = *at >= 0x80 ? utf8_length(at, end) : *at != 0;
        if (length == 0) return NULL;
        at += length;
    }
    return at < end && (at + 1 == end || at[1] != quote) ? at : NULL;
}

static int read_integer(const uint8_t *at, const uint8_t *end, int64_t *value) {
    number_t number = {0, 0, 0, 1};
    number.is_negative = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+')) at++;
    const uint8_t *first = at;
    at = read_digits(at, end, &number.digits);
    if (at == first || at != end || at - first > INTEGER_BYTES_MAX) return 0;
    if (at - first > DIGITS_MAX && !digits_fit(first, at)) return 0;
    /* int has one zero */
    if (number.digits == 0) number.is_negative = 0;
    return number_to_int64(&number, value);
}

static int read_float(const uint8_t *at, const uint8_t *end, double *value) {
    number_t number = {0, 0, 0, 0};
    number.is_negative = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+')) at++;
    const uint8_t *first = at;
    at = read_digits(at, end, &number.digits);
    int64_t count = at - first;
    if (at < end && *at == '.') {
        const uint8_t *point = ++at;
        at = read_digits(at, end, &number.digits);
        number.exponent = point - at;
        count -= number.exponent;
    }
    if (count == 0 || (count > DIGITS_MAX && !digits_fit(first, at))) return 0;
    if (at < end && (*at | 0x20) == 'e' && (at = read_exponent(at, end, &number.exponent)) == NULL) return 0;
    return at == end && number_to_float64(&number, value);
}

static int read_bool(const uint8_t *text, int64_t length, uint8_t *value) {
    *value = length == 4;
    return length == 4 ? memcmp(text, "true", 4) == 0 : length == 5 && memcmp(text, "false", 5) == 0;
}

static int read_time(const column_t *column, const uint8_t *text, int64_t length, int64_t *micros) {
    if (read_timestamp(text, length, micros)) return 1;
    return read_integer(text, text + length, micros) && !__builtin_mul_overflow(*micros, column->parameter, micros);
}

/* Appends a field that is not NULL to its column; 0 for doubt. */
ALWAYS_INLINE int put_field(table_t *table, column_t *column, const uint8_t *text, int64_t length) {
    const uint8_t *end = text + length;
    int64_t integer;
    double real;
    uint8_t flag;
    u128 decimal;
    switch (column->kind) {
    case KIND_STRING:
        put_text(table, column, text, length);
        return 1;
    case KIND_INT32:
        if (!read_integer(text, end, &integer) || integer < INT32_MIN || integer > INT32_MAX) return 0;
        put_int32(column, (int32_t)integer);
        return 1;
    case KIND_INT64:
        if (!read_integer(text, end, &integer)) return 0;
        put_int64(column, integer);
        return 1;
    case KIND_FLOAT32:
        if (!read_float(text, end, &real) || real >= FLOAT32_LIMIT || real <= -FLOAT32_LIMIT) return 0;
        put_float32(column, (float)real);
        return 1;
    case KIND_FLOAT64:
        if (!read_float(text, end, &real)) return 0;
        put_float64(column, real);
        return 1;
    case KIND_BOOL:
        if (!read_bool(text, length, &flag)) return 0;
        put_byte(column, flag);
        return 1;
    case KIND_DATE:
        if (length != 10 || !read_date(text, &integer)) return 0;
        put_int32(column, (int32_t)integer);
        return 1;
    case KIND_TIMESTAMP:
        if (!read_time(column, text, length, &integer)) return 0;
        put_int64(column, integer);
        return 1;
    case KIND_DECIMAL:
        if (!read_decimal(text, end, column->parameter, column->scale, &decimal)) return 0;
        put_int128(column, decimal);
        return 1;
    case KIND_BINARY:
        if ((integer = read_base64(text, length, table->text + table->text_bytes)) < 0) return 0;
        put_written(table, column, integer);
        return 1;
    default:
        return 0;
    }
}

ALWAYS_INLINE const uint8_t *without_line_break(const uint8_t *first, const uint8_t *end) {
    if (end > first && end[-1] == '\n') end--;
    if (end > first && end[-1] == '\r') end--;
    return end;
}

/* The line [at, end) as one row; 0 for doubt. */
static int read_line(table_t *table, const csv_t *csv, const uint8_t *at, const uint8_t *end) {
    uint8_t delimiter = (uint8_t)csv->delimiter, quote = (uint8_t)csv->quote;
    for (int64_t field = 0; field < csv->field_count; field++) {
        if (field) {
            if (at == end || *at != delimiter) return 0;
            at++;
        }
        int is_quoted = at < end && *at == quote;
        const uint8_t *text = at + is_quoted;
        const uint8_t *text_end = is_quoted ? quoted_end(text, end, quote) : field_end(text, end, delimiter);
        if (text_end == NULL) return 0;
        at = text_end + is_quoted;
        if (csv->columns[field] < 0) continue;
        column_t *column = table->columns + csv->columns[field];
        int64_t length = text_end - text;
        int is_null = !is_quoted && length == csv->null_bytes && memcmp(text, csv->null, (size_t)length) == 0;
        if (is_null ? !column->is_nullable || !put_null(table, column) : !put_field(table, column, text, length))
            return 0;
    }
    return at == end;
}

/* Appends NULL to the columns that no field of the line belongs to. */
static int put_missing(table_t *table) {
    const column_t *row = table->columns;
    column_t *columns = table->columns + row->first_child;
    for (int64_t index = 0; index < row->child_count; index++)
        if (columns[index].rows == row->rows && (!columns[index].is_nullable || !put_null(table, columns + index)))
            return 0;
    return 1;
}

EXPORT int64_t headrace_csv_decode(decode_t *decode, const csv_t *csv) {
    messages_t messages = decode->messages;
    int64_t message = decode->message;
    for (; message < messages.count; message++) {
        const uint8_t *at = messages.data + message_offset(&messages, message);
        const uint8_t *end = without_line_break(at, messages.data + message_offset(&messages, message + 1));
        int64_t text_bytes = decode->table.text_bytes;
        int is_sure = read_line(&decode->table, csv, at, end) && put_missing(&decode->table);
        if (!end_message(decode, message, is_sure, text_bytes)) break;
    }
    return end_messages(decode, message);
}
