/* Text of valid UTF-8 as JSON writes it: quotes, backslashes and control characters are escaped, nothing else is. */
#ifndef HEADRACE_JSON_ESCAPE_H
#define HEADRACE_JSON_ESCAPE_H

#include "words.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define ESCAPED_BYTES_MAX 6 /* of one byte: \u001f */
#define OVERRUN_BYTES_MAX 16 /* a function may overwrite this many bytes after its text */
#define BLANKS 0x2020202020202020U

/* The highest bit of each byte that is escaped; above the first one, other bits may be set too. */
ALWAYS_INLINE uint64_t escaped_bytes(uint64_t word) {
    uint64_t quote = word ^ 0x2222222222222222U, backslash = word ^ 0x5c5c5c5c5c5c5c5cU;
    uint64_t is_control = (word - BLANKS) & ~word;
    uint64_t is_quote = (quote - 0x0101010101010101U) & ~quote;
    uint64_t is_backslash = (backslash - 0x0101010101010101U) & ~backslash;
    return (is_control | is_quote | is_backslash) & 0x8080808080808080U;
}

ALWAYS_INLINE int is_escaped(uint8_t byte) { return byte < 0x20 || byte == '"' || byte == '\\'; }

static inline uint8_t *write_escape(uint8_t *out, uint8_t byte) {
    static const uint8_t LETTERS[0x20] = {
        'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'b', 't', 'n', 'u', 'f', 'r', 'u', 'u',
        'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u',
    };
    *out++ = '\\';
    uint8_t letter = byte < 0x20 ? LETTERS[byte] : byte;
    *out++ = letter;
    if (letter != 'u') return out;
    out[0] = out[1] = '0';
    out[2] = (uint8_t)('0' + (byte >> 4));
    out[3] = (uint8_t)"0123456789abcdef"[byte & 15];
    return out + 4;
}

/* Byte by byte: writes nothing after the end of the text. */
static inline uint8_t *write_escaped_bytes(uint8_t *out, const uint8_t *at, int64_t length) {
    for (const uint8_t *end = at + length; at < end; at++) {
        if (is_escaped(*at)) {
            out = write_escape(out, *at);
        } else {
            *out++ = *at;
        }
    }
    return out;
}

static inline int64_t escaped_length(const uint8_t *at, int64_t length) {
    int64_t escaped = 0;
    for (int64_t place = 0; place < length; place++) {
        uint8_t byte = at[place];
        if (!is_escaped(byte)) {
            escaped += 1;
        } else {
            uint8_t text[ESCAPED_BYTES_MAX];
            escaped += write_escape(text, byte) - text;
        }
    }
    return escaped;
}

/* The first `count` bytes of a word, 0 to 8, and blanks behind them. */
ALWAYS_INLINE uint64_t first_bytes(uint64_t word, int64_t count) {
    uint64_t kept = count >= 8 ? UINT64_MAX : ((uint64_t)1 << 8 * count) - 1;
    return (word & kept) | (BLANKS & ~kept);
}

/* The text of a 16-byte view that holds it, of at most 12 bytes. */
ALWAYS_INLINE uint8_t *write_escaped_inline(uint8_t *out, const uint8_t *view, int64_t length) {
    uint64_t low = load_word(view), high = load_word(view + 8);
    uint64_t first = low >> 32 | high << 32, second = high >> 32;
    store_word(out, first);
    store_word(out + 8, second);
    uint64_t escaped = escaped_bytes(first_bytes(first, length));
    escaped |= escaped_bytes(first_bytes(second, length > 8 ? length - 8 : 0));
    return likely(!escaped) ? out + length : write_escaped_bytes(out, view + 4, length);
}

/* Text of at least 8 bytes. Writes up to OVERRUN_BYTES_MAX behind its end. */
static inline uint8_t *write_escaped(uint8_t *out, const uint8_t *at, int64_t length) {
    const uint8_t *end = at + length;
#ifdef __SSE2__
    while (end - at >= 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
        _mm_storeu_si128((__m128i *)(void *)out, bytes);
        /* unsigned: a byte below 0x20 is its minimum with 0x1f */
        __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
        __m128i escaped = _mm_or_si128(control, _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')),
                                                             _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'))));
        unsigned found = (unsigned)_mm_movemask_epi8(escaped);
        int plain = found ? __builtin_ctz(found) : 16;
        out += plain;
        at += plain;
        if (found) out = write_escape(out, *at++);
    }
#endif
    while (at < end) {
        int64_t left = end - at < 8 ? end - at : 8;
        /* the last bytes are read together with some in front of them, never with any behind */
        uint64_t word = load_word(at + left - 8) >> 8 * (8 - left);
        store_word(out, word);
        uint64_t escaped = escaped_bytes(first_bytes(word, left));
        int64_t plain = escaped ? __builtin_ctzll(escaped) / 8 : left;
        out += plain;
        at += plain;
        if (escaped) out = write_escape(out, *at++);
    }
    return out;
}

#endif
