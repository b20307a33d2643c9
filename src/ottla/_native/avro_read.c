#include "avro_read.h"

#include "avro_cursor.h"
#include "utf8.h"

/* What is there for arrays of items without bytes, besides one for each byte of the value. */
enum { FREE_ITEMS = 1000 };

typedef __int128 int128;

static inline int read_value(struct avro_cursor *r, const struct avro_node *node);

static inline int put(struct avro_cursor *r, struct column_builder *column, const void *value, size_t width)
{
    if (__builtin_expect(column_builder_room(column) < 0, 0))
        return avro_no_memory(r);
    memcpy(column->data + (size_t)column->length * width, value, width);
    column_builder_set_valid(column);
    return 0;
}

static inline int put_null(struct avro_cursor *r, struct column_builder *column)
{
    return column_builder_append_null(column) < 0 ? avro_no_memory(r) : 0;
}

static inline int put_bytes(struct avro_cursor *r, struct column_builder *column, const uint8_t *from, size_t size)
{
    return column_builder_append_bytes(column, from, size) < 0 ? avro_no_memory(r) : 0;
}

static inline int put_parent(struct avro_cursor *r, struct column_builder *column)
{
    return column_builder_append_parent(column) < 0 ? avro_no_memory(r) : 0;
}

static int read_boolean(struct avro_cursor *r, const struct avro_node *node)
{
    struct column_builder *column = node->column;
    if (r->p == r->end)
        return avro_ends(r, node);
    if (*r->p > 1)
        return avro_wrong(r, node, "the value is neither true nor false");
    if (column_builder_room(column) < 0)
        return avro_no_memory(r);
    uint8_t bit = (uint8_t)(1u << (column->length % 8));
    uint8_t *byte = &column->data[column->length / 8];
    *byte = (uint8_t)(*r->p++ ? *byte | bit : *byte & ~bit);
    column_builder_set_valid(column);
    return 0;
}

static inline int read_int(struct avro_cursor *r, const struct avro_node *node)
{
    int32_t value;
    if (avro_take_int(r, node, &value) < 0)
        return -1;
    if (node->column->width == 4)
        return put(r, node->column, &value, 4);
    return put(r, node->column, &(int64_t){value}, 8);
}

static inline int read_long(struct avro_cursor *r, const struct avro_node *node)
{
    int64_t value;
    return avro_take_long(r, node, &value) < 0 ? -1 : put(r, node->column, &value, 8);
}

static int read_milliseconds(struct avro_cursor *r, const struct avro_node *node)
{
    const uint8_t *from = r->p;
    int64_t value;
    if (avro_take_long(r, node, &value) < 0)
        return -1;
    if (__builtin_mul_overflow(value, (int64_t)1000, &value)) {
        r->p = from;
        return avro_wrong(r, node, "a timestamp that is too large is the value");
    }
    return put(r, node->column, &value, 8);
}

static int read_float(struct avro_cursor *r, const struct avro_node *node)
{
    float value;
    if (avro_left(r) < 4)
        return avro_ends(r, node);
    memcpy(&value, r->p, 4);
    r->p += 4;
    if (node->column->width == 4)
        return put(r, node->column, &value, 4);
    return put(r, node->column, &(double){value}, 8);
}

static inline int read_double(struct avro_cursor *r, const struct avro_node *node)
{
    if (avro_left(r) < 8)
        return avro_ends(r, node);
    if (put(r, node->column, r->p, 8) < 0)
        return -1;
    r->p += 8;
    return 0;
}

static inline int read_bytes(struct avro_cursor *r, const struct avro_node *node)
{
    size_t length = 0;
    if (avro_take_length(r, node, &length) < 0)
        return -1;
    if (node->kind == AVRO_STRING && __builtin_expect(!utf8_is_valid(r->p, length), 0))
        return avro_wrong(r, node, "there is no UTF-8 in the string");
    if (put_bytes(r, node->column, r->p, length) < 0)
        return -1;
    r->p += length;
    return 0;
}

static int read_fixed(struct avro_cursor *r, const struct avro_node *node)
{
    if (avro_left(r) < node->size)
        return avro_ends(r, node);
    if (put_bytes(r, node->column, r->p, (size_t)node->size) < 0)
        return -1;
    r->p += node->size;
    return 0;
}

static int read_enum(struct avro_cursor *r, const struct avro_node *node)
{
    const uint8_t *from = r->p;
    int32_t index;
    if (avro_take_int(r, node, &index) < 0)
        return -1;
    if (index < 0 || index >= node->child_count) {
        r->p = from;
        return avro_wrong(r, node, "the symbol is none of the enum");
    }
    const struct avro_node *symbol = &node->children[index];
    return put_bytes(r, node->column, (const uint8_t *)symbol->name, (size_t)symbol->name_length);
}

