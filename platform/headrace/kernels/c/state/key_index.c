/* Numbers distinct keys in the order in which they first appear (`group/group_keys.h`). An index lives across calls:
 * `headrace_key_index_new` allocates it, `headrace_key_index_free` frees it; its Python owner bounds its size and calls
 * both. One thread at a time may use an index. */
#include "group/group_keys.h"

enum status { STATUS_DONE, STATUS_NO_MEMORY, STATUS_UNFIT };

typedef struct {
    group_keys_t keys;
    key_block_t block;
} key_index_t;

EXPORT key_index_t *headrace_key_index_new(const int64_t *forms, int64_t key_count, const uint64_t *seed);
EXPORT void headrace_key_index_free(key_index_t *index);
EXPORT void headrace_key_index_clear(key_index_t *index);
EXPORT int64_t headrace_key_index_keys(const key_index_t *index);
EXPORT int64_t headrace_key_index_bytes(const key_index_t *index);
EXPORT int64_t headrace_key_index_number(key_index_t *index, arrow_stream_t *stream, const int64_t *places,
                                         int64_t count, uint32_t *numbers);
EXPORT int64_t headrace_key_index_find(key_index_t *index, arrow_stream_t *stream, const int64_t *places,
                                       int64_t count, int64_t *numbers);

/* seed: two secret words. NULL: there is no memory, or no such key. */
EXPORT key_index_t *headrace_key_index_new(const int64_t *forms, int64_t key_count, const uint64_t *seed) {
    if (key_count < 0 || key_count > KEYS_MAX) return NULL;
    key_index_t *index = calloc(1, sizeof *index);
    if (index == NULL) return NULL;
    index->keys.count = key_count;
    index->keys.seed[0] = seed[0];
    index->keys.seed[1] = seed[1];
    for (int64_t key = 0; key < key_count; key++) {
        int64_t bytes = form_bytes(forms[key]);
        index->keys.forms[key] = forms[key];
        index->keys.words += bytes == 16 ? 2 : 1;
        if (bytes > 0) continue;
        free(index);
        return NULL;
    }
    return index;
}

EXPORT void headrace_key_index_free(key_index_t *index) {
    keys_free(&index->keys);
    free(index);
}

/* Removes all keys, and keeps the memory. */
EXPORT void headrace_key_index_clear(key_index_t *index) {
    clear_slots(&index->keys);
    index->keys.groups = 0;
    index->keys.text_bytes = 0;
}

EXPORT int64_t headrace_key_index_keys(const key_index_t *index) { return index->keys.groups; }

EXPORT int64_t headrace_key_index_bytes(const key_index_t *index) {
    return (int64_t)sizeof *index + keys_bytes(&index->keys);
}

/* ---- rows of a stream -------------------------------------------------------------------------------------------- */

/* What is done with the rows of one array; `begin` is the number of rows before it. Returns a status. */
typedef int64_t (*array_action_t)(key_index_t *index, const arrow_array_t *array, const int64_t *places, int64_t begin,
                                  void *numbers);

static int has_keys(const key_index_t *index, arrow_stream_t *stream, const int64_t *places) {
    arrow_schema_t schema;
    if (stream->get_schema(stream, &schema)) return 0;
    int is_fit = 1;
    for (int64_t key = 0; key < index->keys.count && is_fit; key++) {
        is_fit = places[key] >= 0 && places[key] < schema.n_children;
        is_fit = is_fit && form_of(schema.children[places[key]]->format) == index->keys.forms[key];
    }
    if (schema.release != NULL) schema.release(&schema);
    return is_fit;
}

/* Runs `action` for each array of a stream of `count` rows. */
static int64_t for_arrays(key_index_t *index, arrow_stream_t *stream, const int64_t *places, int64_t count,
                          array_action_t action, void *numbers) {
    if (!has_keys(index, stream, places)) return STATUS_UNFIT;
    for (int64_t begin = 0;;) {
        arrow_array_t array;
        if (stream->get_next(stream, &array)) return STATUS_UNFIT;
        if (array.release == NULL) return begin == count ? STATUS_DONE : STATUS_UNFIT;
        int64_t length = array.length;
        int64_t status = length <= count - begin ? action(index, &array, places, begin, numbers) : STATUS_UNFIT;
        array.release(&array);
        if (status != STATUS_DONE) return status;
        begin += length;
    }
}

/* The key columns of the block of rows from `row` on; returns 0 if one lacks the buffers of its form. */
static int block_views(const key_index_t *index, const arrow_array_t *array, const int64_t *places, int64_t row,
                       column_view_t *views) {
    for (int64_t key = 0; key < index->keys.count; key++)
        if (!column_view(views + key, array, places[key], index->keys.forms[key], row)) return 0;
    return 1;
}

static int64_t number_array(key_index_t *index, const arrow_array_t *array, const int64_t *places, int64_t begin,
                            void *numbers) {
    group_keys_t *keys = &index->keys;
    int is_text = has_text(keys);
    for (int64_t row = 0; row < array->length; row += BLOCK_ROWS) {
        int64_t left = array->length - row, count = left < BLOCK_ROWS ? left : BLOCK_ROWS, text = 0;
        column_view_t views[KEYS_MAX];
        if (!block_views(index, array, places, row, views)) return STATUS_UNFIT;
        for (int64_t place = 0; place < count && is_text; place++) text += row_text_bytes(keys, views, place);
        if (!keys_reserve(keys) || (text && !text_reserve(keys, text))) return STATUS_NO_MEMORY;
        number_keys(keys, views, NULL, count, &index->block);
        memcpy((uint32_t *)numbers + begin + row, index->block.groups, (size_t)count * sizeof(uint32_t));
    }
    return STATUS_DONE;
}

static int64_t find_array(key_index_t *index, const arrow_array_t *array, const int64_t *places, int64_t begin,
                          void *numbers) {
    int64_t *to = (int64_t *)numbers + begin;
    for (int64_t row = 0; row < array->length; row += BLOCK_ROWS) {
        int64_t left = array->length - row, count = left < BLOCK_ROWS ? left : BLOCK_ROWS;
        column_view_t views[KEYS_MAX];
        if (!block_views(index, array, places, row, views)) return STATUS_UNFIT;
        find_keys(&index->keys, views, count, &index->block);
        for (int64_t place = 0; place < count; place++) {
            uint32_t group = index->block.groups[place];
            to[row + place] = group == NO_GROUP ? -1 : (int64_t)group;
        }
    }
    return STATUS_DONE;
}

/* Writes the number of each of the `count` rows of a stream; keys that are not in the index are added. Returns a
 * status: after STATUS_NO_MEMORY some of the keys may be in the index. */
EXPORT int64_t headrace_key_index_number(key_index_t *index, arrow_stream_t *stream, const int64_t *places,
                                         int64_t count, uint32_t *numbers) {
    return for_arrays(index, stream, places, count, number_array, numbers);
}

/* Writes the number of each row, -1 for a key that is not in the index. Adds nothing. */
EXPORT int64_t headrace_key_index_find(key_index_t *index, arrow_stream_t *stream, const int64_t *places,
                                       int64_t count, int64_t *numbers) {
    return for_arrays(index, stream, places, count, find_array, numbers);
}
