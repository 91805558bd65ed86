/* n messages, adjacent in one buffer: the layout of Arrow's binary and large_binary columns. */
#ifndef HEADRACE_MESSAGES_H
#define HEADRACE_MESSAGES_H

#include "export.h"

typedef struct {
    const uint8_t *data;    /* bytes of all messages */
    const void *offsets;    /* count + 1 begins and ends in data, int32 or int64 */
    int64_t offset_bytes;   /* of one offset: 4 or 8 */
    int64_t count;
} messages_t;

ALWAYS_INLINE int64_t message_offset(const messages_t *messages, int64_t index) {
    return messages->offset_bytes == 4 ? ((const int32_t *)messages->offsets)[index]
                                       : ((const int64_t *)messages->offsets)[index];
}

#endif
