/* Values that formats write as text: dates, timestamps (RFC 3339), decimals. Each returns 0 for doubt. */
#ifndef HEADRACE_TEXT_VALUES_H
#define HEADRACE_TEXT_VALUES_H

#include "export.h"

#define DAY_SECONDS 86400
#define SECOND_US 1000000

/* The number of `count` digits, at most 9; -1 where one is none. */
ALWAYS_INLINE int64_t fixed_digits(const uint8_t *at, int64_t count) {
    int64_t value = 0;
    for (int64_t place = 0; place < count; place++) {
        uint8_t digit = (uint8_t)(at[place] - '0');
        if (digit > 9) return -1;
        value = value * 10 + digit;
    }
    return value;
}

/* Days since 1970-01-01 of a date from year 1 on, proleptic Gregorian calendar (H. Hinnant, "days_from_civil"). */
ALWAYS_INLINE int64_t civil_days(int64_t year, int64_t month, int64_t day) {
    year -= month <= 2;
    int64_t era = year / 400;
    int64_t of_era = year - era * 400;
    int64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* `YYYY-MM-DD`, 10 bytes, years 1 to 9999. */
static inline int read_date(const uint8_t *text, int64_t *days) {
    static const uint8_t DAYS_OF_MONTH[] = {0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t year = fixed_digits(text, 4), month = fixed_digits(text + 5, 2), day = fixed_digits(text + 8, 2);
    if (text[4] != '-' || text[7] != '-' || year < 1 || month < 1 || month > 12 || day < 1) return 0;
    int is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    if (day > DAYS_OF_MONTH[month] + (month == 2 && is_leap)) return 0;
    *days = civil_days(year, month, day);
    return 1;
}

/* `+hh:mm` or `-hh:mm`, 6 bytes, as the seconds that lead to UTC. */
static inline int read_offset(const uint8_t *text, int64_t *seconds) {
    int64_t hour = fixed_digits(text + 1, 2), minute = fixed_digits(text + 4, 2);
    if ((text[0] != '+' && text[0] != '-') || text[3] != ':') return 0;
    if (hour < 0 || hour > 23 || minute < 0 || minute > 59) return 0;
    int64_t size = hour * 3600 + minute * 60;
    *seconds = text[0] == '+' ? -size : size;
    return 1;
}

/* `2013-01-01T05:00:00.000Z` as epoch microseconds: T, t or a blank; up to 9 digits of a fraction, floored; Z, z, an
 * offset, or nothing for UTC. */
static inline int read_timestamp(const uint8_t *text, int64_t length, int64_t *micros) {
    int64_t days, shift = 0, fraction = 0;
    if (length < 19 || !read_date(text, &days)) return 0;
    int64_t hour = fixed_digits(text + 11, 2), minute = fixed_digits(text + 14, 2), second = fixed_digits(text + 17, 2);
    if ((text[10] | 0x20) != 't' && text[10] != ' ') return 0;
    if (text[13] != ':' || text[16] != ':') return 0;
    if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59) return 0;
    const uint8_t *at = text + 19, *end = text + length;
    if (at < end && *at == '.') {
        const uint8_t *first = ++at;
        int64_t unit = SECOND_US / 10;
        for (; at < end && (uint8_t)(*at - '0') <= 9; at++, unit /= 10) fraction += (*at - '0') * unit;
        if (at == first || at - first > 9) return 0;
    }
    if (end - at == 1 && (*at | 0x20) == 'z') {
        at = end;
    } else if (end - at == 6) {
        if (!read_offset(at, &shift)) return 0;
        at = end;
    }
    if (at != end) return 0;
    *micros = (days * DAY_SECONDS + hour * 3600 + minute * 60 + second + shift) * SECOND_US + fraction;
    return 1;
}

/* `-12.50` as an integer of 10^-scale; up to 38 digits without zeros in front, no exponent. Digits beyond the scale
 * must be 0, and the value below 10^precision. Zeros in front, as in 007, are doubt. */
static inline int read_decimal(const uint8_t *text, const uint8_t *end, int64_t precision, int64_t scale, u128 *value) {
    int is_negative = text < end && *text == '-';
    const uint8_t *at = text + is_negative, *first = at;
    u128 read = 0;
    int64_t places = 0;
    int has_point = 0;
    for (; at < end; at++) {
        uint8_t digit = (uint8_t)(*at - '0');
        if (*at == '.' && !has_point && at > first) {
            has_point = 1;
        } else if (digit > 9) {
            return 0;
        } else if (has_point && places == scale) {
            if (digit) return 0;
        } else {
            /* 38 digits fit; the limit is far below what one more digit could wrap */
            if (read >= (u128)10000000000000000000U * 10000000000000000000U / 10) return 0;
            read = read * 10 + digit;
            places += has_point;
        }
    }
    if (at == first || at[-1] == '.') return 0;
    if (*first == '0' && at - first > 1 && first[1] != '.') return 0;
    u128 limit = 1;
    for (int64_t digits = 0; digits < precision; digits++) limit *= 10;
    for (; places < scale; places++) {
        if (read >= limit / 10) return 0;
        read *= 10;
    }
    if (read >= limit) return 0;
    *value = is_negative ? 0 - read : read;
    return 1;
}

#endif
