#include "avro_input.h"

#include <stdlib.h>
#include <string.h>

static int format_is(const struct ArrowSchema *schema, const char *format)
{
    return strcmp(schema->format, format) == 0;
}

/* The values of a column without children; -2 where its type is not one of these. */
static int place_leaf(struct avro_input *input, const struct ArrowSchema *schema, const struct ArrowArray *array,
                      int64_t parent)
{
    static const struct {
        const char *format;
        enum avro_source source;
        enum layout layout;
    } FIXED[] = {
        {"b", SOURCE_BOOLEANS, LAYOUT_INT8},  {"c", SOURCE_INTEGERS, LAYOUT_INT8},
        {"s", SOURCE_INTEGERS, LAYOUT_INT16}, {"i", SOURCE_INTEGERS, LAYOUT_INT32},
        {"l", SOURCE_INTEGERS, LAYOUT_INT64}, {"tdD", SOURCE_INTEGERS, LAYOUT_INT32},
        {"f", SOURCE_FLOATS, LAYOUT_INT32},   {"g", SOURCE_DOUBLES, LAYOUT_INT64},
        {"n", SOURCE_NULLS, LAYOUT_NULLS},
    };
    for (size_t i = 0; i < sizeof FIXED / sizeof *FIXED; i++)
        if (format_is(schema, FIXED[i].format)) {
            input->source = FIXED[i].source;
            place_column(&input->column, FIXED[i].layout, array, parent);
            return 0;
        }
    if (strncmp(schema->format, "tsu:", 4) == 0 || strncmp(schema->format, "d:", 2) == 0) {
        input->source = schema->format[0] == 't' ? SOURCE_MICROS : SOURCE_DECIMALS;
        place_column(&input->column, LAYOUT_INT64, array, parent);
        return 0;
    }
    if (format_is(schema, "u") || format_is(schema, "U") || format_is(schema, "vu"))
        input->source = SOURCE_TEXTS;
    else
        input->source = SOURCE_BYTES;
    return bytes_column(&input->column, schema, array, parent) < 0 ? -2 : 0;
}

static int place_nested(struct avro_input *input, const struct ArrowSchema *schema, const struct ArrowArray *array,
                        int64_t parent)
{
    if (format_is(schema, "+s")) {
        input->source = SOURCE_STRUCTS;
        row_column(&input->column, array, parent);
        return 0;
    }
    int is_large = format_is(schema, "+L");
    if (!is_large && !format_is(schema, "+l") && !format_is(schema, "+m"))
        return -2;
    input->source = format_is(schema, "+m") ? SOURCE_MAPS : SOURCE_LISTS;
    place_column(&input->column, is_large ? LAYOUT_OFFSETS64 : LAYOUT_OFFSETS32, array, parent);
    return 0;
}

/* A decimal's digits behind the point have to be those of the schema; how many there are is checked per value. */
static int scale_fits(const struct avro_node *node, const struct ArrowSchema *schema)
{
    const char *comma = strchr(schema->format, ',');
    char *end;
    return comma != NULL && strtol(comma + 1, &end, 10) == node->scale && *end == 0;
}

static int leaf_fits(const struct avro_node *node, const struct ArrowSchema *schema)
{
    enum avro_source source = node->input->source;
    switch (node->kind) {
    case AVRO_NULL:
        return 1;
    case AVRO_BOOLEAN:
        return source == SOURCE_BOOLEANS;
    case AVRO_INT:
        return source == SOURCE_INTEGERS;
    case AVRO_LONG:
        return source == SOURCE_INTEGERS || source == SOURCE_MICROS;
    case AVRO_TIMESTAMP_MILLIS: case AVRO_TIMESTAMP_MICROS:
        return source == SOURCE_MICROS;
    case AVRO_FLOAT:
        return source == SOURCE_FLOATS;
    case AVRO_DOUBLE:
        return source == SOURCE_FLOATS || source == SOURCE_DOUBLES;
    case AVRO_STRING: case AVRO_ENUM:
        return source == SOURCE_TEXTS;
    case AVRO_BYTES: case AVRO_FIXED:
        return source == SOURCE_BYTES;
    case AVRO_DECIMAL_BYTES: case AVRO_DECIMAL_FIXED:
        return source == SOURCE_DECIMALS && scale_fits(node, schema);
    default:
        return 0;
    }
}

