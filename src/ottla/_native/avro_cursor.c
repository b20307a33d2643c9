#include "avro_cursor.h"

int avro_wrong(struct avro_cursor *r, const struct avro_node *node, const char *problem)
{
    r->problem = problem;
    r->problem_at = r->p;
    r->node = node;
    return -1;
}

int avro_ends(struct avro_cursor *r, const struct avro_node *node)
{
    return avro_wrong(r, node, "there are too few bytes for the value");
}

int avro_no_memory(struct avro_cursor *r)
{
    r->no_memory = 1;
    return -1;
}

int avro_long_number(struct avro_cursor *r, const struct avro_node *node, int most, uint64_t *value)
{
    const uint8_t *p = r->p;
    uint64_t found = 0;
    for (int i = 0; i < most; i++) {
        if (p == r->end)
            return avro_ends(r, node);
        uint8_t byte = *p++;
        found |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            /* Of the last byte, only what still fits may be set. */
            if (i == most - 1 && byte > (most == 10 ? 1 : 0x0f))
                break;
            r->p = p;
            *value = found;
            return 0;
        }
    }
    return avro_wrong(r, node, most == 10 ? "a number of more than 64 bits stands in the value"
                                          : "a number of more than 32 bits stands in the value");
}

int avro_take_block(struct avro_cursor *r, const struct avro_node *node, int64_t least, int64_t *count,
                    const uint8_t **block_end)
{
    const uint8_t *from = r->p;
    int64_t size;
    *block_end = NULL;
    if (avro_take_long(r, node, count) < 0)
        return -1;
    if (*count < 0) {
        if (*count == INT64_MIN) {
            r->p = from;
            return avro_wrong(r, node, "a block with too many items stands in the value");
        }
        *count = -*count;
        if (avro_take_long(r, node, &size) < 0)
            return -1;
        if (size < 0 || size > avro_left(r)) {
            r->p = from;
            return size < 0 ? avro_wrong(r, node, "a block of a negative size stands in the value") : avro_ends(r, node);
        }
        *block_end = r->p + size;
    }
    if (least > 0 && *count > avro_left(r) / least) {
        r->p = from;
        return avro_wrong(r, node, "a block has more items than there are bytes for the value");
    }
    return 0;
}

static int skip_bytes(struct avro_cursor *r, const struct avro_node *node, int64_t size)
{
    if (size > avro_left(r))
        return avro_ends(r, node);
    r->p += size;
    return 0;
}

static int skip_length(struct avro_cursor *r, const struct avro_node *node)
{
    size_t length = 0;
    if (avro_take_length(r, node, &length) < 0)
        return -1;
    r->p += length;
    return 0;
}

static int skip_blocks(struct avro_cursor *r, const struct avro_node *node)
{
    const struct avro_node *item = &node->children[0];
    int64_t least = item->least + (node->kind == AVRO_MAP), count;
    for (;;) {
        const uint8_t *block_end;
        if (avro_take_block(r, node, least, &count, &block_end) < 0)
            return -1;
        if (count == 0)
            return 0;
        if (block_end != NULL) {
            r->p = block_end;
            continue;
        }
        for (int64_t i = 0; least > 0 && i < count; i++)
            if ((node->kind == AVRO_MAP && skip_length(r, node) < 0) || avro_skip(r, item) < 0)
                return -1;
    }
}

static int skip_branch(struct avro_cursor *r, const struct avro_node *node)
{
    int32_t branch = avro_take_branch(r, node, node->child_count);
    return branch < 0 ? -1 : avro_skip(r, &node->children[branch]);
}

static int skip_index(struct avro_cursor *r, const struct avro_node *node)
{
    int32_t index;
    return avro_take_int(r, node, &index);
}

static int skip_number(struct avro_cursor *r, const struct avro_node *node)
{
    int64_t number;
    return avro_take_long(r, node, &number);
}

static int skip_fields(struct avro_cursor *r, const struct avro_node *node)
{
    for (int32_t i = 0; i < node->child_count; i++)
        if (avro_skip(r, &node->children[i]) < 0)
            return -1;
    return 0;
}

int avro_skip(struct avro_cursor *r, const struct avro_node *node)
{
    if (node->null != AVRO_NEVER_NULL) {
        int32_t branch = avro_take_branch(r, node, 2);
        if (branch < 0)
            return -1;
        if (branch == (node->null == AVRO_NULL_SECOND))
            return 0;
    }
    switch (node->kind) {
    case AVRO_BOOLEAN:
        return skip_bytes(r, node, 1);
    case AVRO_INT: case AVRO_ENUM:
        return skip_index(r, node);
    case AVRO_LONG: case AVRO_TIMESTAMP_MILLIS: case AVRO_TIMESTAMP_MICROS:
        return skip_number(r, node);
    case AVRO_FLOAT:
        return skip_bytes(r, node, 4);
    case AVRO_DOUBLE:
        return skip_bytes(r, node, 8);
    case AVRO_FIXED: case AVRO_DECIMAL_FIXED:
        return skip_bytes(r, node, node->size);
    case AVRO_BYTES: case AVRO_STRING: case AVRO_DECIMAL_BYTES:
        return skip_length(r, node);
    case AVRO_RECORD:
        return skip_fields(r, node);
    case AVRO_ARRAY: case AVRO_MAP:
        return skip_blocks(r, node);
    case AVRO_UNION: case AVRO_WIDE:
        return skip_branch(r, node);
    default:
        return 0;
    }
}
