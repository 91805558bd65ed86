/* Avro messages of one writer's schema to columns, by a program that resolution has made.
 *
 * A message is in doubt if the row reader might read it differently or must report a reason: it ends early or goes on
 * behind its record, an integer has more than 64 bits, a value does not fit its column, an instruction is one that only
 * the row reader knows. Text longer than its message comes from the pool, which lies at the begin of table->text. */
#include "decode/avro_bytes.h"
#include "decode/avro_program.h"
#include "decode/decode.h"

/* Returns the next message to read: their count, or the one in front of which table.full has no room. */
EXPORT int64_t headrace_avro_decode(decode_t *decode);

#define DECIMAL_BYTES_MAX 16
#define DECIMAL_DIGITS_MAX 38
#define FLOAT32_INFINITY 0x7f800000U
#define FLOAT32_QUIET 0x00400000U
#define MICROSECOND_NS 1000
#define UUID_BYTES 16
#define UUID_TEXT_BYTES 36

typedef struct {
    span_t span;
    table_t *table;
    const program_t *program;
    int is_constant; /* the span is a default in the pool */
} reader_t;

static int run(reader_t *r, int64_t at, int64_t end);

/* The bytes at the reader's place, which is moved behind them; NULL where the message has fewer. */
ALWAYS_INLINE const uint8_t *take(reader_t *r, int64_t bytes) {
    const uint8_t *at = r->span.at;
    if (unlikely(r->span.end - at < bytes)) return NULL;
    r->span.at = at + bytes;
    return at;
}

ALWAYS_INLINE int put_bytes(reader_t *r, column_t *column, int64_t length) {
    const uint8_t *bytes = take(r, length);
    if (bytes == NULL || !has_room(r->table, column)) return 0;
    if (r->is_constant) {
        put_view(column, bytes, length, bytes - r->table->text);
    } else {
        put_text(r->table, column, bytes, length);
    }
    return 1;
}

ALWAYS_INLINE int put_string(reader_t *r, column_t *column) {
    int64_t length;
    if (!read_length(&r->span, &length) || !is_utf8(r->span.at, r->span.at + length)) return 0;
    return put_bytes(r, column, length);
}

ALWAYS_INLINE int put_integer(reader_t *r, const instruction_t *instruction, column_t *column) {
    int64_t value;
    if (!read_long(&r->span, &value) || !has_room(r->table, column)) return 0;
    if (instruction->count && value != (int32_t)value) return 0;
    switch (instruction->op) {
    case AVRO_INT32: put_int32(column, (int32_t)value); break;
    case AVRO_FLOORED: put_int64(column, value / MICROSECOND_NS - (value % MICROSECOND_NS < 0)); break;
    case AVRO_INTEGER_FLOAT32: put_float32(column, (float)value); break;
    case AVRO_INTEGER_FLOAT64: put_float64(column, (double)value); break;
    default: put_float64(column, (double)(float)value);
    }
    return 1;
}

/* A float32 to a column of its type or of float64. A signalling NaN is doubt: conversions make it a quiet one. */
ALWAYS_INLINE int put_float(reader_t *r, column_t *column, int is_wider) {
    const uint8_t *bytes = take(r, 4);
    float value;
    if (bytes == NULL || !has_room(r->table, column)) return 0;
    uint32_t bits = load_uint32(bytes);
    if (unlikely((bits & 0x7fffffffU) > FLOAT32_INFINITY && !(bits & FLOAT32_QUIET))) return 0;
    memcpy(&value, bytes, sizeof value);
    if (is_wider) {
        put_float64(column, (double)value);
    } else {
        put_float32(column, value);
    }
    return 1;
}

static u128 power_of_ten(int64_t digits) {
    u128 power = 1;
    for (; digits > 0; digits--) power *= 10;
    return power;
}

