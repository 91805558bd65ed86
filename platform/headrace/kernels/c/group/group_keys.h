/* Distinct keys, numbered in the order in which they appear: a hash table with linear probing.
 *
 * A key is a record of words: one word for a column of 4 or 8 bytes, two for one of 16 bytes or a text. A record
 * contains a text of up to 12 bytes as a view does; for a longer text it has the length, the first bytes, and the place
 * of a copy. A NULL has words of 0 and its bit in the key's null mask.
 *
 * Keys are untrusted input, which must not be able to choose colliding keys: the hash has a secret seed. */
#ifndef HEADRACE_GROUP_KEYS_H
#define HEADRACE_GROUP_KEYS_H

#include "arrow.h"
#include "group/growing.h"

#define KEYS_MAX 8
#define WORDS_MAX 16
#define BLOCK_ROWS 256
#define GROUPS_MAX ((int64_t)1 << 31)
#define NO_GROUP UINT32_MAX
#define INLINE_TEXT 12
#define PROBE_AHEAD 12

typedef struct {
    int64_t count;                /* key columns */
    int64_t words;                /* of a record */
    int64_t forms[KEYS_MAX];
    uint64_t seed[2];
    uint64_t *slots;              /* high half: 24 bits of the hash and the null mask; low half: group + 1, or 0 */
    int64_t slots_max;            /* a power of two, at least twice groups_max */
    int64_t groups;
    int64_t groups_max;
    uint64_t *records;
    uint64_t *hashes;
    uint8_t *nulls;
    uint8_t *text;
    int64_t text_bytes;
    int64_t text_bytes_max;
} group_keys_t;

/* The keys of the rows of one block, as records. */
typedef struct {
    uint64_t records[BLOCK_ROWS * WORDS_MAX];
    uint64_t hashes[BLOCK_ROWS];
    uint32_t groups[BLOCK_ROWS];
    uint8_t nulls[BLOCK_ROWS];
} key_block_t;

ALWAYS_INLINE uint64_t hash_word(const group_keys_t *keys, uint64_t hash, uint64_t word) {
    return folded(hash ^ keys->seed[0], word ^ keys->seed[1]);
}

static uint64_t hash_text(const group_keys_t *keys, const uint8_t *bytes, int64_t length) {
    uint64_t hash = (uint64_t)length;
    for (; length >= 8; bytes += 8, length -= 8) hash = hash_word(keys, hash, load_word(bytes));
    uint64_t rest = 0;
    memcpy(&rest, bytes, (size_t)length);
    return hash_word(keys, hash, rest);
}

/* Allocates slots for `groups` groups and enters all groups again; returns 0 if there is no memory. */
static int enter_slots(group_keys_t *keys, int64_t slots_max) {
    uint64_t *slots = calloc((size_t)slots_max, sizeof *slots);
    if (slots == NULL) return 0;
    uint64_t mask = (uint64_t)slots_max - 1;
    for (int64_t group = 0; group < keys->groups; group++) {
        uint64_t hash = keys->hashes[group], slot = hash & mask;
        while (slots[slot]) slot = (slot + 1) & mask;
        slots[slot] = (hash >> 40 << 40) | (uint64_t)keys->nulls[group] << 32 | (uint64_t)(group + 1);
    }
    free(keys->slots);
    keys->slots = slots;
    keys->slots_max = slots_max;
    return 1;
}

/* Empties all slots. Each key is in an unbroken run of slots from the slot of its hash on. A table with few keys is
 * cleared run by run: if an earlier step has broken a run, it has cleared the slots after the gap. */
static void clear_slots(group_keys_t *keys) {
    if (keys->groups > keys->slots_max / 16) {
        memset(keys->slots, 0, (size_t)keys->slots_max * sizeof *keys->slots);
        return;
    }
    uint64_t mask = (uint64_t)keys->slots_max - 1;
    for (int64_t group = 0; group < keys->groups; group++)
        for (uint64_t slot = keys->hashes[group] & mask; keys->slots[slot]; slot = (slot + 1) & mask)
            keys->slots[slot] = 0;
}

