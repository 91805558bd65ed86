/* Aggregates rows by key: a table with the groups of all added rows, in the order of their first appearance.
 *
 * A table lives across calls. `headrace_groups_new` allocates it, `headrace_groups_free` frees it; its Python owner
 * (`kernels/group/group_by.py`) bounds its size and calls both. One thread at a time may use a table. If a call returns
 * STATUS_NO_MEMORY, some rows of its batch may be in the table, so the table is unusable. */
#include "group/accumulators.h"

#define TABLES_MAX 8
#define ACCUMULATORS_MAX 4096

enum status { STATUS_ADDED, STATUS_FULL, STATUS_NO_MEMORY, STATUS_UNFIT };

typedef struct {
    group_keys_t keys;
    int64_t rows;         /* added since the last reset */
    int64_t groups_max;   /* of the accumulators */
    int64_t text_bytes_max;
    int64_t limb_bytes_max;
    int64_t made_count;
    accumulator_t *made;
    key_block_t block;
} group_table_t;

/* A table, and the time range [begin, end) of the rows that are added to it. */
typedef struct {
    group_table_t *table;
    int64_t begin;
    int64_t end;
} pane_t;

/* One batch that is added to tables of one grouping. */
typedef struct {
    arrow_stream_t *stream;
    const int64_t *columns;   /* of each key and of each accumulator, in the stream; -1: absent, it adds nothing */
    int64_t time_column;      /* -1: the rows are not placed, all go to the first table */
    int64_t pane_count;
    pane_t panes[TABLES_MAX];
    uint32_t *groups;         /* NULL, or the group of each row is written here; the rows are not placed then */
    int64_t groups_written;
    /* where a batch stands that is not in the tables yet */
    int64_t is_open;
    int64_t row;
    arrow_array_t array;
} add_t;

typedef struct {
    int64_t nulls;
    int64_t low;
    int64_t width;
    int64_t has_others;
    uint8_t is_used[LIMBS_MAX];
} made_description_t;

typedef struct {
    int64_t groups;
    int64_t rows;
    int64_t text_bytes;
    int64_t key_nulls[KEYS_MAX];
    made_description_t *made;
} description_t;

/* The memory of an output column: its values, and the bitmap of its valid rows or NULL. */
typedef struct {
    uint8_t *values;
    uint8_t *valid;
} target_t;

EXPORT group_table_t *headrace_groups_new(const int64_t *key_forms, int64_t key_count, const int64_t *made,
                                          int64_t made_count, const uint64_t *seed, int64_t text_bytes_max,
                                          int64_t limb_bytes_max);
EXPORT void headrace_groups_abandon(add_t *add);
EXPORT void headrace_groups_free(group_table_t *table);
EXPORT void headrace_groups_reset(group_table_t *table);
EXPORT int64_t headrace_groups_add(add_t *add);
EXPORT void headrace_groups_size(const group_table_t *table, int64_t *sizes);
EXPORT int64_t headrace_groups_describe(group_table_t *table, const uint32_t *chosen, int64_t count,
                                        description_t *description);
EXPORT void headrace_groups_write(const group_table_t *table, const uint32_t *chosen, int64_t count,
                                  const description_t *description, const target_t *targets, uint8_t *text);

/* made: action and form of each accumulator; text_bytes_max: of the texts of all keys, below 2^31; limb_bytes_max: of
 * the limbs of all tables of one batch. NULL: there is no memory, or no such key or aggregate. */
EXPORT group_table_t *headrace_groups_new(const int64_t *key_forms, int64_t key_count, const int64_t *made,
                                          int64_t made_count, const uint64_t *seed, int64_t text_bytes_max,
                                          int64_t limb_bytes_max) {
    if (key_count < 0 || key_count > KEYS_MAX || made_count < 0 || made_count > ACCUMULATORS_MAX) return NULL;
    if (text_bytes_max < 0 || text_bytes_max > INT32_MAX) return NULL;
    group_table_t *table = calloc(1, sizeof *table);
    if (table == NULL) return NULL;
    table->keys.count = key_count;
    table->keys.seed[0] = seed[0];
    table->keys.seed[1] = seed[1];
    table->text_bytes_max = text_bytes_max;
    table->limb_bytes_max = limb_bytes_max;
    for (int64_t key = 0; key < key_count; key++) {
        int64_t bytes = form_bytes(key_forms[key]);
        table->keys.forms[key] = key_forms[key];
        table->keys.words += bytes == 16 ? 2 : 1;
        if (bytes == 0) goto refused;
    }
    table->made = calloc((size_t)made_count + 1, sizeof *table->made);
    if (table->made == NULL) goto refused;
    table->made_count = made_count;
    for (int64_t index = 0; index < made_count; index++) {
        table->made[index].action = made[index * 2];
        table->made[index].form = made[index * 2 + 1];
        if (!is_accumulator(made[index * 2], made[index * 2 + 1])) goto refused;
    }
    return table;
refused:
    free(table->made);
    free(table);
    return NULL;
}