static int put_decimal(reader_t *r, const instruction_t *instruction, column_t *column) {
    int64_t length = instruction->count, shift = instruction->second, precision = column->parameter;
    if (length < 0 && !read_length(&r->span, &length)) return 0;
    const uint8_t *bytes = take(r, length);
    if (bytes == NULL || length < 1 || length > DECIMAL_BYTES_MAX || !has_room(r->table, column)) return 0;
    u128 value = bytes[0] & 0x80 ? ~(u128)0 : 0;
    for (int64_t index = 0; index < length; index++) value = value << 8 | bytes[index];
    int is_negative = (int)(value >> 127);
    if (is_negative) value = 0 - value;
    if (instruction->first <= DECIMAL_DIGITS_MAX && value >= power_of_ten(instruction->first)) return 0;
    if (shift < 0) {
        /* a power of more digits is not computed, and only the row reader needs it */
        if (shift < -DECIMAL_DIGITS_MAX) return 0;
        u128 power = power_of_ten(-shift);
        if (value % power) return 0;
        value /= power;
        shift = 0;
    }
    if (value && (shift > precision || value >= power_of_ten(precision - shift))) return 0;
    if (value) value *= power_of_ten(shift);
    put_int128(column, is_negative ? 0 - value : value);
    return 1;
}

/* A default has no message whose length bounds its text, so that one is left to the row reader. */
static int put_uuid(reader_t *r, column_t *column) {
    static const char digits[] = "0123456789abcdef";
    const uint8_t *bytes = take(r, UUID_BYTES);
    if (bytes == NULL || r->is_constant || !has_room(r->table, column)) return 0;
    uint8_t *text = r->table->text + r->table->text_bytes;
    for (int index = 0; index < UUID_BYTES; index++) {
        if (index == 4 || index == 6 || index == 8 || index == 10) *text++ = '-';
        *text++ = (uint8_t)digits[bytes[index] >> 4];
        *text++ = (uint8_t)digits[bytes[index] & 15];
    }
    put_written(r->table, column, UUID_TEXT_BYTES);
    return 1;
}

static int put_duration(reader_t *r, column_t *column) {
    const uint8_t *bytes = take(r, 12);
    if (bytes == NULL || !has_room(r->table, column)) return 0;
    for (int64_t part = 0; part < 3; part++) {
        column_t *child = r->table->columns + column->first_child + part;
        if (!has_room(r->table, child)) return 0;
        put_int64(child, load_uint32(bytes + part * 4));
    }
    column->valid[column->rows++] = 1;
    return 1;
}

static int put_symbol(reader_t *r, const instruction_t *instruction, column_t *column) {
    int64_t index;
    if (!read_long(&r->span, &index) || index < 0 || index >= instruction->count) return 0;
    symbol_t symbol = r->program->symbols[instruction->first + index];
    if (symbol.length < 0 || !has_room(r->table, column)) return 0;
    put_view(column, r->table->text + symbol.begin, symbol.length, symbol.begin);
    return 1;
}

static int read_array(reader_t *r, int64_t at, const instruction_t *instruction) {
    int64_t items;
    for (;;) {
        if (!read_block(&r->span, &items)) return 0;
        if (items == 0) break;
        for (; items > 0; items--)
            if (!run(r, at + 1, instruction->jump)) return 0;
    }
    if (instruction->column < 0) return 1;
    column_t *column = r->table->columns + instruction->column;
    if (!has_room(r->table, column)) return 0;
    list_ends(column)[column->rows + 1] = r->table->columns[column->first_child].rows;
    column->valid[column->rows++] = 1;
    return 1;
}

static int read_union(reader_t *r, int64_t at, const instruction_t *instruction) {
    const instruction_t *code = r->program->instructions;
    int64_t index, branch = at + 1;
    if (!read_long(&r->span, &index) || index < 0 || index >= instruction->count) return 0;
    for (; index > 0; index--) branch = code[branch].jump;
    return run(r, branch + 1, code[branch].jump);
}

static int read_constant(reader_t *r, int64_t at, const instruction_t *instruction) {
    reader_t inner = *r;
    inner.span.at = r->table->text + instruction->first;
    inner.span.end = inner.span.at + instruction->count;
    inner.is_constant = 1;
    return run(&inner, at + 1, instruction->jump);
}

/* Whether the union of null and another type at `instruction` is null; -1 for doubt. */
ALWAYS_INLINE int read_is_null(span_t *span, const instruction_t *instruction) {
    int64_t index;
    if (!read_long(span, &index) || index < 0 || index > 1) return -1;
    return index == instruction->first;
}

