/* The metadata of a record batch message of Arrow's IPC format: a flatbuffer with a table `Message` whose header is a
 * table `RecordBatch` (Message.fbs of the Arrow format). All positions are bytes from the begin of the flatbuffer.
 *
 *       0  position of Message                       40  vtable of RecordBatch
 *       4  vtable of Message                         56  RecordBatch: length, and the positions of its vectors
 *      16  Message: version, body length              84  vectors of nodes, buffers and variadic counts: a u32 count,
 *                                                        then the elements, at multiples of 8
 *
 * A position in a flatbuffer is relative to where it is written. */
#ifndef HEADRACE_MESSAGE_METADATA_H
#define HEADRACE_MESSAGE_METADATA_H

#include "../words.h"

#define COLUMNS_MAX 256
#define ALIGNMENT 64
#define METADATA_VERSION_5 4
#define HEADER_RECORD_BATCH 3

typedef struct {
    int64_t length;
    int64_t null_count;
} node_t;

typedef struct {
    int64_t offset;     /* in the body */
    int64_t length;
} buffer_t;

typedef struct {
    int64_t rows;
    int64_t body_bytes;
    int64_t node_count, buffer_count, variadic_count;
    node_t nodes[COLUMNS_MAX];
    buffer_t buffers[3 * COLUMNS_MAX];
    int64_t variadic[COLUMNS_MAX];  /* of each column of views: how many buffers of texts follow it */
} message_t;

ALWAYS_INLINE int64_t padded(int64_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

ALWAYS_INLINE int64_t bits_bytes(int64_t bits) { return (bits + 7) / 8; }

static inline void begin_message(message_t *message, int64_t rows) {
    message->rows = rows;
    message->body_bytes = message->node_count = message->buffer_count = message->variadic_count = 0;
}

static inline void add_node(message_t *message, int64_t length) {
    message->nodes[message->node_count++] = (node_t){length, 0};
}

static inline void add_buffer(message_t *message, int64_t length) {
    message->buffers[message->buffer_count++] = (buffer_t){message->body_bytes, length};
    message->body_bytes += padded(length);
}

static inline void add_variadic(message_t *message, int64_t buffers) {
    message->variadic[message->variadic_count++] = buffers;
}

/* ---- the flatbuffer ---------------------------------------------------------------------------------------------- */

enum { MESSAGE = 16, MESSAGE_VTABLE = 4, BATCH_VTABLE = 40, BATCH = 56, VECTORS = 80 };

static inline void store_16(uint8_t *at, uint16_t value) { memcpy(at, &value, sizeof value); }
static inline void store_32(uint8_t *at, uint32_t value) { memcpy(at, &value, sizeof value); }

static inline int64_t vector_bytes(int64_t count, int64_t element_bytes) { return 8 + count * element_bytes; }

static inline int64_t metadata_bytes(const message_t *message) {
    return VECTORS + vector_bytes(message->node_count, sizeof(node_t)) +
           vector_bytes(message->buffer_count, sizeof(buffer_t)) + vector_bytes(message->variadic_count, 8);
}

/* Bytes before the body: marker, size and metadata, with the padding that aligns the body. */
static inline int64_t prefix_bytes(const message_t *message) { return padded(8 + metadata_bytes(message)); }

/* Writes a vector whose elements begin 8 bytes after `at`, its count right before them, and its position into `field`;
 * returns its end. */
static inline int64_t write_vector(uint8_t *metadata, int64_t field, int64_t at, const void *elements, int64_t count,
                                   int64_t element_bytes) {
    store_32(metadata + at, 0);
    store_32(metadata + at + 4, (uint32_t)count);
    store_32(metadata + field, (uint32_t)(at + 4 - field));
    memcpy(metadata + at + 8, elements, (size_t)(count * element_bytes));
    return at + vector_bytes(count, element_bytes);
}

static inline void write_message_table(uint8_t *metadata, int64_t body_bytes) {
    static const uint16_t vtable[] = {12, 24, 16, 18, 4, 8}; /* sizes; version, header type, header, body length */
    store_32(metadata, MESSAGE);
    memcpy(metadata + MESSAGE_VTABLE, vtable, sizeof vtable);
    memset(metadata + MESSAGE, 0, 24);
    store_32(metadata + MESSAGE, MESSAGE - MESSAGE_VTABLE);
    store_32(metadata + MESSAGE + 4, BATCH - (MESSAGE + 4));
    store_word(metadata + MESSAGE + 8, (uint64_t)body_bytes);
    store_16(metadata + MESSAGE + 16, METADATA_VERSION_5);
    metadata[MESSAGE + 18] = HEADER_RECORD_BATCH;
}

static inline void write_batch_table(uint8_t *metadata, const message_t *message) {
    /* sizes; length, nodes, buffers, compression (none), variadic counts */
    static const uint16_t vtable[] = {14, 24, 8, 4, 16, 0, 20, 0};
    memcpy(metadata + BATCH_VTABLE, vtable, sizeof vtable);
    store_32(metadata + BATCH, BATCH - BATCH_VTABLE);
    store_word(metadata + BATCH + 8, (uint64_t)message->rows);
    int64_t at = write_vector(metadata, BATCH + 4, VECTORS, message->nodes, message->node_count, sizeof(node_t));
    at = write_vector(metadata, BATCH + 16, at, message->buffers, message->buffer_count, sizeof(buffer_t));
    write_vector(metadata, BATCH + 20, at, message->variadic, message->variadic_count, 8);
}

static inline void write_prefix(uint8_t *to, const message_t *message) {
    int64_t prefix = prefix_bytes(message), end = 8 + metadata_bytes(message);
    store_32(to, UINT32_MAX);
    store_32(to + 4, (uint32_t)(prefix - 8));
    write_message_table(to + 8, message->body_bytes);
    write_batch_table(to + 8, message);
    memset(to + end, 0, (size_t)(prefix - end));
}

#endif
