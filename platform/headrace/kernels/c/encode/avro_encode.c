/* Rows of columns to Avro messages, by a program that was made for the writer's schema and the columns.
 *
 * The caller owns the Arrow stream of the columns, whose values are read in place. `encode` writes rows until the text
 * is full; then the caller continues with a larger one. `close` releases the arrays and the schema that the stream
 * returned. Columns of another type and a row that does not fit the schema are doubt: the row writer then encodes all
 * rows, or reports the reason. */
#include "avro_instruction.h"
#include "encode/fields.h"

enum put {
    PUT_CONSTANT,
    PUT_REQUIRED,
    PUT_NULLABLE,
    PUT_RECORD,
    PUT_ARRAY,
    PUT_UNION,
    PUT_BRANCH,
    PUT_INT,
    PUT_LONG,
    PUT_FLOORED,
    PUT_MULTIPLIED,
    PUT_FLOAT,
    PUT_FLOAT_DOUBLE,
    PUT_DOUBLE,
    PUT_BOOL,
    PUT_TEXT,
    PUT_FIXED,
    PUT_ENUM,
    PUT_DECIMAL
};

enum status {
    STATUS_DONE,
    STATUS_FULL,  /* text_bytes_max has to grow by `missing` bytes or more */
    STATUS_DOUBT
};

#define VARINT_BYTES_MAX 10
#define HIGH_BITS 0x8080808080808080U
#define MILLISECOND_US 1000
#define FIELD_BYTES 88 /* that the caller reserves for a field */
#define DECIMAL_BYTES 16

typedef struct {
    arrow_stream_t *stream;
    const instruction_t *instructions;
    int64_t instruction_count;
    const uint8_t *pool;
    const symbol_t *symbols;
    const int64_t *kinds;    /* that the fields have to have */
    int64_t field_count;
    int64_t column_count;
    int64_t row_count;       /* of the stream */
    int64_t fixed_bytes_max; /* of all instructions, once each, without texts; `text` is never shorter */
    /* memory of the caller */
    field_t *fields;
    int64_t *ends;           /* row_count + 1 of them */
    uint8_t *text;
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
} avro_encode_t;

_Static_assert(sizeof(field_t) == FIELD_BYTES, "fields fit");

/* As in json_encode.c: the `fixed_bytes_max` bytes behind `soft_end` are room for what has a known size, because `at` is
 * at `soft_end` or before it at the start of a row and of an item, and behind a text. */
typedef struct {
    const avro_encode_t *encode;
    uint8_t *soft_end;
    int64_t missing;         /* 0 with doubt */
} writer_t;

/* Returns STATUS_DONE when all rows are written. */
EXPORT int64_t headrace_avro_encode(avro_encode_t *encode);

/* Must be called once after `encode`, whatever it returned. */
EXPORT void headrace_avro_close(avro_encode_t *encode);

static uint8_t *run(writer_t *writer, uint8_t *at, int64_t from, int64_t end, int64_t row);

/* Whether `bytes` fit at `at`; notes how many are missing. */
ALWAYS_INLINE int text_fits(writer_t *writer, const uint8_t *at, int64_t bytes) {
    int64_t missing = bytes - (writer->soft_end - at);
    if (likely(missing <= 0)) return 1;
    writer->missing = missing;
    return 0;
}