EXPORT void headrace_groups_free(group_table_t *table) {
    keys_free(&table->keys);
    for (int64_t index = 0; index < table->made_count; index++) accumulator_free(table->made + index);
    free(table->made);
    free(table);
}

/* Forgets all groups and keeps the memory, but for that of wide limbs. */
EXPORT void headrace_groups_reset(group_table_t *table) {
    group_keys_t *keys = &table->keys;
    for (int64_t index = 0; index < table->made_count; index++) limbs_reset(&table->made[index].sum, keys->groups);
    clear_slots(keys);
    keys->groups = 0;
    keys->text_bytes = 0;
    table->rows = 0;
}

static int table_reserve(group_table_t *table, int64_t count) {
    if (!keys_reserve(&table->keys)) return 0;
    for (int64_t index = 0; index < table->made_count; index++)
        if (!limbs_reserve(&table->made[index].sum, table->keys.groups + count)) return 0;
    if (likely(table->groups_max == table->keys.groups_max)) return 1;
    for (int64_t index = 0; index < table->made_count; index++)
        if (!accumulator_reserve(table->made + index, table->keys.groups_max)) return 0;
    table->groups_max = table->keys.groups_max;
    return 1;
}

/* Adds one block of at most BLOCK_ROWS rows; 0 where there is no memory. Room for its texts was reserved. */
static int add_block(group_table_t *table, const column_view_t *views, const uint32_t *rows, int64_t count) {
    if (!table_reserve(table, count)) return 0;
    group_keys_t *keys = &table->keys;
    int64_t before = keys->groups;
    number_keys(keys, views, rows, count, &table->block);
    table->rows += count;
    for (int64_t index = 0; index < table->made_count; index++) {
        accumulator_t *made = table->made + index;
        block_values_t block = {views + keys->count + index, rows, table->block.groups, count};
        accumulator_begin(made, before, keys->groups);
        if (block.column->is_absent && made->action != ACTION_COUNT_ROWS) continue;
        if (!accumulate(made, &block, keys->groups)) return 0;
    }
    return 1;
}

/* The first rows, of `count`, whose long texts have at most `bytes_max` bytes together; text_bytes: those that they
 * have. */
static int64_t rows_within(const group_keys_t *keys, const column_view_t *views, int64_t count, int64_t bytes_max,
                           int64_t *text_bytes) {
    *text_bytes = 0;
    if (!has_text(keys)) return count;
    for (int64_t row = 0; row < count; row++) {
        int64_t more = row_text_bytes(keys, views, row);
        if (*text_bytes + more > bytes_max) return row;
        *text_bytes += more;
    }
    return count;
}

/* Whether all limbs keep to their bytes once `count` rows are added to every table. Tables without groups take any
 * block, so that a batch gets on. */
static int limbs_fit(const add_t *add, const column_view_t *views, int64_t count) {
    const group_table_t *first = add->panes[0].table;
    int64_t held = 0, rooms = 0, sums = 0, bytes = 0;
    for (int64_t index = 0; index < add->pane_count; index++) {
        held += add->panes[index].table->keys.groups;
        rooms += room_for(add->panes[index].table->keys.groups + count);
    }
    for (int64_t index = 0; index < first->made_count; index++) sums += is_exact_sum(first->made + index);
    /* few groups: their values need no look */
    if (held == 0 || rooms * sums <= first->limb_bytes_max / (LIMBS_MAX * 8)) return 1;
    for (int64_t index = 0; index < first->made_count; index++) {
        if (!is_exact_sum(first->made + index)) continue;
        limb_range_t more = limbs_of_rows(first->made + index, views + first->keys.count + index, count);
        for (int64_t pane = 0; pane < add->pane_count; pane++) {
            const group_table_t *table = add->panes[pane].table;
            limb_range_t limbs = limbs_with(&table->made[index].sum, more);
            int64_t width = limbs.first <= limbs.last ? limbs.last - limbs.first + 1 : 0;
            bytes += room_for(table->keys.groups + count) * width * 8;
        }
    }
    return bytes <= first->limb_bytes_max;
}