/* A value that needs no further instruction, other than those that `run` reads itself. */
static int read_leaf(reader_t *r, const instruction_t *instruction, column_t *column) {
    int64_t value;
    const uint8_t *bytes;
    switch (instruction->op) {
    case AVRO_INT32: case AVRO_FLOORED: case AVRO_INTEGER_FLOAT32: case AVRO_INTEGER_FLOAT64:
    case AVRO_INTEGER_FLOAT32_FLOAT64: return put_integer(r, instruction, column);
    case AVRO_STRING: return put_string(r, column);
    case AVRO_BINARY: return read_length(&r->span, &value) && put_bytes(r, column, value);
    case AVRO_FIXED: return put_bytes(r, column, instruction->count);
    case AVRO_BOOL:
        if ((bytes = take(r, 1)) == NULL || *bytes > 1 || !has_room(r->table, column)) return 0;
        put_byte(column, *bytes);
        return 1;
    case AVRO_FLOAT32: return put_float(r, column, 0);
    case AVRO_FLOAT32_FLOAT64: return put_float(r, column, 1);
    case AVRO_ENUM: return put_symbol(r, instruction, column);
    case AVRO_DECIMAL: return put_decimal(r, instruction, column);
    case AVRO_UUID: return put_uuid(r, column);
    case AVRO_DURATION: return put_duration(r, column);
    case AVRO_SKIP_INTEGER: return read_long(&r->span, &value);
    case AVRO_SKIP_BINARY: return read_length(&r->span, &value) && take(r, value) != NULL;
    case AVRO_SKIP_FIXED: return take(r, instruction->count) != NULL;
    case AVRO_NULL: return put_null(r->table, column);
    default: return 0;
    }
}

/* An integer of the most common forms to a column that has room. */
ALWAYS_INLINE int read_int64(span_t *span, const instruction_t *instruction, table_t *table, column_t *column) {
    int64_t value;
    if (!read_long(span, &value) || !has_room(table, column)) return 0;
    if (instruction->count && value != (int32_t)value) return 0;
    if (instruction->op == AVRO_SCALED && __builtin_mul_overflow(value, instruction->first, &value)) return 0;
    put_int64(column, value);
    return 1;
}

/* Runs the instructions from `at` on, up to `end`. */
static int run(reader_t *r, int64_t at, int64_t end) {
    const instruction_t *code = r->program->instructions;
    table_t *table = r->table;
    column_t *columns = table->columns;
    span_t span = r->span; /* in registers for the most common instructions; others find it in *r */
    while (at < end) {
        const instruction_t *instruction = code + at;
        column_t *column = columns + (instruction->column < 0 ? 0 : instruction->column); /* or the row, untouched */
        int is_sure;
        switch (instruction->op) {
        case AVRO_INT64: case AVRO_SCALED:
            if (unlikely(!read_int64(&span, instruction, table, column))) return 0;
            at++;
            continue;
        case AVRO_FLOAT64:
            if (unlikely(span.end - span.at < 8 || !has_room(table, column))) return 0;
            put_int64(column, (int64_t)load_word(span.at));
            span.at += 8;
            at++;
            continue;
        case AVRO_NULLABLE: {
            int is_null = read_is_null(&span, instruction);
            if (is_null < 0) return 0;
            at++;
            if (!is_null) continue;
            if (instruction->second >= 0 || !put_null(table, column)) return 0;
            at = instruction->jump;
            continue;
        }
        case AVRO_RECORD: case AVRO_BRANCH_OF:
            at++;
            if (instruction->column < 0) continue;
            if (!has_room(table, column)) return 0;
            column->valid[column->rows++] = 1;
            continue;
        default:;
        }
        r->span = span;
        switch (instruction->op) {
        case AVRO_ARRAY: is_sure = read_array(r, at, instruction); break;
        case AVRO_UNION: is_sure = read_union(r, at, instruction); break;
        case AVRO_CONSTANT: is_sure = read_constant(r, at, instruction); break;
        default: is_sure = read_leaf(r, instruction, column);
        }
        if (!is_sure) return 0;
        span = r->span;
        at = instruction->jump ? instruction->jump : at + 1;
    }
    r->span = span;
    return 1;
}

EXPORT int64_t headrace_avro_decode(decode_t *decode) {
    messages_t messages = decode->messages;
    table_t *table = &decode->table;
    const program_t *program = decode->program;
    int64_t message = decode->message;
    for (; message < messages.count; message++) {
        const uint8_t *at = messages.data + message_offset(&messages, message);
        const uint8_t *end = messages.data + message_offset(&messages, message + 1);
        int64_t text_bytes = table->text_bytes;
        reader_t reader = {{at, end}, table, program, 0};
        int is_sure = run(&reader, 0, program->instruction_count) && reader.span.at == end;
        if (!end_message(decode, message, is_sure, text_bytes)) break;
    }
    return end_messages(decode, message);
}
