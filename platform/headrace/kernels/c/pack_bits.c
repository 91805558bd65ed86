/* Bytes that are 0 or 1 as a bitmap in Arrow's order: the first one in the lowest bit. */
#include "words.h"

EXPORT void headrace_pack_bits(const uint8_t *flags, int64_t count, uint8_t *bits);

EXPORT void headrace_pack_bits(const uint8_t *flags, int64_t count, uint8_t *bits) {
    int64_t whole = count / 8;
    for (int64_t index = 0; index < whole; index++) {
        /* the product moves the lowest bit of each byte to the highest byte, that of the first byte to its lowest
         * bit */
        bits[index] = (uint8_t)(load_word(flags + index * 8) * 0x0102040810204080U >> 56);
    }
    if (count % 8) {
        uint8_t last = 0;
        for (int64_t place = 0; place < count % 8; place++) last |= (uint8_t)(flags[whole * 8 + place] << place);
        bits[whole] = last;
    }
}
