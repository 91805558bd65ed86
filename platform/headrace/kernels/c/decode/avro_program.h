/* The program by which Avro messages of one writer's schema become columns: kernels/decode/avro_program.py says what
 * each instruction does. */
#ifndef HEADRACE_AVRO_PROGRAM_H
#define HEADRACE_AVRO_PROGRAM_H

#include "avro_instruction.h"

enum avro_op {
    AVRO_NULL,
    AVRO_BAD,
    AVRO_CONSTANT,
    AVRO_RECORD,
    AVRO_BRANCH_OF,
    AVRO_UNION,
    AVRO_BRANCH,
    AVRO_NULLABLE,
    AVRO_ARRAY,
    AVRO_INT32,
    AVRO_INT64,
    AVRO_SCALED,
    AVRO_FLOORED,
    AVRO_INTEGER_FLOAT32,
    AVRO_INTEGER_FLOAT64,
    AVRO_INTEGER_FLOAT32_FLOAT64,
    AVRO_SKIP_INTEGER,
    AVRO_BOOL,
    AVRO_FLOAT32,
    AVRO_FLOAT32_FLOAT64,
    AVRO_FLOAT64,
    AVRO_STRING,
    AVRO_BINARY,
    AVRO_SKIP_BINARY,
    AVRO_FIXED,
    AVRO_SKIP_FIXED,
    AVRO_ENUM,
    AVRO_DECIMAL,
    AVRO_UUID,
    AVRO_DURATION,
    AVRO_TEXT
};

typedef struct {
    const instruction_t *instructions;
    int64_t instruction_count;
    const symbol_t *symbols;
} program_t;

#endif