/* Touches VARINT_BYTES_MAX bytes. Numbers of up to 56 bits are spread over a word: seven bits a byte, all at once. */
ALWAYS_INLINE uint8_t *write_long(uint8_t *at, int64_t value) {
    uint64_t rest = (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
    if (likely(rest < 0x80)) {
        *at = (uint8_t)rest;
        return at + 1;
    }
    if (likely(rest < (uint64_t)1 << 56)) {
        int more = (63 - __builtin_clzll(rest)) / 7; /* bytes that another one follows */
        uint64_t word = (rest & 0x000000000fffffffU) | (rest & 0x00fffffff0000000U) << 4;
        word = (word & 0x00003fff00003fffU) | (word & 0x0fffc0000fffc000U) << 2;
        word = (word & 0x007f007f007f007fU) | (word & 0x3f803f803f803f80U) << 1;
        store_word(at, word | (HIGH_BITS & (((uint64_t)1 << (more * 8)) - 1)));
        return at + more + 1;
    }
    for (; rest > 0x7f; rest >>= 7) *at++ = (uint8_t)(rest | 0x80);
    *at = (uint8_t)rest;
    return at + 1;
}

ALWAYS_INLINE int is_null(const field_t *field, int64_t index) {
    return field->valid != NULL && !bit_at(field->valid, index);
}

static uint8_t *write_text(writer_t *writer, const field_t *field, int64_t index, uint8_t *at) {
    const uint8_t *view = field->values + index * 16;
    int64_t length = load_uint32(view);
    if (!text_fits(writer, at, length + VARINT_BYTES_MAX)) return NULL;
    at = write_long(at, length);
    memcpy(at, view_bytes(field->texts, view), (size_t)length);
    return at + length;
}

static uint8_t *write_fixed(const field_t *field, int64_t index, int64_t size, uint8_t *at) {
    const uint8_t *view = field->values + index * 16;
    if (load_uint32(view) != size) return NULL;
    memcpy(at, view_bytes(field->texts, view), (size_t)size);
    return at + size;
}

static uint8_t *write_symbol(const writer_t *writer, const instruction_t *instruction, const field_t *field,
                             int64_t index, uint8_t *at) {
    const uint8_t *view = field->values + index * 16, *text = view_bytes(field->texts, view);
    const symbol_t *symbols = writer->encode->symbols + instruction->first;
    int64_t length = load_uint32(view);
    for (int64_t place = 0; place < instruction->count; place++)
        if (symbols[place].length == length &&
            memcmp(writer->encode->pool + symbols[place].begin, text, (size_t)length) == 0)
            return write_long(at, place);
    return NULL;
}

/* Two's complement, big-endian: in as few bytes as hold it, or in all bytes of a fixed. */
static uint8_t *write_decimal(const instruction_t *instruction, u128 value, uint8_t *at) {
    int is_negative = (int)(value >> 127);
    u128 bits = is_negative ? ~value : value, limit = 1;
    for (int64_t digits = instruction->first; digits > 0; digits--) limit *= 10;
    if (instruction->first && (is_negative ? 0 - value : value) >= limit) return NULL;
    int64_t length = 1, size = instruction->count;
    while (length < DECIMAL_BYTES && bits >> (length * 8 - 1)) length++;
    if (size < 0) {
        at = write_long(at, length);
    } else if (length > size) {
        return NULL;
    } else {
        for (; size > length; size--) *at++ = is_negative ? 0xff : 0;
    }
    for (; length > 0; length--) *at++ = (uint8_t)(value >> ((length - 1) * 8));
    return at;
}

static uint8_t *write_array(writer_t *writer, int64_t place, const field_t *field, int64_t index, uint8_t *at) {
    const instruction_t *instruction = writer->encode->instructions + place;
    int64_t begin = int64_at(field, index), end = int64_at(field, index + 1);
    if (end > begin) at = write_long(at, end - begin);
    for (int64_t item = begin; item < end; item++) {
        if (!text_fits(writer, at, 0)) return NULL;
        if ((at = run(writer, at, place + 1, instruction->jump, item)) == NULL) return NULL;
    }
    if (!text_fits(writer, at, 0)) return NULL;
    *at = 0;
    return at + 1;
}

/* The branch that is set, of a struct of branches; another number of them is doubt. */
static uint8_t *write_union(writer_t *writer, int64_t place, const field_t *field, int64_t index, uint8_t *at) {
    const avro_encode_t *encode = writer->encode;
    const instruction_t *code = encode->instructions;
    int64_t set = -1, branch = place + 1;
    if (is_null(field, index)) return code[place].first < 0 ? NULL : write_long(at, code[place].first);
    for (int64_t left = code[place].count; left > 0; left--, branch = code[branch].jump) {
        const field_t *child = encode->fields + code[branch].column;
        if (is_null(child, index + child->offset)) continue;
        if (set >= 0) return NULL;
        set = branch;
    }
    if (set < 0) return NULL;
    return run(writer, write_long(at, code[set].first), set + 1, code[set].jump, index);
}

/* Less common values without a body. */
static uint8_t *write_other(writer_t *writer, const instruction_t *instruction, const field_t *field, int64_t index,
                            uint8_t *at) {
    int64_t value;
    switch (instruction->op) {
    case PUT_MULTIPLIED:
        if (__builtin_mul_overflow(int64_at(field, index), instruction->first, &value)) return NULL;
        return write_long(at, value);
    case PUT_FLOAT: memcpy(at, field->values + index * 4, 4); return at + 4;
    case PUT_FLOAT_DOUBLE: {
        float narrow;
        memcpy(&narrow, field->values + index * 4, sizeof narrow);
        double wide = (double)narrow;
        memcpy(at, &wide, sizeof wide);
        return at + sizeof wide;
    }
    case PUT_BOOL: *at = (uint8_t)bit_at(field->values, index); return at + 1;
    case PUT_FIXED: return write_fixed(field, index, instruction->count, at);
    case PUT_ENUM: return write_symbol(writer, instruction, field, index, at);
    case PUT_DECIMAL: return write_decimal(instruction, uint128_at(field, index), at);
    default: return NULL;
    }
}

/* Runs the instructions from `from` on, up to `end`, for row `row`, counted without the offsets of arrays. */
static uint8_t *run(writer_t *writer, uint8_t *at, int64_t from, int64_t end, int64_t row) {
    const avro_encode_t *encode = writer->encode;
    for (int64_t place = from; place < end;) {
        const instruction_t *instruction = encode->instructions + place;
        const field_t *field = encode->fields + instruction->column;
        int64_t index = row + field->offset, value;
        place++;
        switch (instruction->op) {
        case PUT_LONG: at = write_long(at, int64_at(field, index)); continue;
        case PUT_INT: at = write_long(at, int32_at(field, index)); continue;
        case PUT_FLOORED:
            value = int64_at(field, index);
            at = write_long(at, value / MILLISECOND_US - (value % MILLISECOND_US < 0));
            continue;
        case PUT_DOUBLE:
            memcpy(at, field->values + index * 8, 8);
            at += 8;
            continue;
        case PUT_NULLABLE:
            if (is_null(field, index)) {
                *at++ = (uint8_t)(instruction->first << 1);
                place = instruction->jump;
            } else {
                *at++ = (uint8_t)(instruction->second << 1);
            }
            continue;
        case PUT_CONSTANT:
            memcpy(at, encode->pool + instruction->first, (size_t)instruction->count);
            at += instruction->count;
            continue;
        case PUT_REQUIRED:
            if (is_null(field, index)) return NULL;
            continue;
        case PUT_TEXT: at = write_text(writer, field, index, at); break;
        case PUT_RECORD: at = run(writer, at, place, instruction->jump, index); break;
        case PUT_ARRAY: at = write_array(writer, place - 1, field, index, at); break;
        case PUT_UNION: at = write_union(writer, place - 1, field, index, at); break;
        default: at = write_other(writer, instruction, field, index, at);
        }
        if (unlikely(at == NULL)) return NULL;
        if (instruction->jump) place = instruction->jump;
    }
    return at;
}

/* Sets the fields from the schema of the stream; returns 0 if they are not those of the program. */
static int place_fields(avro_encode_t *encode) {
    arrow_schema_t *schema = &encode->schema;
    if (encode->stream->get_schema(encode->stream, schema)) {
        schema->release = NULL;
        return 0;
    }
    int64_t count = encode->column_count;
    if (strcmp(schema->format, "+s") || schema->n_children != count) return 0;
    for (int64_t column = 0; column < encode->column_count; column++) {
        /* the memory has room for the program's fields */
        if (count + count_children(schema->children[column], 1) > encode->field_count) return 0;
        set_field(encode->fields, &count, encode->fields + column, schema->children[column], column);
    }
    if (count != encode->field_count) return 0;
    for (int64_t field = 0; field < count; field++)
        if (encode->fields[field].kind != encode->kinds[field]) return 0;
    encode->is_placed = 1;
    return 1;
}

static void release_rows(avro_encode_t *encode) {
    if (encode->rows.release) encode->rows.release(&encode->rows);
    encode->rows.release = NULL;
    encode->is_bound = 0;
}

/* Reads the next array of the stream; 0 for doubt. */
static int next_rows(avro_encode_t *encode) {
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

EXPORT int64_t headrace_avro_encode(avro_encode_t *encode) {
    int64_t *ends = encode->ends;
    ends[0] = 0;
    if (!encode->is_placed && !place_fields(encode)) return STATUS_DOUBT;
    for (;;) {
        if (encode->is_bound && encode->row == encode->first_row + encode->rows.length) release_rows(encode);
        if (encode->row == encode->row_count) return STATUS_DONE;
        if (!encode->is_bound && !next_rows(encode)) return STATUS_DOUBT;
        int64_t hidden = encode->rows.offset - encode->first_row, end = encode->first_row + encode->rows.length;
        uint8_t *text = encode->text, *at = text + encode->text_bytes;
        writer_t writer = {encode, text + encode->text_bytes_max - encode->fixed_bytes_max, 0};
        for (int64_t row = encode->row; row < end; row++) {
            uint8_t *next = NULL;
            if (text_fits(&writer, at, 0)) next = run(&writer, at, 0, encode->instruction_count, row + hidden);
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

EXPORT void headrace_avro_close(avro_encode_t *encode) {
    release_rows(encode);
    if (encode->schema.release) encode->schema.release(&encode->schema);
    encode->schema.release = NULL;
}