/* Reserves room for one more block of new keys; returns 0 if there is no memory, and leaves the table unchanged. */
static int keys_reserve(group_keys_t *keys) {
    int64_t needed = keys->groups + BLOCK_ROWS;
    if (likely(needed <= keys->groups_max)) return 1;
    int64_t groups_max = room_for(needed);
    if (groups_max > GROUPS_MAX) return 0;
    if (!grow_to(&keys->records, groups_max * (keys->words ? keys->words : 1), 8) ||
        !grow_to(&keys->hashes, groups_max, 8) || !grow_to(&keys->nulls, groups_max, 1) ||
        !enter_slots(keys, groups_max * 2))
        return 0;
    keys->groups_max = groups_max;
    return 1;
}

static int text_reserve(group_keys_t *keys, int64_t more) {
    if (keys->text_bytes + more <= keys->text_bytes_max) return 1;
    int64_t needed = keys->text_bytes_max ? keys->text_bytes_max : 4096;
    while (needed < keys->text_bytes + more) needed *= 2;
    if (!grow_to(&keys->text, needed, 1)) return 0;
    keys->text_bytes_max = needed;
    return 1;
}

/* Bytes that the table holds. */
static inline int64_t keys_bytes(const group_keys_t *keys) {
    return keys->groups_max * (keys->words * 8 + 9) + keys->slots_max * 8 + keys->text_bytes_max;
}

static void keys_free(group_keys_t *keys) {
    free(keys->slots);
    free(keys->records);
    free(keys->hashes);
    free(keys->nulls);
    free(keys->text);
}

/* Row `place` of a block is row `rows[place]` of its columns, or row `place` where `rows` is NULL. */
ALWAYS_INLINE int64_t row_at(const uint32_t *rows, int64_t place) { return rows ? (int64_t)rows[place] : place; }

ALWAYS_INLINE void fill_fixed(const column_view_t *column, const uint32_t *rows, int64_t count, key_block_t *block,
                              int64_t words, int64_t word, uint8_t bit, int64_t bytes) {
    for (int64_t place = 0; place < count; place++) {
        int64_t row = row_at(rows, place);
        uint64_t *record = block->records + place * words + word;
        if (unlikely(!is_valid(column, row))) {
            block->nulls[place] |= bit;
            record[0] = 0;
            if (bytes == 16) record[1] = 0;
            continue;
        }
        if (bytes == 4) {
            record[0] = load_uint32(column->values + row * 4);
        } else {
            record[0] = load_word(column->values + row * bytes);
            if (bytes == 16) record[1] = load_word(column->values + row * 16 + 8);
        }
    }
}

/* The second word of a long text is the address of its bytes until the key has its group. */
static void fill_text(const column_view_t *column, const uint32_t *rows, int64_t count, key_block_t *block,
                      int64_t words, int64_t word, uint8_t bit) {
    for (int64_t place = 0; place < count; place++) {
        int64_t row = row_at(rows, place);
        uint64_t *record = block->records + place * words + word;
        record[0] = record[1] = 0;
        if (unlikely(!is_valid(column, row))) {
            block->nulls[place] |= bit;
            continue;
        }
        const uint8_t *view = column->values + row * 16, *bytes = view_bytes(column->texts, view);
        uint32_t length = load_uint32(view);
        memcpy(record, &length, 4);
        if (length <= INLINE_TEXT) {
            memcpy((uint8_t *)record + 4, bytes, length);
        } else {
            memcpy((uint8_t *)record + 4, bytes, 4);
            record[1] = (uint64_t)(uintptr_t)bytes;
        }
    }
}

static inline int64_t text_length(const uint64_t *record) { return (int64_t)(record[0] & 0xffffffffU); }

