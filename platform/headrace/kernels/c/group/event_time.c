/* Event times in milliseconds, and the watermark of each row: the greatest time so far, less a lag. */
#include "export.h"

EXPORT void headrace_event_milliseconds(const int64_t *micros, int64_t count, int64_t *times);
EXPORT int64_t headrace_row_watermarks(const int64_t *times, int64_t count, int64_t before, int64_t lag, int64_t floor,
                                       int64_t *watermarks);

/* Rounds down, also before 1970. */
EXPORT void headrace_event_milliseconds(const int64_t *micros, int64_t count, int64_t *times) {
    for (int64_t row = 0; row < count; row++) {
        int64_t whole = micros[row] / 1000;
        times[row] = whole - (micros[row] - whole * 1000 < 0);
    }
}

/* watermarks: the maximum of `before` and the times up to the row, minus `lag`, but at least `floor`. Returns whether
 * any watermark is at or above its row's time. A difference beyond int64 wraps around, as in numpy. */
EXPORT int64_t headrace_row_watermarks(const int64_t *times, int64_t count, int64_t before, int64_t lag, int64_t floor,
                                       int64_t *watermarks) {
    int64_t greatest = before, is_late = 0;
    for (int64_t row = 0; row < count; row++) {
        int64_t time = times[row];
        greatest = time > greatest ? time : greatest;
        int64_t watermark = (int64_t)((uint64_t)greatest - (uint64_t)lag);
        watermark = watermark > floor ? watermark : floor;
        watermarks[row] = watermark;
        is_late |= watermark >= time;
    }
    return is_late;
}
