/* Memory of a table that lives across calls: grown by doubling, counted, and freed by the table's owner. */
#ifndef HEADRACE_GROWING_H
#define HEADRACE_GROWING_H

#include <stdlib.h>

#include "export.h"

/* Reserves room for `count` items of `size` bytes at `*memory`; returns 0, and changes nothing, if there is no
 * memory. */
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
