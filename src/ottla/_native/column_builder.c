#include "column_builder.h"

#include <stdlib.h>
#include <string.h>

/* Below LEAST_POOLED, the blocks of the pool are too coarse, and malloc has its memory at hand. */
enum { FIRST_VALUES = 64, FIRST_BYTES = 4096, LEAST_POOLED = 1 << 16 };

static struct {
    void *(*take)(size_t size, size_t *capacity);
    void (*give)(void *block, size_t capacity);
} pool;

void column_builder_use_pool(void *(*take)(size_t, size_t *), void (*give)(void *, size_t))
{
    pool.take = take;
    pool.give = give;
}

/* A node's parts of the schema: what is in the format, without its children. */
static int read_format(struct column_builder *node, const char *format)
{
    static const struct {
        const char *format;
        enum column_kind kind;
        uint8_t width;
    } FORMATS[] = {
        {"n", COLUMN_NULL, 0},    {"b", COLUMN_BOOLEAN, 0}, {"c", COLUMN_INT8, 1},   {"s", COLUMN_INT16, 2},
        {"i", COLUMN_INT32, 4},   {"l", COLUMN_INT64, 8},   {"f", COLUMN_FLOAT, 4},  {"g", COLUMN_DOUBLE, 8},
        {"u", COLUMN_STRING, 0},  {"z", COLUMN_BINARY, 0},  {"tdD", COLUMN_DATE, 4}, {"+l", COLUMN_LIST, 0},
        {"+m", COLUMN_MAP, 0},    {"+s", COLUMN_STRUCT, 0},
        {"tsu:UTC", COLUMN_TIMESTAMP, 8}, {"tsu:", COLUMN_TIMESTAMP_NTZ, 8},
    };
    for (size_t i = 0; i < sizeof FORMATS / sizeof *FORMATS; i++)
        if (strcmp(format, FORMATS[i].format) == 0) {
            node->kind = FORMATS[i].kind;
            node->width = FORMATS[i].width;
            return 0;
        }
    if (strncmp(format, "d:", 2) == 0) {
        char *end;
        long precision = strtol(format + 2, &end, 10);
        long scale = *end == ',' ? strtol(end + 1, &end, 10) : -1;
        if (*end != 0 || precision < 1 || precision > 38 || scale < 0 || scale > precision)
            return -2;
        node->kind = COLUMN_DECIMAL;
        node->width = 16;
        node->precision = (uint8_t)precision;
        node->scale = (uint8_t)scale;
        return 0;
    }
    return -2;
}

static int is_plain(const char *name, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if ((uint8_t)name[i] < 0x20 || name[i] == '"' || name[i] == '\'' || name[i] == '\\')
            return 0;
    return 1;
}

static int has_offsets(const struct column_builder *node)
{
    return node->kind == COLUMN_STRING || node->kind == COLUMN_BINARY || node->kind == COLUMN_LIST
           || node->kind == COLUMN_MAP;
}

/* Lists have one child, maps one struct of two, which is what Arrow prescribes. */
static int children_fit(const struct column_builder *node, const struct ArrowSchema *schema)
{
    if (node->kind == COLUMN_STRUCT)
        return schema->n_children < INT32_MAX;
    if (node->kind == COLUMN_MAP)
        return schema->n_children == 1 && schema->children[0]->n_children == 2
               && strcmp(schema->children[0]->format, "+s") == 0
               && strcmp(schema->children[0]->children[0]->format, "u") == 0;
    return schema->n_children == (node->kind == COLUMN_LIST);
}

int column_builder_make(struct column_builder *node, const struct ArrowSchema *schema, int depth)
{
    memset(node, 0, sizeof *node);
    if (depth > COLUMN_MOST_NESTING || schema->dictionary != NULL || read_format(node, schema->format) < 0
        || !children_fit(node, schema))
        return -2;
    node->name = schema->name == NULL ? "" : schema->name;
    node->name_length = strlen(node->name);
    node->is_plain = (uint8_t)is_plain(node->name, node->name_length);
    if (schema->n_children > 0) {
        node->children = calloc((size_t)schema->n_children, sizeof *node->children);
        if (node->children == NULL)
            return -1;
    }
    for (int64_t i = 0; i < schema->n_children; i++) {
        int made = column_builder_make(&node->children[i], schema->children[i], depth + 1);
        if (made < 0) {
            column_builder_free(node);
            return made;
        }
        node->child_count++;
    }
    return 0;
}

int column_builder_holds(const struct column_builder *node, enum column_kind kind)
{
    if (node->kind == kind)
        return 1;
    for (int i = 0; i < node->child_count; i++)
        if (column_builder_holds(&node->children[i], kind))
            return 1;
    return 0;
}

static void free_buffer(void *buffer, size_t size)
{
    if (size >= LEAST_POOLED)
        pool.give(buffer, size);
    else
        free(buffer);
}

