/* Rows of Arrow columns queued in librdkafka, and its delivery reports counted.
 *
 * rd_kafka_produce_batch comes as an address. It copies keys and values before it returns, so the columns need to live
 * no longer than the call. Messages are filled on the stack, a few at a time: they are still in the first cache when
 * librdkafka reads them. */
#include "binary_column.h"
#include "kafka_message.h"

#define TOGETHER 256

typedef int (*produce_batch_t)(void *topic, int32_t partition, int flags, message_t *messages, int count);

typedef struct {
    binary_column_t values, keys;
    int64_t count;
    produce_batch_t produce_batch;
    void *topic;
    int32_t partition;
    int32_t flags;
    int64_t error;   /* of the first record that librdkafka refuses */
} produce_t;

typedef struct {
    int64_t failed;
    int64_t first_error;
} deliveries_t;

EXPORT int64_t headrace_produce(produce_t *produce);
EXPORT void headrace_count_delivery(void *client, const message_t *message, void *opaque);

/* Returns how many rows it filled: fewer than `count` where the offsets of the next one lead outside the data. */
ALWAYS_INLINE int fill(const produce_t *produce, int64_t begin, int count, message_t *messages) {
    memset(messages, 0, (size_t)count * sizeof *messages);
    for (int index = 0; index < count; index++) {
        binary_value_t value, key;
        if (!binary_value(&produce->values, begin + index, &value)) return index;
        if (!binary_value(&produce->keys, begin + index, &key)) return index;
        messages[index].partition = produce->partition;
        messages[index].payload = value.at;
        messages[index].length = value.size;
        messages[index].key = key.at;
        messages[index].key_length = key.size;
    }
    return count;
}

static int32_t first_error(const message_t *messages, int count) {
    for (int index = 0; index < count; index++) {
        if (messages[index].error) return messages[index].error;
    }
    return 0;
}

/* Queues rows in order. Returns how many: fewer than `count` where librdkafka refuses one, which sets `error`, or where
 * offsets lead outside the data. After a refusal no further batch is tried; within its batch, librdkafka has. */
EXPORT int64_t headrace_produce(produce_t *produce) {
    message_t messages[TOGETHER];
    int64_t queued = 0;
    while (queued < produce->count) {
        int64_t left = produce->count - queued;
        int count = left < TOGETHER ? (int)left : TOGETHER;
        int filled = fill(produce, queued, count, messages);
        if (filled == 0) break;
        int taken = produce->produce_batch(produce->topic, produce->partition, produce->flags, messages, filled);
        queued += taken;
        if (taken < filled) produce->error = first_error(messages, filled);
        if (taken < count) break;
    }
    return queued;
}

/* A delivery report callback whose opaque is a deliveries_t. librdkafka calls it inside rd_kafka_poll and
 * rd_kafka_flush, on the caller's thread, so nothing else writes meanwhile. */
EXPORT void headrace_count_delivery(void *client, const message_t *message, void *opaque) {
    (void)client;
    deliveries_t *deliveries = opaque;
    if (!message->error) return;
    if (!deliveries->failed++) deliveries->first_error = message->error;
}