/* Adds one block to the tables by its times. All of its rows may be in one pane: then it needs no list of rows. */
static int add_placed(add_t *add, const column_view_t *views, const column_view_t *times, int64_t count) {
    uint32_t rows[BLOCK_ROWS];
    for (int64_t index = 0; index < add->pane_count; index++) {
        const pane_t *pane = add->panes + index;
        int64_t inside = 0;
        for (int64_t row = 0; row < count; row++) {
            int64_t time = (int64_t)load_word(times->values + row * 8);
            rows[inside] = (uint32_t)row;
            inside += time >= pane->begin && time < pane->end && is_valid(times, row);
        }
        if (inside == 0) continue;
        if (!add_block(pane->table, views, inside == count ? NULL : rows, inside)) return 0;
        if (inside == count) break;
    }
    return 1;
}

/* Adds the open array from its row on. */
static int64_t add_array(add_t *add, column_view_t *views) {
    const group_table_t *first = add->panes[0].table;
    const group_keys_t *keys = &first->keys;
    for (; add->row < add->array.length; ) {
        int64_t left = add->array.length - add->row, count = left < BLOCK_ROWS ? left : BLOCK_ROWS;
        column_view_t times;
        for (int64_t index = 0; index < keys->count + first->made_count; index++) {
            int64_t form = index < keys->count ? keys->forms[index] : first->made[index - keys->count].form;
            views[index].is_absent = add->columns[index] < 0;
            if (views[index].is_absent) continue;
            if (!column_view(views + index, &add->array, add->columns[index], form, add->row)) return STATUS_UNFIT;
        }
        if (add->time_column >= 0 && !column_view(&times, &add->array, add->time_column, FORM_INT64, add->row))
            return STATUS_UNFIT;
        int64_t text;
        count = rows_within(keys, views, count, first->text_bytes_max, &text);
        if (count == 0 || !limbs_fit(add, views, count)) return STATUS_FULL;
        for (int64_t index = 0; index < add->pane_count && text; index++) {
            group_table_t *table = add->panes[index].table;
            if (table->keys.text_bytes + text > table->text_bytes_max) return STATUS_FULL;
            if (!text_reserve(&table->keys, text)) return STATUS_NO_MEMORY;
        }
        int is_added = add->time_column >= 0 ? add_placed(add, views, &times, count)
                                             : add_block(add->panes[0].table, views, NULL, count);
        if (!is_added) return STATUS_NO_MEMORY;
        if (add->groups != NULL) {
            memcpy(add->groups + add->groups_written, first->block.groups, (size_t)count * sizeof *add->groups);
            add->groups_written += count;
        }
        add->row += count;
    }
    return STATUS_ADDED;
}

/* Whether the stream has the columns that the tables read. */
static int fits(add_t *add) {
    const group_table_t *table = add->panes[0].table;
    arrow_schema_t schema;
    if (add->stream->get_schema(add->stream, &schema)) return 0;
    int is_fit = add->time_column < schema.n_children;
    for (int64_t index = 0; index < table->keys.count + table->made_count && is_fit; index++) {
        int64_t form = index < table->keys.count ? table->keys.forms[index]
                                                 : table->made[index - table->keys.count].form;
        int64_t column = add->columns[index];
        if (column >= schema.n_children) is_fit = 0;
        else if (column >= 0 && form == FORM_ANY) is_fit = strcmp(schema.children[column]->format, "n") != 0;
        else if (column >= 0) is_fit = form_of(schema.children[column]->format) == form;
        else if (column < 0) is_fit = index >= table->keys.count;
    }
    if (is_fit && add->time_column >= 0)
        is_fit = form_of(schema.children[add->time_column]->format) == FORM_INT64;
    if (schema.release != NULL) schema.release(&schema);
    return is_fit;
}

/* Adds the rows of a stream. STATUS_FULL: empty the tables and repeat the call, which continues. STATUS_UNFIT: the
 * columns do not have the types of the tables. */