/* What has been moved out, or freed. */
static void forget_buffers(struct column_builder *node)
{
    node->validity_size = node->offsets_size = node->data_size = 0;
    node->validity = node->data = NULL;
    node->offsets = NULL;
    node->length = node->capacity = node->data_capacity = 0;
}

static void free_buffers(struct column_builder *node)
{
    free_buffer(node->validity, node->validity_size);
    free_buffer(node->offsets, node->offsets_size);
    free_buffer(node->data, node->data_size);
    forget_buffers(node);
}

void column_builder_free(struct column_builder *node)
{
    for (int i = 0; i < node->child_count; i++)
        column_builder_free(&node->children[i]);
    free(node->children);
    node->children = NULL;
    node->child_count = 0;
    free_buffers(node);
}

static void *grow_small(void *buffer, size_t *has, size_t size)
{
    void *grown = realloc(buffer, size);
    if (grown != NULL)
        *has = size;
    return grown;
}

/* All of a block is used, so that its size is its capacity. */
static void *grow_large(void *buffer, size_t *has, size_t size)
{
    size_t block = LEAST_POOLED, capacity;
    while (block < size)
        block *= 2;
    void *grown = pool.take(block, &capacity);
    if (grown == NULL)
        return NULL;
    if (*has > 0)
        memcpy(grown, buffer, *has);
    free_buffer(buffer, *has);
    *has = capacity;
    return grown;
}

/* Grows one buffer; the old one stays where there is no memory. */
static int grow(void *buffer, size_t *has, size_t size)
{
    void **at = buffer;
    if (size <= *has)
        return 0;
    void *grown = size < LEAST_POOLED ? grow_small(*at, has, size) : grow_large(*at, has, size);
    if (grown == NULL)
        return -1;
    *at = grown;
    return 0;
}

static size_t bits(int64_t values)
{
    return (size_t)(values + 7) / 8;
}

int column_builder_reserve(struct column_builder *node, int64_t values)
{
    if (values <= node->capacity)
        return 0;
    int64_t capacity = node->capacity * 2 > FIRST_VALUES ? node->capacity * 2 : FIRST_VALUES;
    if (capacity < values)
        capacity = values;
    if (node->validity != NULL && grow(&node->validity, &node->validity_size, bits(capacity)) < 0)
        return -1;
    if (has_offsets(node)) {
        int fresh = node->offsets == NULL;
        if (grow(&node->offsets, &node->offsets_size, (size_t)(capacity + 1) * sizeof *node->offsets) < 0)
            return -1;
        if (fresh)
            node->offsets[0] = 0;
    } else if (node->width > 0) {
        if (grow(&node->data, &node->data_size, (size_t)capacity * node->width) < 0)
            return -1;
    } else if (node->kind == COLUMN_BOOLEAN) {
        if (grow(&node->data, &node->data_size, bits(capacity)) < 0)
            return -1;
    }
    node->capacity = capacity;
    return 0;
}

int column_builder_reserve_columns(struct column_builder *node, int64_t values)
{
    if (column_builder_reserve(node, values) < 0)
        return -1;
    for (int i = 0; node->kind == COLUMN_STRUCT && i < node->child_count; i++)
        if (column_builder_reserve_columns(&node->children[i], values) < 0)
            return -1;
    return 0;
}

static int64_t larger(int64_t left, int64_t right)
{
    return left > right ? left : right;
}

/* What all values that there is room for take if they are about as long as those so far, which saves the copies of
 * growing step by step; but not many times what is there, since the first may be the only long one. */
static int64_t expected_bytes(const struct column_builder *node, int64_t bytes)
{
    enum { MOST_TIMES = 16 };
    int64_t expected = bytes / (node->length + 1) * node->capacity;
    expected += expected / 8;
    return expected < node->data_capacity * MOST_TIMES ? expected : node->data_capacity * MOST_TIMES;
}

int column_builder_reserve_bytes(struct column_builder *node, int64_t bytes)
{
    if (bytes <= node->data_capacity)
        return 0;
    if (bytes > INT32_MAX)
        return -1;
    int64_t capacity = larger(larger(node->data_capacity * 2, FIRST_BYTES), larger(bytes, expected_bytes(node, bytes)));
    if (capacity > INT32_MAX)
        capacity = INT32_MAX;
    if (grow(&node->data, &node->data_size, (size_t)capacity) < 0)
        return -1;
    node->data_capacity = capacity;
    return 0;
}

static int make_validity(struct column_builder *node)
{
    if (grow(&node->validity, &node->validity_size, bits(node->capacity)) < 0)
        return -1;
    memset(node->validity, 0xff, bits(node->capacity));
    return 0;
}

/* What stands under a null is never read, but it is not left to chance. */
static void clear_value(struct column_builder *node)
{
    if (node->width > 0)
        memset(node->data + node->length * node->width, 0, node->width);
    else if (node->kind == COLUMN_BOOLEAN)
        node->data[node->length / 8] &= (uint8_t) ~(1u << (node->length % 8));
    else if (has_offsets(node))
        node->offsets[node->length + 1] = node->offsets[node->length];
}