static int is_named(const struct avro_node *node, const struct ArrowSchema *schema)
{
    return schema->name != NULL && strlen(schema->name) == (size_t)node->name_length
           && memcmp(schema->name, node->name, (size_t)node->name_length) == 0;
}

static int may_be_absent(const struct avro_node *node)
{
    if (node->null != AVRO_NEVER_NULL || node->kind == AVRO_NULL)
        return 1;
    for (int32_t i = 0; (node->kind == AVRO_UNION || node->kind == AVRO_WIDE) && i < node->child_count; i++)
        if (node->children[i].kind == AVRO_NULL)
            return 1;
    return 0;
}

static int bind_fields(struct avro_node *record, const struct ArrowSchema *schema, const struct ArrowArray *array)
{
    int64_t found = 0;
    for (int32_t i = 0; i < record->child_count; i++) {
        struct avro_node *field = &record->children[i];
        for (int64_t j = 0; j < schema->n_children && field->input == NULL; j++) {
            if (!is_named(field, schema->children[j]))
                continue;
            int bound = avro_input_bind(field, schema->children[j], array->children[j], record->input->column.first);
            if (bound < 0)
                return bound;
            found++;
        }
        if (field->input == NULL && !may_be_absent(field))
            return -2;
    }
    return found == schema->n_children ? 0 : -2;
}

static int bind_members(struct avro_node *node, const struct ArrowSchema *schema, const struct ArrowArray *array)
{
    int64_t next = 0;
    for (int32_t i = 0; i < node->child_count; i++) {
        if (node->children[i].kind == AVRO_NULL)
            continue;
        if (next == schema->n_children)
            return -2;
        int bound = avro_input_bind(&node->children[i], schema->children[next], array->children[next],
                                    node->input->column.first);
        if (bound < 0)
            return bound;
        next++;
    }
    return next == schema->n_children ? 0 : -2;
}

/* A number is written as the widest branch of the union; of one type and null there is but one. */
static int bind_widest(struct avro_node *node, const struct ArrowSchema *schema, const struct ArrowArray *array,
                       int64_t parent)
{
    struct avro_node *widest = NULL;
    for (int32_t i = 0; i < node->child_count; i++) {
        struct avro_node *branch = &node->children[i];
        if (branch->kind != AVRO_NULL && (widest == NULL || branch->kind > widest->kind))
            widest = branch;
    }
    return widest == NULL ? -2 : avro_input_bind(widest, schema, array, parent);
}

static int bind_entries(struct avro_node *node, const struct ArrowSchema *schema, const struct ArrowArray *array)
{
    const struct ArrowSchema *entry = schema->children[0];
    const struct ArrowArray *entries = array->children[0];
    struct avro_input keys;
    if (entry->n_children != 2 || place_leaf(&keys, entry->children[0], entries->children[0], entries->offset) < 0
        || keys.source != SOURCE_TEXTS)
        return -2;
    node->input->keys = keys.column;
    return avro_input_bind(&node->children[0], entry->children[1], entries->children[1], entries->offset);
}

int avro_input_bind(struct avro_node *node, const struct ArrowSchema *schema, const struct ArrowArray *array,
                    int64_t parent)
{
    struct avro_input *input = node->input = calloc(1, sizeof *input);
    if (input == NULL)
        return -1;
    if (schema->dictionary != NULL)
        return -2;
    if (format_is(schema, "n")) {
        /* A column that is null throughout goes with all that may be null. */
        place_leaf(input, schema, array, parent);
        return may_be_absent(node) ? 0 : -2;
    }
    if (node->kind == AVRO_WIDE)
        return bind_widest(node, schema, array, parent);
    int placed = schema->format[0] == '+' ? place_nested(input, schema, array, parent)
                                          : place_leaf(input, schema, array, parent);
    if (placed < 0)
        return placed;
    switch (node->kind) {
    case AVRO_RECORD:
        return input->source == SOURCE_STRUCTS ? bind_fields(node, schema, array) : -2;
    case AVRO_UNION:
        return input->source == SOURCE_STRUCTS ? bind_members(node, schema, array) : -2;
    case AVRO_ARRAY:
        if (input->source != SOURCE_LISTS)
            return -2;
        return avro_input_bind(&node->children[0], schema->children[0], array->children[0], 0);
    case AVRO_MAP:
        return input->source == SOURCE_MAPS ? bind_entries(node, schema, array) : -2;
    default:
        return leaf_fits(node, schema) ? 0 : -2;
    }
}