EXPORT int64_t headrace_groups_add(add_t *add) {
    const group_table_t *table = add->panes[0].table;
    if (add->pane_count < 1 || add->pane_count > TABLES_MAX) return STATUS_UNFIT;
    if (!add->is_open && !fits(add)) return STATUS_UNFIT;
    column_view_t *views = calloc((size_t)(table->keys.count + table->made_count) + 1, sizeof *views);
    if (views == NULL) return STATUS_NO_MEMORY;
    int64_t status = STATUS_ADDED;
    for (;;) {
        if (!add->is_open) {
            add->row = 0;
            if (add->stream->get_next(add->stream, &add->array)) status = STATUS_UNFIT;
            if (status != STATUS_ADDED || add->array.release == NULL) break;
            add->is_open = 1;
        }
        status = add_array(add, views);
        if (status == STATUS_FULL) break;
        add->array.release(&add->array);
        add->is_open = 0;
        if (status != STATUS_ADDED) break;
    }
    free(views);
    return status;
}

/* Cancels an addition that is not finished. */
EXPORT void headrace_groups_abandon(add_t *add) {
    if (add->is_open && add->array.release != NULL) add->array.release(&add->array);
    add->is_open = 0;
}

/* Bytes that the table holds. */
static int64_t table_bytes(const group_table_t *table) {
    const group_keys_t *keys = &table->keys;
    int64_t bytes = (int64_t)sizeof *table + keys_bytes(keys);
    for (int64_t index = 0; index < table->made_count; index++) {
        const accumulator_t *made = table->made + index;
        bytes += (int64_t)sizeof *made + table->groups_max * (made_bytes(made) + is_extreme(made));
        bytes += made->sum.groups_max * (made->sum.width * 8 + (made->sum.others ? 24 : 0));
    }
    return bytes;
}

/* sizes: groups, rows added, bytes held. */
EXPORT void headrace_groups_size(const group_table_t *table, int64_t *sizes) {
    sizes[0] = table->keys.groups;
    sizes[1] = table->rows;
    sizes[2] = table_bytes(table);
}

static void describe_made(const accumulator_t *made, const uint32_t *chosen, int64_t count,
                          made_description_t *description) {
    const limbs_t *sum = &made->sum;
    memset(description, 0, sizeof *description);
    if (is_extreme(made))
        for (int64_t place = 0; place < count; place++) description->nulls += !made->seen[group_at(chosen, place)];
    description->low = sum->low;
    description->width = sum->width;
    description->has_others = sum->others != NULL;
    for (int64_t place = 0; place < count && sum->width; place++) {
        const int64_t *limbs = sum->limbs + group_at(chosen, place) * sum->width;
        for (int64_t limb = 0; limb < sum->width; limb++) description->is_used[limb] |= limbs[limb] != 0;
    }
}

/* The bytes of the long texts of a key column. */
static int64_t key_text_bytes(const group_keys_t *keys, int64_t word, const uint32_t *chosen, int64_t count) {
    int64_t bytes = 0;
    for (int64_t place = 0; place < count; place++) {
        int64_t length = text_length(keys->records + group_at(chosen, place) * keys->words + word);
        if (length > INLINE_TEXT) bytes += length;
    }
    return bytes;
}

/* Tells which columns `headrace_groups_write` writes of the chosen groups, or of all groups where `chosen` is NULL.
 * Carries their limbs; 0 where there is no memory for that. */
EXPORT int64_t headrace_groups_describe(group_table_t *table, const uint32_t *chosen, int64_t count,
                                        description_t *description) {
    const group_keys_t *keys = &table->keys;
    int64_t word = 0;
    if (chosen == NULL) count = keys->groups;
    description->groups = count;
    description->rows = table->rows;
    description->text_bytes = 0;
    for (int64_t key = 0; key < keys->count; key++) {
        int64_t nulls = 0, form = keys->forms[key];
        for (int64_t place = 0; place < count; place++) nulls += keys->nulls[group_at(chosen, place)] >> key & 1;
        description->key_nulls[key] = nulls;
        if (form == FORM_TEXT) description->text_bytes += key_text_bytes(keys, word, chosen, count);
        word += form_bytes(form) == 16 ? 2 : 1;
    }
    for (int64_t index = 0; index < table->made_count; index++) {
        accumulator_t *made = table->made + index;
        if (is_exact_sum(made) && !limbs_carry(&made->sum, keys->groups, chosen, count)) return 0;
        describe_made(made, chosen, count, description->made + index);
    }
    return 1;
}