int column_builder_append_null(struct column_builder *node)
{
    if (node->kind == COLUMN_NULL) {
        node->length++;
        return 0;
    }
    if (column_builder_room(node) < 0 || (node->validity == NULL && make_validity(node) < 0))
        return -1;
    if (node->kind == COLUMN_STRUCT)
        for (int i = 0; i < node->child_count; i++)
            if (column_builder_append_null(&node->children[i]) < 0)
                return -1;
    clear_value(node);
    node->validity[node->length / 8] &= (uint8_t) ~(1u << (node->length % 8));
    node->length++;
    return 0;
}

int column_builder_append_parent(struct column_builder *node)
{
    if (column_builder_room(node) < 0)
        return -1;
    if (has_offsets(node)) {
        if (node->children[0].length > INT32_MAX)
            return -1;
        node->offsets[node->length + 1] = (int32_t)node->children[0].length;
    }
    column_builder_set_valid(node);
    return 0;
}

void column_builder_truncate(struct column_builder *node, int64_t length)
{
    if (node->length > length)
        node->length = length;
    /* Children may be ahead of their parent: it is appended when all of it has been read. */
    if (node->kind == COLUMN_STRUCT)
        for (int i = 0; i < node->child_count; i++)
            column_builder_truncate(&node->children[i], node->length);
    else if (node->child_count > 0)
        column_builder_truncate(&node->children[0], node->offsets == NULL ? 0 : node->offsets[node->length]);
}

struct array_private {
    const void *buffers[3];
    void *owned[3];
    size_t sizes[3];
    struct ArrowArray **children;
};

static void release_array(struct ArrowArray *array)
{
    struct array_private *private = array->private_data;
    for (int64_t i = 0; i < array->n_children; i++) {
        if (private->children[i]->release != NULL)
            private->children[i]->release(private->children[i]);
        free(private->children[i]);
    }
    for (int i = 0; i < 3; i++)
        free_buffer(private->owned[i], private->sizes[i]);
    free(private->children);
    free(private);
    array->release = NULL;
}

static int64_t count_nulls(const struct column_builder *node)
{
    int64_t valid = 0;
    if (node->kind == COLUMN_NULL)
        return node->length;
    if (node->validity == NULL)
        return 0;
    for (int64_t i = 0; i < node->length / 8; i++)
        valid += __builtin_popcount(node->validity[i]);
    if (node->length % 8 != 0)
        valid += __builtin_popcount(node->validity[node->length / 8] & ((1u << (node->length % 8)) - 1));
    return node->length - valid;
}

static void own(struct array_private *private, int index, void *buffer, size_t size)
{
    private->owned[index] = buffer;
    private->sizes[index] = size;
}

/* The array with its buffers, which are its own from here on, and no children yet. */
static int export_buffers(struct column_builder *node, struct ArrowArray *out)
{
    static const uint64_t NOTHING = 0;
    struct array_private *private = calloc(1, sizeof *private);
    if (private == NULL)
        return -1;
    *out = (struct ArrowArray){.length = node->length,
                               .null_count = count_nulls(node),
                               .buffers = private->buffers,
                               .release = release_array,
                               .private_data = private};
    if (node->kind == COLUMN_NULL) {
        free_buffers(node);
        return 0;
    }
    own(private, 0, node->validity, node->validity_size);
    private->buffers[0] = out->null_count > 0 ? node->validity : NULL;
    out->n_buffers = 1;
    if (has_offsets(node)) {
        own(private, 1, node->offsets, node->offsets_size);
        private->buffers[1] = node->offsets == NULL ? (const void *)&NOTHING : node->offsets;
        out->n_buffers = 2;
    }
    if (node->kind != COLUMN_STRUCT && node->kind != COLUMN_LIST && node->kind != COLUMN_MAP) {
        own(private, 2, node->data, node->data_size);
        private->buffers[out->n_buffers++] = node->data == NULL ? (const void *)&NOTHING : node->data;
    }
    forget_buffers(node);
    return 0;
}

int column_builder_export(struct column_builder *node, struct ArrowArray *out)
{
    struct ArrowArray array;
    if (export_buffers(node, &array) < 0)
        return -1;
    struct array_private *private = array.private_data;
    private->children = calloc((size_t)node->child_count + 1, sizeof *private->children);
    array.children = private->children;
    for (int i = 0; private->children != NULL && i < node->child_count; i++) {
        struct ArrowArray *child = calloc(1, sizeof *child);
        if (child == NULL || column_builder_export(&node->children[i], child) < 0) {
            free(child);
            break;
        }
        private->children[i] = child;
        array.n_children++;
    }
    if (array.n_children < node->child_count || private->children == NULL) {
        release_array(&array);
        return -1;
    }
    *out = array;
    return 0;
}
