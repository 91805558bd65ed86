/* The stable order of rows by word: a radix sort from the highest byte down, whose parts soon fit into caches. Hashes
 * take three passes; words that are alike in their high bytes cost one count of bytes each. */
#include "words.h"

#include <stdlib.h>

#define BUCKETS 256
#define INSERTION_ROWS_MAX 32

EXPORT int64_t headrace_run_sorted_order(const uint64_t *words, int64_t count, uint32_t *order);

typedef struct {
    uint64_t word;
    uint32_t row;
} item_t;

static void sort_buckets(item_t *items, const int64_t *ends, int shift, item_t *spare);

ALWAYS_INLINE size_t bucket_of(uint64_t word, int shift) { return (size_t)(word >> shift & (BUCKETS - 1)); }

static void insert_sorted(item_t *items, int64_t count) {
    for (int64_t index = 1; index < count; index++) {
        item_t item = items[index];
        int64_t place = index;
        for (; place > 0 && items[place - 1].word > item.word; place--) items[place] = items[place - 1];
        items[place] = item;
    }
}

/* Turns counts into begins; returns the largest count. */
static int64_t begins_of(int64_t *counts) {
    int64_t begin = 0, largest = 0;
    for (int bucket = 0; bucket < BUCKETS; bucket++) {
        int64_t count = counts[bucket];
        counts[bucket] = begin;
        begin += count;
        largest = count > largest ? count : largest;
    }
    return largest;
}

/* Sorts more than INSERTION_ROWS_MAX items by the lowest `shift + 8` bits. `spare` has room for as many. */
static void sort_items(item_t *items, int64_t count, int shift, item_t *spare) {
    int64_t counts[BUCKETS] = {0};
    for (int64_t index = 0; index < count; index++) counts[bucket_of(items[index].word, shift)]++;
    if (begins_of(counts) < count) {
        for (int64_t index = 0; index < count; index++)
            spare[counts[bucket_of(items[index].word, shift)]++] = items[index];
        memcpy(items, spare, (size_t)count * sizeof *items);
    } else {
        counts[bucket_of(items[0].word, shift)] = count;
    }
    if (shift > 0) sort_buckets(items, counts, shift - 8, spare);
}

/* Sorts each bucket: it begins at the end of the bucket before, and ends at `ends`. */
static void sort_buckets(item_t *items, const int64_t *ends, int shift, item_t *spare) {
    for (int64_t bucket = 0, begin = 0; bucket < BUCKETS; begin = ends[bucket++]) {
        int64_t count = ends[bucket] - begin;
        if (count > INSERTION_ROWS_MAX) sort_items(items + begin, count, shift, spare);
        else insert_sorted(items + begin, count);
    }
}

/* Writes the rows in the order of their words, rows with equal words in their order. Returns 0 if there is no memory:
 * it takes 16 bytes a row, and as much again for the largest part with the same first byte. */
EXPORT int64_t headrace_run_sorted_order(const uint64_t *words, int64_t count, uint32_t *order) {
    int64_t counts[BUCKETS] = {0};
    for (int64_t row = 0; row < count; row++) counts[bucket_of(words[row], 56)]++;
    int64_t largest = begins_of(counts);
    item_t *items = malloc((size_t)(count + largest + 1) * sizeof *items);
    if (items == NULL) return 0;
    for (int64_t row = 0; row < count; row++) {
        item_t *item = items + counts[bucket_of(words[row], 56)]++;
        item->word = words[row];
        item->row = (uint32_t)row;
    }
    sort_buckets(items, counts, 48, items + count);
    for (int64_t row = 0; row < count; row++) order[row] = items[row].row;
    free(items);
    return 1;
}
