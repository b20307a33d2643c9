#include "avro_write.h"

#include <string.h>

enum { VARINT_MOST = 10 };

typedef __int128 int128;

struct avro_writer {
    struct column_builder *out;
    uint8_t *p, *end;
    const char *problem;
    const struct avro_node *node;
};

static int write_value(struct avro_writer *w, const struct avro_node *node, int64_t row);

static int refuse(struct avro_writer *w, const struct avro_node *node, const char *problem)
{
    w->problem = problem;
    w->node = node;
    return -2;
}

static int grow(struct avro_writer *w, size_t size)
{
    size_t used = (size_t)(w->p - w->out->data);
    if (w->out->data == NULL)
        used = 0;
    if (column_builder_reserve_bytes(w->out, (int64_t)(used + size)) < 0)
        return -1;
    w->p = w->out->data + used;
    w->end = w->out->data + w->out->data_capacity;
    return 0;
}

static inline int room(struct avro_writer *w, size_t size)
{
    return __builtin_expect((size_t)(w->end - w->p) >= size, 1) ? 0 : grow(w, size);
}

/* There is room for it. */
static inline void put_long(struct avro_writer *w, int64_t value)
{
    uint64_t raw = (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
    while (raw >= 0x80) {
        *w->p++ = (uint8_t)(raw | 0x80);
        raw >>= 7;
    }
    *w->p++ = (uint8_t)raw;
}

static inline int write_long(struct avro_writer *w, int64_t value)
{
    if (room(w, VARINT_MOST) < 0)
        return -1;
    put_long(w, value);
    return 0;
}

static inline int write_raw(struct avro_writer *w, const void *from, size_t size)
{
    if (room(w, size) < 0)
        return -1;
    if (size > 0)
        memcpy(w->p, from, size);
    w->p += size;
    return 0;
}

static inline int write_sized(struct avro_writer *w, const uint8_t *from, size_t size)
{
    if (room(w, VARINT_MOST + size) < 0)
        return -1;
    put_long(w, (int64_t)size);
    if (size > 0)
        memcpy(w->p, from, size);
    w->p += size;
    return 0;
}

static int64_t floored(int64_t micros)
{
    return micros / 1000 - (micros % 1000 < 0);
}

static int write_integer(struct avro_writer *w, const struct avro_node *node, int64_t row)
{
    int64_t value = read_integer(&node->input->column, row);
    if (node->kind == AVRO_INT && (value < INT32_MIN || value > INT32_MAX))
        return refuse(w, node, "the number has more than 32 bits");
    /* A long that is not said to be anything else has milliseconds, as Spark writes timestamps. */
    int in_millis = node->input->source == SOURCE_MICROS && node->kind != AVRO_TIMESTAMP_MICROS;
    return write_long(w, in_millis ? floored(value) : value);
}

static int write_floating(struct avro_writer *w, const struct avro_node *node, int64_t row)
{
    const struct column *column = &node->input->column;
    float single;
    if (node->input->source == SOURCE_DOUBLES)
        return write_raw(w, column->values + 8 * (column->first + row), 8);
    memcpy(&single, column->values + 4 * (column->first + row), 4);
    return node->kind == AVRO_FLOAT ? write_raw(w, &single, 4) : write_raw(w, &(double){single}, 8);
}

static int write_symbol(struct avro_writer *w, const struct avro_node *node, struct bytes text)
{
    for (int32_t i = 0; i < node->child_count; i++)
        if (node->children[i].name_length == text.length
            && memcmp(node->children[i].name, text.data, (size_t)text.length) == 0)
            return write_long(w, i);
    return refuse(w, node, "the text is no symbol of the enum");
}

static int write_text(struct avro_writer *w, const struct avro_node *node, int64_t row)
{
    struct bytes bytes = read_bytes(&node->input->column, row);
    if (node->kind == AVRO_ENUM)
        return write_symbol(w, node, bytes);
    if (node->kind != AVRO_FIXED)
        return write_sized(w, bytes.data, (size_t)bytes.length);
    if (bytes.length != node->size)
        return refuse(w, node, "the bytes are not as many as the fixed type has");
    return write_raw(w, bytes.data, (size_t)bytes.length);
}

static int write_decimal(struct avro_writer *w, const struct avro_node *node, int64_t row)
{
    const struct column *column = &node->input->column;
    uint8_t bytes[16];
    int128 value, beyond = 1;
    memcpy(&value, column->values + 16 * (column->first + row), 16);
    for (int i = 0; i < node->precision; i++)
        beyond *= 10;
    if (value >= beyond || value <= -beyond)
        return refuse(w, node, "the number has more digits than the decimal type");
    for (int i = 0; i < 16; i++)
        bytes[i] = (uint8_t)((unsigned __int128)value >> (120 - 8 * i));
    uint8_t sign = value < 0 ? 0xff : 0;
    size_t from = 0;
    while (from < 15 && bytes[from] == sign && ((bytes[from + 1] ^ sign) & 0x80) == 0)
        from++;
    size_t size = 16 - from;
    if (node->kind == AVRO_DECIMAL_BYTES)
        return write_sized(w, bytes + from, size);
    if (size > (size_t)node->size)
        return refuse(w, node, "the number needs more bytes than the fixed type has");
    if (room(w, (size_t)node->size) < 0)
        return -1;
    memset(w->p, sign, (size_t)node->size - size);
    memcpy(w->p + node->size - size, bytes + from, size);
    w->p += node->size;
    return 0;
}

static int write_fields(struct avro_writer *w, const struct avro_node *node, int64_t row)
{
    for (int32_t i = 0; i < node->child_count; i++) {
        int written = write_value(w, &node->children[i], row);
        if (written < 0)
            return written;
    }
    return 0;
}

static int write_items(struct avro_writer *w, const struct avro_node *node, int64_t row)
{
    const struct avro_input *input = node->input;
    int64_t begin, end;
    read_range(&input->column, row, &begin, &end);
    if (end > begin && write_long(w, end - begin) < 0)
        return -1;
    for (int64_t i = begin; i < end; i++) {
        if (node->kind == AVRO_MAP) {
            struct bytes key = read_bytes(&input->keys, i);
            if (key.length < 0)
                return refuse(w, node, "a key is null");
            if (write_sized(w, key.data, (size_t)key.length) < 0)
                return -1;
        }
        int written = write_value(w, &node->children[0], i);
        if (written < 0)
            return written;
    }
    return write_long(w, 0);
}

static int is_absent(const struct avro_node *node, int64_t row)
{
    return node->input == NULL || is_null(&node->input->column, row);
}

/* The branch of a union of several types: the first member that there is, or the number; -1 where null is none. */
static int32_t branch_of(const struct avro_node *node, int64_t row)
{
    int32_t null = -1;
    /* The branches of a number share its column. */
    int absent = node->kind == AVRO_UNION && is_absent(node, row);
    for (int32_t i = 0; i < node->child_count; i++) {
        const struct avro_node *member = &node->children[i];
        if (member->kind == AVRO_NULL)
            null = i;
        else if (!absent && member->input != NULL && !is_absent(member, row))
            return i;
    }
    return null;
}

static int write_branch(struct avro_writer *w, const struct avro_node *node, int64_t row)
{
    int32_t branch = branch_of(node, row);
    if (branch < 0)
        return refuse(w, node, "the value is null, which the schema does not allow");
    if (write_long(w, branch) < 0)
        return -1;
    return node->children[branch].kind == AVRO_NULL ? 0 : write_value(w, &node->children[branch], row);
}

static int write_value(struct avro_writer *w, const struct avro_node *node, int64_t row)
{
    if (node->kind == AVRO_UNION || node->kind == AVRO_WIDE)
        return write_branch(w, node, row);
    int absent = is_absent(node, row);
    if (node->kind == AVRO_NULL)
        return absent ? 0 : refuse(w, node, "the value is not null, which is all that the schema allows");
    if (node->null != AVRO_NEVER_NULL) {
        if (write_long(w, (node->null == AVRO_NULL_FIRST) ^ absent) < 0)
            return -1;
        if (absent)
            return 0;
    } else if (absent) {
        return refuse(w, node, "the value is null, which the schema does not allow");
    }
    switch (node->kind) {
    case AVRO_BOOLEAN:
        return write_raw(w, &(uint8_t){(uint8_t)is_set(node->input->column.values, node->input->column.first + row)},
                         1);
    case AVRO_INT: case AVRO_LONG: case AVRO_TIMESTAMP_MILLIS: case AVRO_TIMESTAMP_MICROS:
        return write_integer(w, node, row);
    case AVRO_FLOAT: case AVRO_DOUBLE:
        return write_floating(w, node, row);
    case AVRO_BYTES: case AVRO_STRING: case AVRO_ENUM: case AVRO_FIXED:
        return write_text(w, node, row);
    case AVRO_DECIMAL_BYTES: case AVRO_DECIMAL_FIXED:
        return write_decimal(w, node, row);
    case AVRO_RECORD:
        return write_fields(w, node, row);
    default:
        return write_items(w, node, row);
    }
}

static int write_prefix(struct avro_writer *w, int64_t schema_id)
{
    uint8_t prefix[5] = {0, (uint8_t)(schema_id >> 24), (uint8_t)(schema_id >> 16), (uint8_t)(schema_id >> 8),
                         (uint8_t)schema_id};
    return write_raw(w, prefix, sizeof prefix);
}

int avro_write_values(const struct avro_node *root, int64_t rows, int64_t schema_id, struct column_builder *out,
                      struct avro_refusal *refusal)
{
    struct avro_writer writer = {.out = out};
    refusal->row = -1;
    if (column_builder_reserve(out, rows) < 0 || grow(&writer, 1) < 0)
        return -1;
    for (int64_t row = 0; row < rows; row++) {
        if (is_absent(root, row)) {
            if (column_builder_append_null(out) < 0)
                return -1;
            continue;
        }
        int written = schema_id >= 0 ? write_prefix(&writer, schema_id) : 0;
        if (written == 0)
            written = write_value(&writer, root, row);
        if (written < 0) {
            *refusal = (struct avro_refusal){row, writer.problem, writer.node};
            return written;
        }
        out->offsets[row + 1] = (int32_t)(writer.p - out->data);
        column_builder_set_valid(out);
    }
    return 0;
}