/* Hashes of the block's records. */
static void hash_block(const group_keys_t *keys, int64_t count, key_block_t *block) {
    if (keys->words == 1) {
        for (int64_t place = 0; place < count; place++)
            block->hashes[place] = hash_word(keys, block->nulls[place], block->records[place]);
        return;
    }
    for (int64_t place = 0; place < count; place++) {
        const uint64_t *record = block->records + place * keys->words;
        uint64_t hash = block->nulls[place];
        for (int64_t key = 0; key < keys->count; key++) {
            if (keys->forms[key] == FORM_TEXT && text_length(record) > INLINE_TEXT) {
                hash = hash_word(keys, hash, hash_text(keys, (const uint8_t *)(uintptr_t)record[1],
                                                       text_length(record)));
                record += 2;
                continue;
            }
            hash = hash_word(keys, hash, *record++);
            if (form_bytes(keys->forms[key]) == 16) hash = hash_word(keys, hash, *record++);
        }
        block->hashes[place] = hash;
    }
}

ALWAYS_INLINE int same_words(const uint64_t *first, const uint64_t *second, int64_t words) {
    for (int64_t word = 0; word < words; word++)
        if (first[word] != second[word]) return 0;
    return 1;
}

/* Whether a block's record has the key of a group. The tag, compared before, includes the null mask. */
static int same_key(const group_keys_t *keys, const uint64_t *group, const uint64_t *record) {
    for (int64_t key = 0; key < keys->count; key++) {
        int64_t form = keys->forms[key];
        if (group[0] != record[0]) return 0;
        if (form == FORM_TEXT && text_length(record) > INLINE_TEXT) {
            if (memcmp(keys->text + group[1], (const uint8_t *)(uintptr_t)record[1], (size_t)text_length(record)))
                return 0;
        } else if (form_bytes(form) == 16 && group[1] != record[1]) {
            return 0;
        }
        int64_t words = form_bytes(form) == 16 ? 2 : 1;
        group += words;
        record += words;
    }
    return 1;
}

/* Appends a key; room for it and for its texts was reserved. */
static void append_key(group_keys_t *keys, const uint64_t *record, uint64_t hash, uint8_t nulls) {
    int64_t group = keys->groups++;
    uint64_t *kept = keys->records + group * keys->words;
    memcpy(kept, record, (size_t)keys->words * sizeof *kept);
    keys->hashes[group] = hash;
    keys->nulls[group] = nulls;
    for (int64_t key = 0; key < keys->count; key++) {
        if (keys->forms[key] == FORM_TEXT && text_length(kept) > INLINE_TEXT) {
            int64_t length = text_length(kept);
            memcpy(keys->text + keys->text_bytes, (const uint8_t *)(uintptr_t)kept[1], (size_t)length);
            kept[1] = (uint64_t)keys->text_bytes;
            keys->text_bytes += length;
        }
        kept += form_bytes(keys->forms[key]) == 16 ? 2 : 1;
    }
}

/* The group of each record; a new key is added, or has NO_GROUP where `adds` is 0. `words` is 1 or 2 for keys without
 * texts, else 0. The table has slots. */