/* Writes a key column; long texts go to `text` from `text_bytes` on. Returns where the next ones go. */
static int64_t write_key(const group_keys_t *keys, int64_t key, int64_t word, const uint32_t *chosen, int64_t count,
                         uint8_t *values, uint8_t *text, int64_t text_bytes) {
    int64_t form = keys->forms[key], bytes = form_bytes(form);
    for (int64_t place = 0; place < count; place++) {
        const uint64_t *record = keys->records + group_at(chosen, place) * keys->words + word;
        uint8_t *at = values + place * bytes;
        memcpy(at, record, (size_t)(bytes < 8 ? bytes : 8));
        if (bytes != 16) continue;
        uint64_t second = record[1];
        if (form == FORM_TEXT && text_length(record) > INLINE_TEXT) {
            /* the buffer's number, 0, and the place in it */
            memcpy(text + text_bytes, keys->text + second, (size_t)text_length(record));
            second = (uint64_t)text_bytes << 32;
            text_bytes += text_length(record);
        }
        store_word(at + 8, second);
    }
    return text_bytes;
}

static inline size_t bitmap_bytes(int64_t count) { return count > 0 ? ((size_t)count + 7) / 8 : 0; }

static void write_key_bits(const group_keys_t *keys, int64_t key, const uint32_t *chosen, int64_t count,
                           uint8_t *bits) {
    memset(bits, 0, bitmap_bytes(count));
    for (int64_t place = 0; place < count; place++)
        bits[place >> 3] |= (uint8_t)((~keys->nulls[group_at(chosen, place)] >> key & 1) << (place & 7));
}

/* `bytes` bytes of each group, from `first` of its `stride` bytes on. */
static void write_values(const uint8_t *from, int64_t stride, int64_t first, int64_t bytes, const uint32_t *chosen,
                         int64_t count, uint8_t *values) {
    /* a table without groups may have no memory */
    if (count <= 0) return;
    if (chosen == NULL && stride == bytes) {
        memcpy(values, from, (size_t)(count * bytes));
    } else if (bytes == 8) {
        for (int64_t place = 0; place < count; place++)
            memcpy(values + place * 8, from + group_at(chosen, place) * stride + first, 8);
    } else {
        for (int64_t place = 0; place < count; place++)
            memcpy(values + place * bytes, from + group_at(chosen, place) * stride + first, (size_t)bytes);
    }
}

/* Writes the columns of one accumulator; returns the target behind them. Limbs: those that are not 0 everywhere. */
static const target_t *write_made(const accumulator_t *made, const made_description_t *description,
                                  const uint32_t *chosen, int64_t count, const target_t *targets) {
    const limbs_t *sum = &made->sum;
    if (!is_exact_sum(made)) {
        int64_t bytes = made_bytes(made);
        write_values(made->values, bytes, 0, bytes, chosen, count, targets->values);
        if (targets->valid != NULL) {
            memset(targets->valid, 0, bitmap_bytes(count));
            for (int64_t place = 0; place < count; place++)
                targets->valid[place >> 3] |= (uint8_t)(made->seen[group_at(chosen, place)] << (place & 7));
        }
        return targets + 1;
    }
    for (int64_t limb = 0; limb < sum->width; limb++) {
        if (!description->is_used[limb]) continue;
        write_values((const uint8_t *)sum->limbs, sum->width * 8, limb * 8, 8, chosen, count, targets->values);
        targets++;
    }
    for (int64_t other = 0; other < 3 && sum->others != NULL; other++, targets++)
        write_values((const uint8_t *)sum->others, 24, other * 8, 8, chosen, count, targets->values);
    return targets;
}

/* Writes keys and aggregates as `headrace_groups_describe` described them. text: room for the bytes of long texts. */
EXPORT void headrace_groups_write(const group_table_t *table, const uint32_t *chosen, int64_t count,
                                  const description_t *description, const target_t *targets, uint8_t *text) {
    const group_keys_t *keys = &table->keys;
    int64_t word = 0, text_bytes = 0;
    if (chosen == NULL) count = keys->groups;
    for (int64_t key = 0; key < keys->count; key++, targets++) {
        text_bytes = write_key(keys, key, word, chosen, count, targets->values, text, text_bytes);
        if (targets->valid != NULL) write_key_bits(keys, key, chosen, count, targets->valid);
        word += form_bytes(keys->forms[key]) == 16 ? 2 : 1;
    }
    for (int64_t index = 0; index < table->made_count; index++)
        targets = write_made(table->made + index, description->made + index, chosen, count, targets);
}
