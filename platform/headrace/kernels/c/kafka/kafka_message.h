/* `rd_kafka_message_t` of a 64-bit machine; the connector's layout check has verified this layout. */
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

_Static_assert(sizeof(message_t) == 72, "another layout than that of a 64-bit machine");

#endif
