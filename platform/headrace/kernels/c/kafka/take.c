/* Copies messages of librdkafka to columns and releases them, in one loop over a batch.
 *
 * The caller passes the addresses of librdkafka's functions, and the messages of one rd_kafka_consume_batch_queue call.
 * The connector's layout check has verified the layout of their structs. A message is released as soon as it is copied,
 * while it is still in the caches; its address becomes NULL, so that headrace_take_release releases only the rest. */
#include "kafka/kafka_message.h"
#include "text/utf8.h"

typedef void (*release_t)(message_t *message);
typedef int64_t (*timestamp_t)(const message_t *message, int *kind);
typedef int (*headers_t)(const message_t *message, void **headers);
typedef int (*header_t)(const void *headers, size_t index, const char **name, const void **value, size_t *size);

/* A column of bytes: n + 1 ends of 4 or 8 bytes, one flag per value, the adjacent bytes of all values. */
typedef struct {
    void *ends;
    int64_t end_bytes;
    uint8_t *valid;
    uint8_t *bytes;
    int64_t bytes_used;
    int64_t bytes_max;
    int64_t count;
    int64_t nulls;
} bytes_column_t;

typedef struct {
    message_t **messages;
    int64_t count;
    release_t release;
    timestamp_t timestamp;   /* NULL: not wanted */
    headers_t headers;       /* NULL: not wanted */
    header_t header;
    int64_t wants_keys;
    /* counted by headrace_take_measure */
    int64_t records;         /* messages without an error */
    int64_t value_bytes;
    int64_t key_bytes;
    int64_t header_count;
    int64_t header_name_bytes;
    int64_t header_value_bytes;
    /* filled by headrace_take_copy, one value a record */
    uint64_t *topics;
    int32_t *partitions;
    int64_t *offsets;
    int64_t *timestamps;
    int64_t *header_ends;    /* records + 1 */
    bytes_column_t values, keys, header_names, header_values;
} take_t;

EXPORT void headrace_take_measure(take_t *take);
EXPORT int64_t headrace_take_copy(take_t *take);
EXPORT void headrace_take_release(take_t *take);

static void measure_headers(take_t *take, const message_t *message) {
    void *headers = NULL;
    const char *name;
    const void *value;
    size_t size;
    if (take->headers(message, &headers) != 0 || headers == NULL) return;
    for (size_t index = 0; take->header(headers, index, &name, &value, &size) == 0; index++) {
        take->header_count++;
        take->header_name_bytes += (int64_t)strlen(name);
        take->header_value_bytes += value == NULL ? 0 : (int64_t)size;
    }
}

/* Counts the records, and the bytes that the columns must hold. */
EXPORT void headrace_take_measure(take_t *take) {
    for (int64_t index = 0; index < take->count; index++) {
        const message_t *message = take->messages[index];
        if (message->error) continue;
        take->records++;
        if (message->payload != NULL) take->value_bytes += (int64_t)message->length;
        if (take->wants_keys && message->key != NULL) take->key_bytes += (int64_t)message->key_length;
        if (take->headers != NULL) measure_headers(take, message);
    }
}

ALWAYS_INLINE void put_end(bytes_column_t *column, int64_t index) {
    if (column->end_bytes == 4) {
        ((int32_t *)column->ends)[index] = (int32_t)column->bytes_used;
    } else {
        ((int64_t *)column->ends)[index] = column->bytes_used;
    }
}

/* Appends a value, or NULL if its address is NULL; returns 0 if it does not fit. */
ALWAYS_INLINE int put_bytes(bytes_column_t *column, const void *bytes, uint64_t length) {
    int64_t size = bytes == NULL ? 0 : (int64_t)length;
    if (unlikely(size < 0 || size > column->bytes_max - column->bytes_used)) return 0;
    if (size) memcpy(column->bytes + column->bytes_used, bytes, (size_t)size);
    column->bytes_used += size;
    column->valid[column->count] = bytes != NULL;
    column->nulls += bytes == NULL;
    put_end(column, ++column->count);
    return 1;
}

static int is_utf8(const uint8_t *at, const uint8_t *end) {
    while (at < end) {
        int64_t length = *at < 0x80 ? 1 : utf8_length(at, end);
        if (length == 0) return 0;
        at += length;
    }
    return 1;
}

/* Appends the headers of record `row`; returns 0 if a name is not UTF-8, or if they do not fit. */
static int put_headers(take_t *take, const message_t *message, int64_t row) {
    void *headers = NULL;
    const char *name;
    const void *value;
    size_t size;
    /* asking costs librdkafka a quarter of a microsecond, also for a record without headers */
    if (take->header_count && take->headers(message, &headers) == 0 && headers != NULL) {
        for (size_t index = 0; take->header(headers, index, &name, &value, &size) == 0; index++) {
            size_t length = strlen(name);
            if (!is_utf8((const uint8_t *)name, (const uint8_t *)name + length)) return 0;
            if (!put_bytes(&take->header_names, name, length)) return 0;
            if (!put_bytes(&take->header_values, value, size)) return 0;
        }
    }
    take->header_ends[row + 1] = take->header_names.count;
    return 1;
}

/* Copies and releases the records; messages with errors stay. Returns how many it copied: fewer than `records` if the
 * headers of the next one cannot be copied. */
EXPORT int64_t headrace_take_copy(take_t *take) {
    int64_t row = 0;
    put_end(&take->values, 0);
    if (take->wants_keys) put_end(&take->keys, 0);
    if (take->headers != NULL) {
        take->header_ends[0] = 0;
        put_end(&take->header_names, 0);
        put_end(&take->header_values, 0);
    }
    for (int64_t index = 0; index < take->count; index++) {
        message_t *message = take->messages[index];
        if (message->error) continue;
        if (!put_bytes(&take->values, message->payload, message->length)) return row;
        if (take->wants_keys && !put_bytes(&take->keys, message->key, message->key_length)) return row;
        if (take->headers != NULL && !put_headers(take, message, row)) return row;
        take->topics[row] = (uint64_t)(uintptr_t)message->topic;
        take->partitions[row] = message->partition;
        take->offsets[row] = message->offset;
        if (take->timestamp != NULL) {
            int kind;
            take->timestamps[row] = take->timestamp(message, &kind);
        }
        row++;
        take->release(message);
        take->messages[index] = NULL;
    }
    return row;
}

/* Releases the remaining messages. */
EXPORT void headrace_take_release(take_t *take) {
    for (int64_t index = 0; index < take->count; index++) {
        if (take->messages[index] == NULL) continue;
        take->release(take->messages[index]);
        take->messages[index] = NULL;
    }
}
