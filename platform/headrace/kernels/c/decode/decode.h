/* A batch of messages that a kernel decodes to columns: shared by all decoding kernels. */
#ifndef HEADRACE_DECODE_H
#define HEADRACE_DECODE_H

#include "decode/columns.h"
#include "decode/messages.h"

typedef struct {
    messages_t messages;
    table_t table;
    int64_t column_count;
    uint8_t *doubt;  /* a byte a message */
    int64_t message; /* the next one to read */
    const void *program; /* of a format whose messages need one */
} decode_t;

/* Ends message `message`: keeps its row if it is sure, otherwise removes it and marks the message. Returns 0 if a
 * column has no room: the caller grows that column, and the message is read again. */
ALWAYS_INLINE int end_message(decode_t *decode, int64_t message, int is_sure, int64_t text_bytes) {
    table_t *table = &decode->table;
    column_t *row = table->columns;
    if (likely(is_sure)) {
        row->rows++;
        decode->doubt[message] = 0;
        return 1;
    }
    column_rewind(table, row, row->rows);
    table->text_bytes = text_bytes;
    if (table->full >= 0) return 0;
    decode->doubt[message] = 1;
    return 1;
}

/* Returns the next message to read: their count, or the one in front of which a column has no room. */
ALWAYS_INLINE int64_t end_messages(decode_t *decode, int64_t message) {
    decode->message = message;
    if (message == decode->messages.count) count_nulls(&decode->table, decode->column_count);
    return message;
}

#endif
