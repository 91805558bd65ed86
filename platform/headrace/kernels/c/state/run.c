/* Opens and frees runs (`run.h`). */
#include "state/run.h"

#include <stdlib.h>

enum status { STATUS_OPEN, STATUS_NO_MEMORY, STATUS_UNFIT };

#define ROWS_PER_ENTRY_MIN 4

EXPORT run_t *headrace_run_open(arrow_stream_t *stream, const int64_t *places, int64_t key_count,
                                const uint64_t *words, int64_t rows, int64_t *status);
EXPORT void headrace_run_free(run_t *run);
EXPORT int64_t headrace_run_bytes(const run_t *run);

/* Opens column `index` for gathering; leaves its `bytes` at 0 if it is not gathered here. */
static void open_column(run_column_t *column, const arrow_schema_t *type, const arrow_array_t *rows, int64_t index) {
    const arrow_array_t *array = rows->children[index];
    int64_t bytes = strcmp(type->format, "_pli128") ? value_bytes(type->format) : 16;
    int is_text = type->format[0] == 'v';
    if (bytes <= 0 || type->dictionary != NULL || type->n_children > 0) return;
    if (!column_view(&column->view, rows, index, FORM_ANY, 0)) return;
    if (array->n_buffers < (is_text ? 3 : 2) || array->buffers[1] == NULL) return;
    column->view.values = (const uint8_t *)array->buffers[1] + (array->offset + rows->offset) * bytes;
    column->view.texts = array->buffers + 2;
    column->bytes = bytes;
    column->is_text = is_text;
}

/* Writes the directory; returns 0 if the words are not sorted. */
static int fill_directory(run_t *run) {
    uint64_t before = run->words[0], entry = 0;
    for (int64_t row = 0; row < run->rows; row++) {
        uint64_t word = run->words[row];
        if (word < before) return 0;
        before = word;
        while (entry <= (word >> run->shift) - run->first_entry) run->directory[entry++] = (entry_t){(uint32_t)row, 0};
        run->directory[entry - 1].low_bits |= low_bit(word);
    }
    while (entry <= run->entries) run->directory[entry++] = (entry_t){(uint32_t)run->rows, 0};
    return 1;
}

static int64_t open_directory(run_t *run) {
    uint64_t first = run->words[0], last = run->words[run->rows - 1];
    uint64_t entries_max = (uint64_t)run->rows / ROWS_PER_ENTRY_MIN;
    if (last < first) return STATUS_UNFIT;
    run->first_word = first;
    run->last_word = last;
    if (entries_max < 2) entries_max = 2;
    while ((last >> run->shift) - (first >> run->shift) >= entries_max) run->shift++;
    run->first_entry = first >> run->shift;
    run->entries = (last >> run->shift) - run->first_entry + 1;
    run->directory = malloc((size_t)(run->entries + 1) * sizeof *run->directory);
    if (run->directory == NULL) return STATUS_NO_MEMORY;
    return fill_directory(run) ? STATUS_OPEN : STATUS_UNFIT;
}

static int64_t open_run(run_t *run, const arrow_schema_t *schema, const int64_t *places, int64_t key_count) {
    if (!read_key_forms(&run->keys, schema, places, key_count)) return STATUS_UNFIT;
    run->columns = calloc((size_t)schema->n_children + 1, sizeof *run->columns);
    if (run->columns == NULL) return STATUS_NO_MEMORY;
    run->column_count = schema->n_children;
    if (run->rows == 0) return STATUS_OPEN;
    if (run->array.release == NULL || run->array.length != run->rows || run->array.n_children != schema->n_children)
        return STATUS_UNFIT;
    if (!read_key_views(&run->keys, &run->array, places)) return STATUS_UNFIT;
    for (int64_t index = 0; index < run->column_count; index++)
        open_column(run->columns + index, schema->children[index], &run->array, index);
    return run->words == NULL ? STATUS_OPEN : open_directory(run);
}

/* Opens the only array of a stream, of `rows` rows, as a run. words: of each row, ascending; NULL: the rows are only
 * gathered. The caller owns `words` and keeps them until `headrace_run_free`. Returns NULL with a status if there is no
 * memory, or if the array does not have such rows and keys, or if the words are not sorted. */
EXPORT run_t *headrace_run_open(arrow_stream_t *stream, const int64_t *places, int64_t key_count,
                                const uint64_t *words, int64_t rows, int64_t *status) {
    arrow_schema_t schema;
    *status = STATUS_UNFIT;
    if (rows < 0 || rows >= NO_ROW || stream->get_schema(stream, &schema)) return NULL;
    run_t *run = calloc(1, sizeof *run);
    if (run == NULL) {
        *status = STATUS_NO_MEMORY;
    } else {
        run->rows = rows;
        run->words = words;
        if (!stream->get_next(stream, &run->array)) *status = open_run(run, &schema, places, key_count);
        else run->array.release = NULL;
    }
    if (schema.release != NULL) schema.release(&schema);
    if (run == NULL || *status == STATUS_OPEN) return run;
    headrace_run_free(run);
    return NULL;
}

EXPORT void headrace_run_free(run_t *run) {
    if (run->array.release != NULL) run->array.release(&run->array);
    free(run->columns);
    free(run->directory);
    free(run);
}

/* Bytes that a run holds beside the exported array. */
EXPORT int64_t headrace_run_bytes(const run_t *run) {
    int64_t entries = run->directory == NULL ? 0 : (int64_t)run->entries + 1;
    return (int64_t)sizeof *run + run->column_count * (int64_t)sizeof *run->columns +
           entries * (int64_t)sizeof *run->directory;
}