static int128 power_of_ten(int digits)
{
    int128 power = 1;
    while (digits-- > 0)
        power *= 10;
    return power;
}

/* Two's complement, the highest byte first; more bytes than are needed repeat the sign. */
static int take_unscaled(const uint8_t *from, size_t length, int128 *value)
{
    if (length == 0)
        return -1;
    uint8_t sign = from[0] & 0x80 ? 0xff : 0;
    while (length > 16 && from[0] == sign) {
        from++;
        length--;
    }
    if (length > 16 || (length == 16 && (from[0] ^ sign) & 0x80))
        return -1;
    unsigned __int128 found = sign ? ~(unsigned __int128)0 : 0;
    for (size_t i = 0; i < length; i++)
        found = found << 8 | from[i];
    *value = (int128)found;
    return 0;
}

static int read_decimal(struct avro_cursor *r, const struct avro_node *node)
{
    size_t length = (size_t)node->size;
    int128 value;
    if (node->kind == AVRO_DECIMAL_BYTES) {
        if (avro_take_length(r, node, &length) < 0)
            return -1;
    } else if (avro_left(r) < node->size) {
        return avro_ends(r, node);
    }
    int128 beyond = power_of_ten(node->column->precision);
    if (take_unscaled(r->p, length, &value) < 0 || value >= beyond || value <= -beyond)
        return avro_wrong(r, node, "the value does not fit the decimal type");
    r->p += length;
    return put(r, node->column, &value, 16);
}

static inline int read_fields(struct avro_cursor *r, const struct avro_node *node)
{
    for (const struct avro_node *field = node->children, *end = field + node->child_count; field < end; field++)
        if ((field->column != NULL ? read_value(r, field) : avro_skip(r, field)) < 0)
            return -1;
    return put_parent(r, node->column);
}

/* Items without bytes are taken from what the value may still have of them. */
static int take_free_items(struct avro_cursor *r, const struct avro_node *node, int64_t count)
{
    if (count > r->free_items)
        return avro_wrong(r, node, "too many items without bytes stand in the array");
    r->free_items -= count;
    return 0;
}

static int read_entry(struct avro_cursor *r, const struct avro_node *node)
{
    struct column_builder *entries = &node->column->children[0];
    size_t length = 0;
    if (avro_take_length(r, node, &length) < 0)
        return -1;
    if (!utf8_is_valid(r->p, length))
        return avro_wrong(r, node, "there is no UTF-8 in a key");
    if (put_bytes(r, &entries->children[0], r->p, length) < 0)
        return -1;
    r->p += length;
    return read_value(r, &node->children[0]) < 0 ? -1 : put_parent(r, entries);
}

static int read_block(struct avro_cursor *r, const struct avro_node *node, int64_t count)
{
    if (node->kind == AVRO_MAP) {
        for (int64_t i = 0; i < count; i++)
            if (read_entry(r, node) < 0)
                return -1;
        return 0;
    }
    if (node->children[0].least == 0 && take_free_items(r, node, count) < 0)
        return -1;
    for (int64_t i = 0; i < count; i++)
        if (read_value(r, &node->children[0]) < 0)
            return -1;
    return 0;
}

static int read_blocks(struct avro_cursor *r, const struct avro_node *node)
{
    int64_t least = node->children[0].least + (node->kind == AVRO_MAP), count;
    for (;;) {
        const uint8_t *block_end;
        if (avro_take_block(r, node, least, &count, &block_end) < 0)
            return -1;
        if (count == 0)
            return put_parent(r, node->column);
        if (read_block(r, node, count) < 0)
            return -1;
        if (block_end != NULL && r->p != block_end)
            return avro_wrong(r, node, "a block does not have the size that it says, in the value");
    }
}

static int read_member(struct avro_cursor *r, const struct avro_node *node)
{
    int32_t branch = avro_take_branch(r, node, node->child_count);
    if (branch < 0)
        return -1;
    if (node->children[branch].kind == AVRO_NULL)
        return put_null(r, node->column);
    for (int32_t i = 0; i < node->child_count; i++) {
        const struct avro_node *member = &node->children[i];
        if (member->kind != AVRO_NULL && (i == branch ? read_value(r, member) : put_null(r, member->column)) < 0)
            return -1;
    }
    return put_parent(r, node->column);
}

static int read_wide(struct avro_cursor *r, const struct avro_node *node)
{
    int32_t branch = avro_take_branch(r, node, node->child_count);
    if (branch < 0)
        return -1;
    if (node->children[branch].kind == AVRO_NULL)
        return put_null(r, node->column);
    return read_value(r, &node->children[branch]);
}

