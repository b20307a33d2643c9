#include "avro_plan.h"

#include <stdlib.h>
#include <string.h>

enum { WORD = 4, MOST_BYTES = 1 << 30 };

struct plan_reader {
    const uint8_t *p, *end;
};

static int take_word(struct plan_reader *r, int32_t *word)
{
    if (r->end - r->p < WORD)
        return -2;
    memcpy(word, r->p, WORD);
    r->p += WORD;
    return *word < 0 ? -2 : 0;
}

/* A text stands with a null behind it, and fills whole words. */
static int take_name(struct plan_reader *r, struct avro_node *node)
{
    if (take_word(r, &node->name_length) < 0)
        return -2;
    ptrdiff_t size = ((ptrdiff_t)node->name_length + WORD) / WORD * WORD;
    if (r->end - r->p < size || r->p[node->name_length] != 0)
        return -2;
    node->name = (const char *)r->p;
    r->p += size;
    return 0;
}

static int64_t at_least(int64_t left, int64_t right)
{
    return left + right < MOST_BYTES ? left + right : MOST_BYTES;
}

/* How many bytes a value takes at least, once that of its children is known. */
static int64_t least_of(const struct avro_node *node)
{
    int64_t least = 0;
    if (node->null != AVRO_NEVER_NULL)
        return 1;
    switch (node->kind) {
    case AVRO_NULL: case AVRO_SYMBOL:
        return 0;
    case AVRO_FLOAT:
        return 4;
    case AVRO_DOUBLE:
        return 8;
    case AVRO_FIXED: case AVRO_DECIMAL_FIXED:
        return node->size;
    case AVRO_RECORD:
        for (int32_t i = 0; i < node->child_count; i++)
            least = at_least(least, node->children[i].least);
        return least;
    default:
        return 1;
    }
}

static int count_fits(const struct avro_node *node)
{
    switch (node->kind) {
    case AVRO_RECORD:
        return 1;
    case AVRO_ENUM: case AVRO_UNION: case AVRO_WIDE:
        return node->child_count >= 1;
    case AVRO_ARRAY: case AVRO_MAP:
        return node->child_count == 1;
    default:
        return node->child_count == 0;
    }
}

static int make_node(struct avro_node *node, struct plan_reader *r, const struct avro_node *parent, int depth)
{
    int32_t kind, null;
    memset(node, 0, sizeof *node);
    node->parent = parent;
    if (take_word(r, &kind) < 0 || take_word(r, &null) < 0 || take_word(r, &node->size) < 0
        || take_word(r, &node->precision) < 0 || take_word(r, &node->scale) < 0 || take_name(r, node) < 0 || take_word(r, &node->child_count) < 0)
        return -2;
    node->kind = (uint8_t)kind;
    node->null = (uint8_t)null;
    int32_t count = node->child_count;
    /* A node takes some words, so more of them than there are words is no plan. */
    if (kind >= AVRO_KINDS || null > AVRO_NULL_SECOND || depth > COLUMN_MOST_NESTING + 1 || !count_fits(node)
        || count > (r->end - r->p) / WORD) {
        node->child_count = 0;
        return -2;
    }
    node->child_count = 0;
    node->children = count > 0 ? calloc((size_t)count, sizeof *node->children) : NULL;
    if (count > 0 && node->children == NULL)
        return -1;
    for (int32_t i = 0; i < count; i++) {
        node->child_count = i + 1;
        int made = make_node(&node->children[i], r, node, depth + 1);
        if (made < 0)
            return made;
    }
    node->least = least_of(node);
    return 0;
}

int avro_plan_make(struct avro_node *root, const uint8_t *plan, size_t size)
{
    struct plan_reader reader = {plan, plan + size};
    int made = make_node(root, &reader, NULL, 0);
    if (made == 0 && reader.p != reader.end)
        made = -2;
    if (made < 0)
        avro_plan_free(root);
    return made;
}

void avro_plan_free(struct avro_node *root)
{
    for (int32_t i = 0; i < root->child_count; i++)
        avro_plan_free(&root->children[i]);
    free(root->children);
    free(root->input);
    root->input = NULL;
    root->children = NULL;
    root->child_count = 0;
}

static int leaf_fits(const struct avro_node *node, const struct column_builder *column)
{
    switch (node->kind) {
    case AVRO_NULL:
        return column->kind == COLUMN_NULL;
    case AVRO_BOOLEAN:
        return column->kind == COLUMN_BOOLEAN;
    case AVRO_INT:
        return column->kind == COLUMN_INT32 || column->kind == COLUMN_INT64 || column->kind == COLUMN_DATE;
    case AVRO_LONG:
        return column->kind == COLUMN_INT64;
    case AVRO_TIMESTAMP_MILLIS: case AVRO_TIMESTAMP_MICROS:
        return column->kind == COLUMN_TIMESTAMP || column->kind == COLUMN_TIMESTAMP_NTZ;
    case AVRO_FLOAT:
        return column->kind == COLUMN_FLOAT || column->kind == COLUMN_DOUBLE;
    case AVRO_DOUBLE:
        return column->kind == COLUMN_DOUBLE;
    case AVRO_STRING: case AVRO_ENUM:
        return column->kind == COLUMN_STRING;
    case AVRO_BYTES: case AVRO_FIXED:
        return column->kind == COLUMN_BINARY;
    case AVRO_DECIMAL_BYTES: case AVRO_DECIMAL_FIXED:
        return column->kind == COLUMN_DECIMAL;
    default:
        return 0;
    }
}

static int is_named(const struct avro_node *node, const struct column_builder *column)
{
    return (size_t)node->name_length == column->name_length
           && memcmp(node->name, column->name, column->name_length) == 0;
}

static struct avro_node *find_field(struct avro_node *record, const struct column_builder *column)
{
    for (int32_t i = 0; i < record->child_count; i++)
        if (record->children[i].column == NULL && is_named(&record->children[i], column))
            return &record->children[i];
    return NULL;
}

static int bind_fields(struct avro_node *record, struct column_builder *column)
{
    for (int i = 0; i < column->child_count; i++) {
        struct avro_node *field = find_field(record, &column->children[i]);
        if (field == NULL || avro_plan_bind(field, &column->children[i]) < 0)
            return -1;
    }
    return 0;
}

static int bind_members(struct avro_node *node, struct column_builder *column)
{
    int next = 0;
    for (int32_t i = 0; i < node->child_count; i++) {
        if (node->children[i].kind == AVRO_NULL)
            continue;
        if (next == column->child_count || avro_plan_bind(&node->children[i], &column->children[next]) < 0)
            return -1;
        next++;
    }
    return next == column->child_count ? 0 : -1;
}

int avro_plan_bind(struct avro_node *node, struct column_builder *column)
{
    node->column = column;
    switch (node->kind) {
    case AVRO_RECORD:
        return column->kind == COLUMN_STRUCT ? bind_fields(node, column) : -1;
    case AVRO_UNION:
        return column->kind == COLUMN_STRUCT ? bind_members(node, column) : -1;
    case AVRO_WIDE:
        for (int32_t i = 0; i < node->child_count; i++)
            if (node->children[i].kind != AVRO_NULL && avro_plan_bind(&node->children[i], column) < 0)
                return -1;
        return 0;
    case AVRO_ARRAY:
        return column->kind == COLUMN_LIST ? avro_plan_bind(&node->children[0], &column->children[0]) : -1;
    case AVRO_MAP:
        if (column->kind != COLUMN_MAP)
            return -1;
        return avro_plan_bind(&node->children[0], &column->children[0].children[1]);
    default:
        return leaf_fits(node, column) ? 0 : -1;
    }
}
