/* Memory of a table that lives across calls: grown by doubling, counted, and freed by the table's owner. */
#ifndef HEADRACE_GROWING_H
#define HEADRACE_GROWING_H

#include <stdlib.h>

#include "export.h"

#define GROUPS_MIN 64

/* Groups that a table has room for where it needs room for `groups`. */
static inline int64_t room_for(int64_t groups) {
    int64_t room = GROUPS_MIN;
    while (room < groups) room *= 2;
    return room;
}

/* Makes room for `count` items of `size` bytes at `*memory`; 0 where there is no memory, and then nothing changed. */
static inline int grow_to(void *memory, int64_t count, int64_t size) {
    void *old, *larger;
    memcpy(&old, memory, sizeof old);
    if (size == 0) return 1;
    if (count > INT64_MAX / 2 / size) return 0;
    larger = realloc(old, (size_t)(count * size));
    if (larger == NULL) return 0;
    memcpy(memory, &larger, sizeof larger);
    return 1;
}

#endif
