#include "json_leaves.h"

#include "json_time.h"

static const char *const EXPECTED[] = {
    [COLUMN_BOOLEAN] = "the value is not a boolean",
    [COLUMN_INT8] = "the value is not a whole number from -128 to 127",
    [COLUMN_INT16] = "the value is not a whole number from -32768 to 32767",
    [COLUMN_INT32] = "the value is not a whole number of 32 bits",
    [COLUMN_INT64] = "the value is not a whole number of 64 bits",
    [COLUMN_FLOAT] = "the value is not a number",
    [COLUMN_DOUBLE] = "the value is not a number",
    [COLUMN_DECIMAL] = "the value is not a number that fits the decimal type",
    [COLUMN_STRING] = "the value is not a string",
    [COLUMN_BINARY] = "the value is not a string of base64",
    [COLUMN_DATE] = "the value is not a date",
    [COLUMN_TIMESTAMP] = "the value is not a timestamp",
    [COLUMN_TIMESTAMP_NTZ] = "the value is not a timestamp without time zone",
    [COLUMN_LIST] = "the value is not an array",
    [COLUMN_MAP] = "the value is not an object",
    [COLUMN_STRUCT] = "the value is not an object",
};

enum json_outcome json_out_of_memory(struct json_cursor *r)
{
    r->no_memory = 1;
    return JSON_STOPPED;
}

static inline enum json_outcome appended(struct json_cursor *r, int result)
{
    return __builtin_expect(result < 0, 0) ? json_out_of_memory(r) : JSON_READ;
}

static enum json_outcome wrong_from(struct json_cursor *r, const struct column_builder *node, const uint8_t *from)
{
    json_note(r, EXPECTED[node->kind], from, node->name);
    return JSON_WRONG;
}

enum json_outcome json_wrong(struct json_cursor *r, const struct column_builder *node)
{
    const uint8_t *from = r->p;
    if (json_skip_value(r) < 0)
        return JSON_STOPPED;
    return wrong_from(r, node, from);
}

static enum json_outcome read_boolean(struct json_cursor *r, struct column_builder *node)
{
    int value = JSON_TAKE_WORD(r, "true");
    if (!value && !JSON_TAKE_WORD(r, "false"))
        return json_wrong(r, node);
    if (column_builder_room(node) < 0)
        return json_out_of_memory(r);
    uint8_t bit = (uint8_t)(1u << (node->length % 8));
    uint8_t *byte = &node->data[node->length / 8];
    *byte = (uint8_t)(value ? *byte | bit : *byte & ~bit);
    column_builder_set_valid(node);
    return JSON_READ;
}

static inline enum json_outcome put_value(struct json_cursor *r, struct column_builder *node, const void *value)
{
    if (column_builder_room(node) < 0)
        return json_out_of_memory(r);
    memcpy(node->data + node->length * node->width, value, node->width);
    column_builder_set_valid(node);
    return JSON_READ;
}

static inline enum json_outcome put_int64(struct json_cursor *r, struct column_builder *node, int64_t value)
{
    if (column_builder_room(node) < 0)
        return json_out_of_memory(r);
    memcpy(node->data + node->length * 8, &value, 8);
    column_builder_set_valid(node);
    return JSON_READ;
}

static enum json_outcome read_integer(struct json_cursor *r, struct column_builder *node)
{
    static const int64_t LEAST[] = {[COLUMN_INT8] = INT8_MIN, [COLUMN_INT16] = INT16_MIN,
                                    [COLUMN_INT32] = INT32_MIN, [COLUMN_INT64] = INT64_MIN};
    static const int64_t MOST[] = {[COLUMN_INT8] = INT8_MAX, [COLUMN_INT16] = INT16_MAX,
                                   [COLUMN_INT32] = INT32_MAX, [COLUMN_INT64] = INT64_MAX};
    struct json_number number;
    const uint8_t *from = r->p;
    int64_t value;
    if (!json_at_number(r))
        return json_wrong(r, node);
    if (json_take_number(r, &number) < 0)
        return JSON_STOPPED;
    if (json_number_integer(&number, LEAST[node->kind], MOST[node->kind], &value) < 0)
        return wrong_from(r, node, from);
    if (node->kind == COLUMN_INT64)
        return put_int64(r, node, value);
    if (node->kind == COLUMN_INT32)
        return put_value(r, node, &(int32_t){(int32_t)value});
    if (node->kind == COLUMN_INT16)
        return put_value(r, node, &(int16_t){(int16_t)value});
    return put_value(r, node, &(int8_t){(int8_t)value});
}

static enum json_outcome put_floating(struct json_cursor *r, struct column_builder *node, double value)
{
    return node->kind == COLUMN_FLOAT ? put_value(r, node, &(float){(float)value}) : put_value(r, node, &value);
}

/* NaN and the infinities, in quotes or without. */
static enum json_outcome read_non_number(struct json_cursor *r, struct column_builder *node)
{
    const uint8_t *start = r->p, *from, *to;
    double value;
    size_t length;
    if (!json_at_string(r)) {
        length = json_non_number(r->p, r->end, &value);
        r->p += length;
        return length > 0 ? put_floating(r, node, value) : json_wrong(r, node);
    }
    if (json_take_text(r, &from, &to) < 0)
        return JSON_STOPPED;
    length = json_non_number(from, to, &value);
    if (length == 0 || from + length != to)
        return wrong_from(r, node, start);
    return put_floating(r, node, value);
}