ALWAYS_INLINE void find_groups(group_keys_t *keys, int64_t count, key_block_t *block, int64_t words, int adds) {
    uint64_t mask = (uint64_t)keys->slots_max - 1;
    int64_t width = words ? words : keys->words;
    for (int64_t place = 0; place < count; place++) __builtin_prefetch(keys->slots + (block->hashes[place] & mask));
    for (int64_t place = 0; place < count; place++) {
        if (place + PROBE_AHEAD < count) {
            uint64_t ahead = keys->slots[block->hashes[place + PROBE_AHEAD] & mask] & 0xffffffffU;
            __builtin_prefetch(keys->records + (int64_t)ahead * width);
        }
        const uint64_t *record = block->records + place * width;
        uint64_t hash = block->hashes[place], slot = hash & mask;
        uint64_t tag = (hash >> 40 << 8) | block->nulls[place];
        for (;; slot = (slot + 1) & mask) {
            uint64_t entry = keys->slots[slot];
            if (entry == 0) {
                block->groups[place] = NO_GROUP;
                if (!adds) break;
                append_key(keys, record, hash, block->nulls[place]);
                keys->slots[slot] = tag << 32 | (uint64_t)keys->groups;
                block->groups[place] = (uint32_t)(keys->groups - 1);
                break;
            }
            uint32_t group = (uint32_t)(entry & 0xffffffffU) - 1;
            const uint64_t *kept = keys->records + (int64_t)group * width;
            if (entry >> 32 == tag && (words ? same_words(kept, record, words) : same_key(keys, kept, record))) {
                block->groups[place] = group;
                break;
            }
        }
    }
}

static int has_text(const group_keys_t *keys) {
    for (int64_t key = 0; key < keys->count; key++)
        if (keys->forms[key] == FORM_TEXT) return 1;
    return 0;
}

/* The bytes of the long texts in the keys of a row. */
static inline int64_t row_text_bytes(const group_keys_t *keys, const column_view_t *views, int64_t row) {
    int64_t bytes = 0;
    for (int64_t key = 0; key < keys->count; key++) {
        if (keys->forms[key] != FORM_TEXT || !is_valid(views + key, row)) continue;
        int64_t length = load_uint32(views[key].values + row * 16);
        if (length > INLINE_TEXT) bytes += length;
    }
    return bytes;
}

/* Makes records of the keys of a block of at most BLOCK_ROWS rows, and hashes them. */
static void read_keys(const group_keys_t *keys, const column_view_t *columns, const uint32_t *rows, int64_t count,
                      key_block_t *block) {
    int64_t word = 0;
    memset(block->nulls, 0, (size_t)count);
    for (int64_t key = 0; key < keys->count; key++) {
        uint8_t bit = (uint8_t)(1 << key);
        int64_t form = keys->forms[key], bytes = form_bytes(form);
        if (form == FORM_TEXT) {
            fill_text(columns + key, rows, count, block, keys->words, word, bit);
        } else if (bytes == 8 && keys->words == 1) {
            fill_fixed(columns + key, rows, count, block, 1, 0, bit, 8);
        } else {
            fill_fixed(columns + key, rows, count, block, keys->words, word, bit, bytes);
        }
        word += bytes == 16 ? 2 : 1;
    }
    hash_block(keys, count, block);
}

/* Finds the keys of a block of at most BLOCK_ROWS rows. New keys are added where `adds` is 1, for which room was
 * reserved; else they have NO_GROUP. */
ALWAYS_INLINE void look_up(group_keys_t *keys, const column_view_t *columns, const uint32_t *rows, int64_t count,
                           key_block_t *block, int adds) {
    int64_t words = has_text(keys) ? 0 : keys->words;
    read_keys(keys, columns, rows, count, block);
    if (words == 1) {
        find_groups(keys, count, block, 1, adds);
    } else if (words == 2) {
        find_groups(keys, count, block, 2, adds);
    } else {
        find_groups(keys, count, block, 0, adds);
    }
}

/* Numbers the keys of a block, for which room was reserved. */
static void number_keys(group_keys_t *keys, const column_view_t *columns, const uint32_t *rows, int64_t count,
                        key_block_t *block) {
    look_up(keys, columns, rows, count, block, 1);
}

/* The numbers of the keys of a block; NO_GROUP for a key that the table does not have. */
static inline void find_keys(group_keys_t *keys, const column_view_t *columns, int64_t count, key_block_t *block) {
    if (keys->groups > 0) {
        look_up(keys, columns, NULL, count, block, 0);
    } else {
        for (int64_t place = 0; place < count; place++) block->groups[place] = NO_GROUP;
    }
}

#endif
