/* One instruction of a program for Avro messages, and what it refers to: kernels/decode/avro_program.py and
 * kernels/avro_encode.py say what each does. */
#ifndef HEADRACE_AVRO_INSTRUCTION_H
#define HEADRACE_AVRO_INSTRUCTION_H

#include "export.h"

typedef struct {
    int64_t op;
    int64_t column; /* -1: a value that is skipped when it is read */
    int64_t jump;   /* the instruction behind the body */
    int64_t count;
    int64_t first;
    int64_t second;
} instruction_t;

/* Text in the pool of a program. */
typedef struct {
    int64_t begin;
    int64_t length; /* negative: the reader does not know the symbol */
} symbol_t;

#endif