static enum json_outcome read_floating(struct json_cursor *r, struct column_builder *node)
{
    struct json_number number;
    if (!json_at_number(r))
        return read_non_number(r, node);
    if (json_take_number(r, &number) < 0)
        return JSON_STOPPED;
    if (node->kind == COLUMN_FLOAT)
        return put_value(r, node, &(float){json_number_float(&number)});
    return put_value(r, node, &(double){json_number_double(&number)});
}

static enum json_outcome read_decimal(struct json_cursor *r, struct column_builder *node)
{
    const uint8_t *start = r->p, *from, *to;
    struct json_number number;
    int128 value;
    if (json_at_string(r)) {
        if (json_take_text(r, &from, &to) < 0)
            return JSON_STOPPED;
    } else if (json_at_number(r)) {
        if (json_take_number(r, &number) < 0)
            return JSON_STOPPED;
        from = number.start;
        to = number.end;
    } else {
        return json_wrong(r, node);
    }
    if (json_decimal(from, to, node->precision, node->scale, &value) < 0)
        return wrong_from(r, node, start);
    return put_value(r, node, &value);
}

/* What is no string is taken as it is written. */
enum json_outcome json_read_string(struct json_cursor *r, struct column_builder *node)
{
    const uint8_t *from = r->p, *to;
    int escaped = 0;
    if (json_at_string(r)) {
        if (json_take_string(r, &from, &to, &escaped) < 0)
            return JSON_STOPPED;
    } else {
        if (json_skip_value(r) < 0)
            return JSON_STOPPED;
        to = r->p;
    }
    size_t size = (size_t)(to - from);
    if (__builtin_expect(!escaped, 1))
        return appended(r, column_builder_append_bytes(node, from, size));
    if (column_builder_room(node) < 0 || column_builder_reserve_bytes(node, node->offsets[node->length] + (int64_t)size) < 0)
        return json_out_of_memory(r);
    int32_t place = node->offsets[node->length];
    node->offsets[node->length + 1] = place + (int32_t)json_unescape(from, to, node->data + place);
    column_builder_set_valid(node);
    return JSON_READ;
}

static enum json_outcome read_binary(struct json_cursor *r, struct column_builder *node)
{
    const uint8_t *start = r->p, *from, *to;
    if (!json_at_string(r))
        return json_wrong(r, node);
    if (json_take_text(r, &from, &to) < 0)
        return JSON_STOPPED;
    if (column_builder_room(node) < 0 || column_builder_reserve_bytes(node, node->offsets[node->length] + (to - from)) < 0)
        return json_out_of_memory(r);
    int32_t place = node->offsets[node->length];
    int64_t size = json_base64(from, to, node->data + place);
    if (size < 0)
        return wrong_from(r, node, start);
    node->offsets[node->length + 1] = place + (int32_t)size;
    column_builder_set_valid(node);
    return JSON_READ;
}

static enum json_outcome read_date(struct json_cursor *r, struct column_builder *node)
{
    const uint8_t *start = r->p, *from, *to;
    int32_t days;
    if (!json_at_string(r))
        return json_wrong(r, node);
    if (json_take_text(r, &from, &to) < 0)
        return JSON_STOPPED;
    if (json_date(from, to, &days) < 0)
        return wrong_from(r, node, start);
    return put_value(r, node, &days);
}

/* A whole number counts seconds, for a timestamp with time zone. */
static enum json_outcome read_seconds(struct json_cursor *r, struct column_builder *node)
{
    const uint8_t *start = r->p;
    struct json_number number;
    int64_t seconds, micros;
    if (!json_at_number(r) || node->kind == COLUMN_TIMESTAMP_NTZ)
        return json_wrong(r, node);
    if (json_take_number(r, &number) < 0)
        return JSON_STOPPED;
    if (json_number_integer(&number, INT64_MIN, INT64_MAX, &seconds) < 0
        || __builtin_mul_overflow(seconds, (int64_t)1000000, &micros))
        return wrong_from(r, node, start);
    return put_int64(r, node, micros);
}

static enum json_outcome read_timestamp(struct json_cursor *r, struct column_builder *node)
{
    const uint8_t *start = r->p, *from, *to;
    int64_t micros;
    if (!json_at_string(r))
        return read_seconds(r, node);
    if (json_take_text(r, &from, &to) < 0)
        return JSON_STOPPED;
    if (json_timestamp(from, to, node->kind == COLUMN_TIMESTAMP, &micros) < 0)
        return wrong_from(r, node, start);
    return put_int64(r, node, micros);
}

enum json_outcome json_read_leaf(struct json_cursor *r, struct column_builder *node)
{
    switch (node->kind) {
    case COLUMN_BOOLEAN:
        return read_boolean(r, node);
    case COLUMN_INT8: case COLUMN_INT16: case COLUMN_INT32: case COLUMN_INT64:
        return read_integer(r, node);
    case COLUMN_FLOAT: case COLUMN_DOUBLE:
        return read_floating(r, node);
    case COLUMN_DECIMAL:
        return read_decimal(r, node);
    case COLUMN_BINARY:
        return read_binary(r, node);
    case COLUMN_DATE:
        return read_date(r, node);
    case COLUMN_TIMESTAMP: case COLUMN_TIMESTAMP_NTZ:
        return read_timestamp(r, node);
    default:
        return json_read_string(r, node);
    }
}
