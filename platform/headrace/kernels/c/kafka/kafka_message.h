/* `rd_kafka_message_t` of a 64-bit machine, as the connector's layout check has proven it to lie. */
#ifndef HEADRACE_KAFKA_MESSAGE_H
#define HEADRACE_KAFKA_MESSAGE_H

#include "export.h"

typedef struct {
    int32_t error;
    void *topic;
    int32_t partition;
    const uint8_t *payload;
    uint64_t length;
    const uint8_t *key;
    uint64_t key_length;
    int64_t offset;
    void *private;
} message_t;

/* as the connector declares it (`librdkafka/functions.py`: MESSAGE), which is what its check has proven */
#define LIES_AT(field, place) _Static_assert(offsetof(message_t, field) == (place), "another layout than MESSAGE")
LIES_AT(error, 0);
LIES_AT(topic, 8);
LIES_AT(partition, 16);
LIES_AT(payload, 24);
LIES_AT(length, 32);
LIES_AT(key, 40);
LIES_AT(key_length, 48);
LIES_AT(offset, 56);
LIES_AT(private, 64);
_Static_assert(sizeof(message_t) == 72, "another layout than MESSAGE");
#undef LIES_AT

#endif
