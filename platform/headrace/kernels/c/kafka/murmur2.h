/* MurmurHash2 of 32 bits with Kafka's seed (A. Appleby; org.apache.kafka.common.utils.Utils.murmur2). Little-endian. */
#ifndef HEADRACE_MURMUR2_H
#define HEADRACE_MURMUR2_H

#include "export.h"

#define MURMUR2_SEED 0x9747b28cU
#define MURMUR2_FACTOR 0x5bd1e995U

ALWAYS_INLINE uint32_t murmur2(const uint8_t *at, uint64_t size) {
    uint32_t hash = MURMUR2_SEED ^ (uint32_t)size;
    for (; size >= 4; at += 4, size -= 4) {
        uint32_t word;
        memcpy(&word, at, sizeof word);
        word *= MURMUR2_FACTOR;
        word = (word ^ word >> 24) * MURMUR2_FACTOR;
        hash = hash * MURMUR2_FACTOR ^ word;
    }
    if (size) {
        uint32_t rest = 0;
        for (uint64_t place = 0; place < size; place++) rest |= (uint32_t)at[place] << (place * 8);
        hash = (hash ^ rest) * MURMUR2_FACTOR;
    }
    hash = (hash ^ hash >> 13) * MURMUR2_FACTOR;
    return hash ^ hash >> 15;
}

/* The partition that Java's producer and librdkafka's murmur2 partitioners choose for a key. */
ALWAYS_INLINE int32_t key_partition(const uint8_t *at, uint64_t size, int32_t partitions) {
    return (int32_t)((murmur2(at, size) & 0x7fffffffU) % (uint32_t)partitions);
}

#endif
