/* Queues rows of Arrow columns in librdkafka, and counts its delivery reports.
 *
 * The caller passes the address of rd_kafka_produce_batch, which copies keys and values before it returns: the columns
 * need not outlive the call. Messages are filled on the stack, a few at a time, so that they are still in the L1 cache
 * when librdkafka reads them. */
#include "kafka/binary_column.h"
#include "kafka/kafka_message.h"
#include "kafka/murmur2.h"

#define TOGETHER 256
#define ANY_PARTITION (-1)

typedef int (*produce_batch_t)(void *topic, int32_t partition, int flags, message_t *messages, int count);

typedef struct {
    binary_column_t values, keys;
    int64_t count;
    produce_batch_t produce_batch;
    void *topic;
    int32_t flags;
    int32_t partition;    /* of headrace_produce */
    int64_t error;        /* of the first record that librdkafka refuses */
    /* of headrace_produce_by_key */
    int32_t partitions;   /* how many the topic has, at least 1 */
    int32_t *chosen;      /* count: each row's partition; `partitions` for a row without a key */
    int32_t *rows;        /* count: the rows by partition */
    int64_t *ends;        /* partitions + 2 */
} produce_t;

typedef struct {
    int64_t failed;
    int64_t first_error;
} deliveries_t;

EXPORT int64_t headrace_produce(produce_t *produce);
EXPORT int64_t headrace_produce_by_key(produce_t *produce);
EXPORT void headrace_count_delivery(void *client, const message_t *message, void *opaque);

/* Returns how many rows it filled: fewer than `count` if the offsets of the next one are outside the data.
 * rows: NULL for the rows from `begin` on. */
ALWAYS_INLINE int fill(const produce_t *produce, const int32_t *rows, int64_t begin, int count, message_t *messages) {
    memset(messages, 0, (size_t)count * sizeof *messages);
    for (int index = 0; index < count; index++) {
        int64_t row = rows == NULL ? begin + index : rows[begin + index];
        binary_value_t value, key;
        if (!binary_value(&produce->values, row, &value)) return index;
        if (!binary_value(&produce->keys, row, &key)) return index;
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

/* Queues rows [begin, end) in one partition. Returns how many: fewer if librdkafka rejects one, which sets `error`,
 * or if offsets are outside the data. After a rejection librdkafka still queues later rows of the same batch; no
 * further batch is sent. */
ALWAYS_INLINE int64_t queue_rows(produce_t *produce, int32_t partition, const int32_t *rows, int64_t begin,
                                 int64_t end) {
    message_t messages[TOGETHER];
    int64_t at = begin;
    while (at < end) {
        int count = end - at < TOGETHER ? (int)(end - at) : TOGETHER;
        int filled = fill(produce, rows, at, count, messages);
        if (filled == 0) break;
        int taken = produce->produce_batch(produce->topic, partition, produce->flags, messages, filled);
        at += taken;
        if (taken < filled) produce->error = first_error(messages, filled);
        if (taken < count) break;
    }
    return at - begin;
}

/* Queues all rows in order, in one partition. Returns how many; see queue_rows. */
EXPORT int64_t headrace_produce(produce_t *produce) {
    return queue_rows(produce, produce->partition, NULL, 0, produce->count);
}

/* Chooses the partition of each row, and counts the rows of partition p in ends[p + 1]. Returns 0 if offsets of a
 * key are outside the data. */
static int choose_partitions(produce_t *produce) {
    int32_t partitions = produce->partitions;
    memset(produce->ends, 0, (size_t)(partitions + 2) * sizeof *produce->ends);
    for (int64_t row = 0; row < produce->count; row++) {
        binary_value_t key;
        if (!binary_value(&produce->keys, row, &key)) return 0;
        int32_t chosen = key.at == NULL ? partitions : key_partition(key.at, key.size, partitions);
        produce->chosen[row] = chosen;
        produce->ends[chosen + 1]++;
    }
    return 1;
}

/* Sorts rows by partition, stably: afterwards the rows of partition p end at ends[p]. */
static void sort_by_partition(produce_t *produce) {
    int64_t *ends = produce->ends;
    for (int32_t partition = 0; partition <= produce->partitions; partition++) ends[partition + 1] += ends[partition];
    for (int64_t row = 0; row < produce->count; row++) {
        produce->rows[ends[produce->chosen[row]]++] = (int32_t)row;
    }
}

/* Queues rows in the partitions of their keys, partition after partition, so that librdkafka neither chooses a
 * partition per record nor alternates between queues. Rows without a key come last, and librdkafka chooses their
 * partitions. Returns how many rows; see queue_rows. */
EXPORT int64_t headrace_produce_by_key(produce_t *produce) {
    if (!choose_partitions(produce)) return 0;
    sort_by_partition(produce);
    int64_t queued = 0;
    for (int32_t partition = 0; partition <= produce->partitions; partition++) {
        int32_t target = partition == produce->partitions ? ANY_PARTITION : partition;
        queued += queue_rows(produce, target, produce->rows, queued, produce->ends[partition]);
        if (queued < produce->ends[partition]) break;
    }
    return queued;
}

/* A delivery report callback; its opaque pointer is a deliveries_t. librdkafka calls it inside rd_kafka_poll and
 * rd_kafka_flush, on the caller's thread, so no other thread writes at the same time. */
EXPORT void headrace_count_delivery(void *client, const message_t *message, void *opaque) {
    (void)client;
    deliveries_t *deliveries = opaque;
    if (!message->error) return;
    if (!deliveries->failed++) deliveries->first_error = message->error;
}
