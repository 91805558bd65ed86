/* Shared by all kernels: fixed-width integers, and EXPORT, which marks a function that Python calls.
 *
 * Rules of all kernels. A kernel reads and writes only inside the buffers of its arguments, which the caller owns.
 * It has no state between calls, so threads may call it concurrently; group tables (group/group_by.c) and indexes of
 * keys (state/key_index.c) are the exception. Input that it cannot decide on is doubt, never an error. Names of functions that Python calls begin
 * with headrace_. */
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
