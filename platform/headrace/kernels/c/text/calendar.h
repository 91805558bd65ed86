/* Dates and times of the proleptic Gregorian calendar as text.
 *
 * Each function writes at `at`, touches at most CALENDAR_BYTES_MAX, and returns where the text ends; NULL for a date
 * that polars does not write. */
#ifndef HEADRACE_CALENDAR_H
#define HEADRACE_CALENDAR_H

#include "text/number_text.h"

#define CALENDAR_BYTES_MAX 48
#define FIRST_DAY (-96465292) /* -262143-01-01, the first day of polars' calendar, in days since 1970-01-01 */
#define LAST_DAY 95026236     /* 262142-12-31, its last one */
#define DAY_US 86400000000

typedef struct {
    int64_t year;
    uint32_t month, day;
} date_t;

/* Counts from 0000-03-01, so that the leap day is the last of a year (H. Hinnant, "civil_from_days"). */
ALWAYS_INLINE date_t date_of(int64_t days) {
    int64_t shifted = days + 719468;
    int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
    uint32_t of_era = (uint32_t)(shifted - era * 146097);
    uint32_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    uint32_t of_year = of_era - (365 * year + year / 4 - year / 100);
    uint32_t month = (5 * of_year + 2) / 153;
    uint32_t day = of_year - (153 * month + 2) / 5 + 1;
    month = month < 10 ? month + 3 : month - 9;
    return (date_t){(int64_t)year + era * 400 + (month <= 2), month, day};
}

ALWAYS_INLINE void write_two(uint8_t *at, uint32_t number) {
    at[0] = (uint8_t)('0' + number / 10);
    at[1] = (uint8_t)('0' + number % 10);
}

/* Four digits; years beyond them, and those before 0, have a sign. */
ALWAYS_INLINE uint8_t *write_year(uint8_t *at, int64_t year) {
    uint32_t size = (uint32_t)(year < 0 ? -year : year);
    if (unlikely(year < 0 || year > 9999)) *at++ = year < 0 ? '-' : '+';
    if (unlikely(size > 9999)) return write_short(at, size);
    write_two(at, size / 100);
    write_two(at + 2, size % 100);
    return at + 4;
}

ALWAYS_INLINE uint8_t *write_date(uint8_t *at, int64_t days) {
    if (unlikely(days < FIRST_DAY || days > LAST_DAY)) return NULL;
    date_t date = date_of(days);
    at = write_year(at, date.year);
    at[0] = at[3] = '-';
    write_two(at + 1, date.month);
    write_two(at + 4, date.day);
    return at + 6;
}

/* `2013-01-01T05:00:00.000Z`, with six digits of a fraction only where it has microseconds. */
ALWAYS_INLINE uint8_t *write_timestamp(uint8_t *at, int64_t micros) {
    int64_t days = micros / DAY_US, rest = micros % DAY_US;
    if (rest < 0) {
        rest += DAY_US;
        days--;
    }
    if ((at = write_date(at, days)) == NULL) return NULL;
    uint32_t second = (uint32_t)(rest / 1000000), fraction = (uint32_t)(rest % 1000000);
    at[0] = 'T';
    at[3] = at[6] = ':';
    at[9] = '.';
    write_two(at + 1, second / 3600);
    write_two(at + 4, second / 60 % 60);
    write_two(at + 7, second % 60);
    uint64_t digits = digit_bytes(fraction) | ZEROS;
    store_word(at + 10, digits >> 16);
    at += fraction % 1000 ? 16 : 13;
    *at = 'Z';
    return at + 1;
}

#endif