static __attribute__((noinline)) int read_other(struct avro_cursor *r, const struct avro_node *node)
{
    switch (node->kind) {
    case AVRO_BOOLEAN:
        return read_boolean(r, node);
    case AVRO_TIMESTAMP_MILLIS:
        return read_milliseconds(r, node);
    case AVRO_FLOAT:
        return read_float(r, node);
    case AVRO_FIXED:
        return read_fixed(r, node);
    case AVRO_ENUM:
        return read_enum(r, node);
    case AVRO_DECIMAL_BYTES: case AVRO_DECIMAL_FIXED:
        return read_decimal(r, node);
    case AVRO_RECORD:
        return read_fields(r, node);
    case AVRO_ARRAY: case AVRO_MAP:
        return read_blocks(r, node);
    case AVRO_UNION:
        return read_member(r, node);
    case AVRO_WIDE:
        return read_wide(r, node);
    default:
        return put_null(r, node->column);
    }
}

/* What most fields are is read without a call. */
static inline int read_value(struct avro_cursor *r, const struct avro_node *node)
{
    if (node->null != AVRO_NEVER_NULL) {
        int32_t branch = avro_take_branch(r, node, 2);
        if (branch < 0)
            return -1;
        if (branch == (node->null == AVRO_NULL_SECOND))
            return put_null(r, node->column);
    }
    switch (node->kind) {
    case AVRO_INT:
        return read_int(r, node);
    case AVRO_LONG: case AVRO_TIMESTAMP_MICROS:
        return read_long(r, node);
    case AVRO_DOUBLE:
        return read_double(r, node);
    case AVRO_BYTES: case AVRO_STRING:
        return read_bytes(r, node);
    default:
        return read_other(r, node);
    }
}

/* Byte 0 and the id of the schema, highest byte first; -1 with the failure where they are not there. */
static int take_schema_id(struct avro_cursor *r, int64_t wanted, int64_t *found)
{
    if (avro_left(r) < 5 || r->p[0] != 0)
        return avro_wrong(r, NULL, "the value does not begin with byte 0 and the id of a schema");
    *found = (int64_t)r->p[1] << 24 | r->p[2] << 16 | r->p[3] << 8 | r->p[4];
    if (*found != wanted)
        return avro_wrong(r, NULL, NULL);
    r->p += 5;
    return 0;
}

/* A struct that is there, and has nothing in it. */
static int append_empty(struct column_builder *root)
{
    for (int i = 0; i < root->child_count; i++)
        if (column_builder_append_null(&root->children[i]) < 0)
            return -1;
    return column_builder_append_parent(root);
}

static int read_datum(struct avro_cursor *r, const struct avro_node *root, int64_t schema_id, int64_t *id_found)
{
    if (schema_id >= 0 && take_schema_id(r, schema_id, id_found) < 0)
        return -1;
    if (read_value(r, root) < 0)
        return -1;
    return r->p == r->end ? 0 : avro_wrong(r, NULL, "bytes follow the value");
}

static int is_null(const struct avro_values *values, int64_t row)
{
    int64_t at = values->first + row;
    return values->validity != NULL && (values->validity[at / 8] >> (at % 8) & 1) == 0;
}

static void describe(const struct avro_cursor *r, int64_t row, int64_t id_found, struct avro_failure *failure)
{
    if (failure->row >= 0)
        return;
    failure->row = row;
    failure->problem = r->problem;
    failure->node = r->node;
    failure->position = r->problem == NULL ? id_found : r->problem_at - r->start;
}

int64_t avro_read_values(const struct avro_node *root, const struct avro_values *values, int64_t schema_id,
                         uint8_t *malformed, struct avro_failure *failure)
{
    struct avro_cursor cursor;
    int64_t count = 0, id_found = 0;
    memset(&cursor, 0, sizeof cursor);
    failure->row = -1;
    for (int64_t row = 0; row < values->rows; row++) {
        if (is_null(values, row)) {
            if (column_builder_append_null(root->column) < 0)
                return -1;
            continue;
        }
        int64_t at = values->first + row, before = root->column->length;
        cursor.start = cursor.p = values->data + values->offsets[at];
        cursor.end = values->data + values->offsets[at + 1];
        cursor.free_items = FREE_ITEMS + avro_left(&cursor);
        if (__builtin_expect(read_datum(&cursor, root, schema_id, &id_found) == 0, 1))
            continue;
        if (cursor.no_memory)
            return -1;
        column_builder_truncate(root->column, before);
        if (append_empty(root->column) < 0)
            return -1;
        describe(&cursor, row, id_found, failure);
        malformed[row / 8] |= (uint8_t)(1u << (row % 8));
        count++;
    }
    return count;
}
