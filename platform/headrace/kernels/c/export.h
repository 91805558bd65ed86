/* What every kernel needs: fixed-width integers, and the mark of a function that Python calls.
 *
 * Rules of all kernels. A kernel reads and writes only inside the buffers of its arguments; the caller owns them. It
 * keeps no state between calls, so threads may call it at once; tables of groups (group/group_by.c) are the exception.
 * Anything that it is not sure of is doubt, never an error. Names that Python calls begin with headrace_. */
#ifndef HEADRACE_EXPORT_H
#define HEADRACE_EXPORT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

__extension__ typedef unsigned __int128 u128;

#endif
