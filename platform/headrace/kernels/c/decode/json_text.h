/* JSON's text, strictly: blanks, literals, strings, and values that are skipped but checked.
 *
 * Each function reads from `at`, before the message's end, and returns the place after its token; NULL is doubt. */
#ifndef HEADRACE_JSON_TEXT_H
#define HEADRACE_JSON_TEXT_H

#include "text/utf8.h"
#include "words.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define SKIPPED_DEPTH_MAX 60 /* one bit a level in a word; deeper values are doubt */
#define SKIPPED_NUMBER_BYTES_MAX 40 /* a number of this length with at most two digits of an exponent is finite */

ALWAYS_INLINE int is_blank(uint8_t byte) { return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t'; }

ALWAYS_INLINE const uint8_t *skip_blanks(const uint8_t *at, const uint8_t *end) {
    while (at < end && is_blank(*at)) at++;
    return at;
}

ALWAYS_INLINE const uint8_t *skip_literal(const uint8_t *at, const uint8_t *end, const char *literal, int64_t length) {
    if (end - at < length || memcmp(at, literal, (size_t)length) != 0) return NULL;
    return at + length;
}

/* The first byte that is a quote, a backslash, a control character or not ASCII; `end` without one. */
ALWAYS_INLINE const uint8_t *plain_end(const uint8_t *at, const uint8_t *end) {
#ifdef __SSE2__
    while (end - at >= 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
        /* as signed numbers, control characters and bytes beyond ASCII are both below a blank */
        __m128i special = _mm_or_si128(_mm_cmplt_epi8(bytes, _mm_set1_epi8(0x20)),
                                       _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')),
                                                    _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'))));
        unsigned found = (unsigned)_mm_movemask_epi8(special);
        if (found) return at + __builtin_ctz(found);
        at += 16;
    }
#endif
    while (at < end && *at >= 0x20 && *at < 0x80 && *at != '"' && *at != '\\') at++;
    return at;
}

/* The first byte behind `at` that ends a run without escapes: the quote or a backslash. Checks UTF-8. */
ALWAYS_INLINE const uint8_t *run_end(const uint8_t *at, const uint8_t *end) {
    for (;;) {
        at = plain_end(at, end);
        if (unlikely(at >= end || *at < 0x20)) return NULL;
        if (likely(*at == '"' || *at == '\\')) return at;
        int64_t length = utf8_length(at, end);
        if (length == 0) return NULL;
        at += length;
    }
}

/* The number of four hexadecimal digits; -1 where one is none. */
static inline int32_t hex_digits(const uint8_t *at, const uint8_t *end) {
    if (end - at < 4) return -1;
    int32_t value = 0;
    for (int place = 0; place < 4; place++) {
        uint8_t digit = at[place], letter = digit | 0x20;
        if ((uint8_t)(digit - '0') <= 9) {
            value = value << 4 | (digit - '0');
        } else if (letter >= 'a' && letter <= 'f') {
            value = value << 4 | (letter - 'a' + 10);
        } else {
            return -1;
        }
    }
    return value;
}

/* The character of an escape, `at` at its backslash, into *character; a NUL and half a surrogate pair are doubt. */
static inline const uint8_t *read_escape(const uint8_t *at, const uint8_t *end, uint32_t *character) {
    if (end - at < 2) return NULL;
    switch (at[1]) {
    case '"': case '\\': case '/': *character = at[1]; return at + 2;
    case 'b': *character = '\b'; return at + 2;
    case 'f': *character = '\f'; return at + 2;
    case 'n': *character = '\n'; return at + 2;
    case 'r': *character = '\r'; return at + 2;
    case 't': *character = '\t'; return at + 2;
    case 'u': break;
    default: return NULL;
    }
    int32_t unit = hex_digits(at + 2, end);
    if (unit <= 0 || (unit >= 0xdc00 && unit <= 0xdfff)) return NULL;
    at += 6;
    *character = (uint32_t)unit;
    if (unit < 0xd800 || unit > 0xdfff) return at;
    if (end - at < 6 || at[0] != '\\' || at[1] != 'u') return NULL;
    int32_t low = hex_digits(at + 2, end);
    if (low < 0xdc00 || low > 0xdfff) return NULL;
    *character = 0x10000U + ((uint32_t)(unit - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
    return at + 6;
}

/* Behind the closing quote; `at` is behind the opening one. */
static inline const uint8_t *skip_string(const uint8_t *at, const uint8_t *end) {
    uint32_t character;
    while ((at = run_end(at, end)) != NULL) {
        if (*at == '"') return at + 1;
        if ((at = read_escape(at, end, &character)) == NULL) return NULL;
    }
    return NULL;
}

static inline const uint8_t *skip_number(const uint8_t *at, const uint8_t *end) {
    const uint8_t *first = at, *digits;
    at += *at == '-';
    digits = at;
    while (at < end && (uint8_t)(*at - '0') <= 9) at++;
    if (at == digits || (*digits == '0' && at - digits > 1)) return NULL;
    if (at < end && *at == '.') {
        digits = ++at;
        while (at < end && (uint8_t)(*at - '0') <= 9) at++;
        if (at == digits) return NULL;
    }
    if (at < end && (*at | 0x20) == 'e') {
        at++;
        if (at < end && (*at == '-' || *at == '+')) at++;
        digits = at;
        while (at < end && (uint8_t)(*at - '0') <= 9) at++;
        if (at == digits || at - digits > 2) return NULL;
    }
    return at - first <= SKIPPED_NUMBER_BYTES_MAX ? at : NULL;
}

/* A value that is neither list nor object. */
static inline const uint8_t *skip_scalar(const uint8_t *at, const uint8_t *end) {
    switch (*at) {
    case '"': return skip_string(at + 1, end);
    case 't': return skip_literal(at, end, "true", 4);
    case 'f': return skip_literal(at, end, "false", 5);
    case 'n': return skip_literal(at, end, "null", 4);
    default: return skip_number(at, end);
    }
}

/* Behind the key and colon at `at`, and the blanks around them. */
static inline const uint8_t *skip_key(const uint8_t *at, const uint8_t *end) {
    if (at >= end || *at != '"' || (at = skip_string(at + 1, end)) == NULL) return NULL;
    at = skip_blanks(at, end);
    return at < end && *at == ':' ? skip_blanks(at + 1, end) : NULL;
}

/* Any value, checked as strictly as one that is read. Keeps one bit a level: whether it is an object. */
static inline const uint8_t *skip_value(const uint8_t *at, const uint8_t *end) {
    uint64_t objects = 0;
    int depth = 0;
    for (;;) {
        if (at >= end) return NULL;
        if (*at == '{' || *at == '[') {
            int is_object = *at == '{';
            at = skip_blanks(at + 1, end);
            if (at < end && *at == (is_object ? '}' : ']')) {
                at++;
            } else {
                if (++depth > SKIPPED_DEPTH_MAX) return NULL;
                objects = objects << 1 | (uint64_t)is_object;
                if (is_object && (at = skip_key(at, end)) == NULL) return NULL;
                continue;
            }
        } else if ((at = skip_scalar(at, end)) == NULL) {
            return NULL;
        }
        for (;;) { /* behind a value: the containers that end here */
            if (depth == 0) return at;
            at = skip_blanks(at, end);
            if (at >= end) return NULL;
            int is_object = (int)(objects & 1);
            if (*at == ',') {
                at = skip_blanks(at + 1, end);
                if (is_object && (at = skip_key(at, end)) == NULL) return NULL;
                break;
            }
            if (*at != (is_object ? '}' : ']')) return NULL;
            at++;
            objects >>= 1;
            depth--;
        }
    }
}

#endif
