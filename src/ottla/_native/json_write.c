#include "json_write.h"

#include <stdlib.h>
#include <string.h>

#include "json_double.h"
#include "json_format.h"

/* Room */

/* At least `more` bytes behind what is there, and where they are; NULL without memory. */
static inline uint8_t *room(struct documents *out, size_t more)
{
    if (__builtin_expect(out->capacity - out->length < more, 0)) {
        size_t capacity = out->capacity + out->capacity / 2 + more;
        uint8_t *grown = realloc(out->data, capacity);
        if (grown == NULL)
            return NULL;
        out->data = grown;
        out->capacity = capacity;
    }
    return out->data + out->length;
}

static inline int put_byte(struct documents *out, uint8_t byte)
{
    uint8_t *p = room(out, 1);
    if (p == NULL)
        return -1;
    *p = byte;
    out->length++;
    return 0;
}

/* Large strings in parts, so that the room for them is not six times their size. */
static int put_string(struct documents *out, struct bytes text)
{
    enum { PART = 4096 };
    if (put_byte(out, '"') < 0)
        return -1;
    while (text.length > 0) {
        size_t length = text.length < PART ? (size_t)text.length : PART;
        uint8_t *p = room(out, JSON_MOST_ESCAPED * length + 1);
        if (p == NULL)
            return -1;
        out->length = (size_t)(json_put_escaped(p, text.data, length) - out->data);
        text.data += length;
        text.length -= (int64_t)length;
    }
    return put_byte(out, '"');
}

static int put_binary(struct documents *out, struct bytes bytes)
{
    uint8_t *p = room(out, ((size_t)bytes.length + 2) / 3 * 4 + 2);
    if (p == NULL)
        return -1;
    *p++ = '"';
    p = json_put_base64(p, bytes.data, (size_t)bytes.length);
    *p++ = '"';
    out->length = (size_t)(p - out->data);
    return 0;
}

/* The tree */

static int read_format(struct written_column *column, const char *format)
{
    static const struct {
        const char *format;
        enum written_kind kind;
        enum layout layout;
    } FORMATS[] = {
        {"n", WRITTEN_NULL, LAYOUT_NULLS},     {"b", WRITTEN_BOOLEAN, LAYOUT_UINT8},
        {"c", WRITTEN_INTEGER, LAYOUT_INT8},   {"s", WRITTEN_INTEGER, LAYOUT_INT16},
        {"i", WRITTEN_INTEGER, LAYOUT_INT32},  {"l", WRITTEN_INTEGER, LAYOUT_INT64},
        {"f", WRITTEN_FLOAT, LAYOUT_INT32},    {"g", WRITTEN_DOUBLE, LAYOUT_INT64},
        {"tdD", WRITTEN_DATE, LAYOUT_INT32},   {"u", WRITTEN_STRING, LAYOUT_OFFSETS32},
        {"U", WRITTEN_STRING, LAYOUT_OFFSETS64}, {"vu", WRITTEN_STRING, LAYOUT_VIEWS},
        {"z", WRITTEN_BINARY, LAYOUT_OFFSETS32}, {"Z", WRITTEN_BINARY, LAYOUT_OFFSETS64},
        {"vz", WRITTEN_BINARY, LAYOUT_VIEWS},  {"+l", WRITTEN_LIST, LAYOUT_OFFSETS32},
        {"+L", WRITTEN_LIST, LAYOUT_OFFSETS64}, {"+m", WRITTEN_MAP, LAYOUT_OFFSETS32},
        {"+s", WRITTEN_STRUCT, LAYOUT_INT8},
    };
    for (size_t i = 0; i < sizeof FORMATS / sizeof *FORMATS; i++)
        if (strcmp(format, FORMATS[i].format) == 0) {
            column->kind = FORMATS[i].kind;
            column->column.layout = FORMATS[i].layout;
            return 0;
        }
    column->column.layout = LAYOUT_INT64;
    if (strncmp(format, "tsu:", 4) == 0) {
        column->kind = format[4] == 0 ? WRITTEN_TIMESTAMP_NTZ : WRITTEN_TIMESTAMP;
        return 0;
    }
    if (strncmp(format, "d:", 2) == 0) {
        char *end;
        long precision = strtol(format + 2, &end, 10);
        long scale = *end == ',' ? strtol(end + 1, &end, 10) : -1;
        column->kind = WRITTEN_DECIMAL;
        column->scale = (int)scale;
        return *end == 0 && precision >= 1 && precision <= 38 && scale >= 0 && scale <= precision ? 0 : -2;
    }
    return -2;
}

static int make_key(struct written_column *column, const char *name)
{
    size_t length = name == NULL ? 0 : strlen(name);
    uint8_t *p = column->key = malloc(JSON_MOST_ESCAPED * length + 4);
    if (p == NULL)
        return -1;
    *p++ = ',';
    *p++ = '"';
    p = json_put_escaped(p, (const uint8_t *)name, length);
    *p++ = '"';
    *p++ = ':';
    column->key_length = (size_t)(p - column->key);
    return 0;
}

static int make_column(struct written_column *column, const struct ArrowSchema *schema,
                       const struct ArrowArray *array, int64_t parent, int depth,
                       const struct ArrowSchema **refused);

static int make_children(struct written_column *column, const struct ArrowSchema *schema,
                         const struct ArrowArray *array, int64_t parent, int depth,
                         const struct ArrowSchema **refused)
{
    column->children = calloc((size_t)schema->n_children + 1, sizeof *column->children);
    if (column->children == NULL)
        return -1;
    for (int64_t i = 0; i < schema->n_children; i++) {
        column->child_count++;
        int made = make_column(&column->children[i], schema->children[i], array->children[i], parent, depth + 1,
                               refused);
        if (made < 0)
            return made;
    }
    return 0;
}

/* What a map is made of is a struct of two, whose own nulls mean nothing: keys and values are taken out of it. */
static int make_entries(struct written_column *column, const struct ArrowSchema *schema,
                        const struct ArrowArray *array, int depth, const struct ArrowSchema **refused)
{
    const struct ArrowSchema *entry = schema->children[0];
    *refused = schema;
    if (entry->n_children != 2)
        return -2;
    int made = make_children(column, entry, array->children[0], array->children[0]->offset, depth, refused);
    if (made < 0)
        return made;
    *refused = schema;
    return column->children[0].kind == WRITTEN_STRING ? 0 : -2;
}

/* `parent` is where row 0 stands in the array before its own offset is added. */
static int make_column(struct written_column *column, const struct ArrowSchema *schema,
                       const struct ArrowArray *array, int64_t parent, int depth,
                       const struct ArrowSchema **refused)
{
    *refused = schema;
    if (depth > JSON_MOST_DEPTH || schema->dictionary != NULL || read_format(column, schema->format) < 0)
        return -2;
    if (make_key(column, schema->name) < 0)
        return -1;
    struct column *place = &column->column;
    place->first = parent + array->offset;
    if (column->kind == WRITTEN_NULL)
        return 0;
    if (column->kind == WRITTEN_STRING || column->kind == WRITTEN_BINARY)
        return bytes_column(place, schema, array, parent);
    place->validity = array->null_count == 0 ? NULL : array->buffers[0];
    if (column->kind == WRITTEN_STRUCT)
        return make_children(column, schema, array, place->first, depth, refused);
    place->values = array->buffers[1];
    if (column->kind == WRITTEN_LIST)
        return make_children(column, schema, array, 0, depth, refused);
    return column->kind == WRITTEN_MAP ? make_entries(column, schema, array, depth, refused) : 0;
}

int written_column_make(struct written_column *column, const struct ArrowSchema *schema,
                        const struct ArrowArray *array, const struct ArrowSchema **refused)
{
    memset(column, 0, sizeof *column);
    int made = make_column(column, schema, array, 0, 0, refused);
    if (made < 0)
        written_column_free(column);
    return made;
}

void written_column_free(struct written_column *column)
{
    for (int i = 0; i < column->child_count; i++)
        written_column_free(&column->children[i]);
    free(column->children);
    free(column->key);
    memset(column, 0, sizeof *column);
}

/* Values */

static uint8_t *put_word(uint8_t *p, const char *word, size_t length)
{
    memcpy(p, word, length);
    return p + length;
}

/* What needs no more than JSON_MOST_LEAF bytes. */
static inline uint8_t *put_leaf(uint8_t *p, const struct written_column *from, int64_t row)
{
    const struct column *column = &from->column;
    int64_t at = column->first + row;
    double number;
    float single;
    __int128 decimal;
    switch (from->kind) {
    case WRITTEN_BOOLEAN:
        return is_set(column->values, at) ? put_word(p, "true", 4) : put_word(p, "false", 5);
    case WRITTEN_INTEGER:
        return json_put_integer(p, read_integer(column, row));
    case WRITTEN_FLOAT:
        memcpy(&single, column->values + 4 * at, sizeof single);
        return json_put_float(p, single);
    case WRITTEN_DOUBLE:
        memcpy(&number, column->values + 8 * at, sizeof number);
        return json_put_double(p, number);
    case WRITTEN_DECIMAL:
        memcpy(&decimal, column->values + 16 * at, sizeof decimal);
        return json_put_decimal(p, decimal, from->scale);
    case WRITTEN_DATE:
        return json_put_date(p, read_integer(column, row));
    case WRITTEN_TIMESTAMP:
    case WRITTEN_TIMESTAMP_NTZ:
        return json_put_timestamp(p, read_integer(column, row), from->kind == WRITTEN_TIMESTAMP);
    default:
        return put_word(p, "null", 4);
    }
}

static int write_value(struct documents *out, const struct written_column *from, int64_t row);

/* Every field is written with a comma before its name; the first comma becomes the brace. */
static int write_struct(struct documents *out, const struct written_column *from, int64_t row)
{
    size_t start = out->length;
    for (int i = 0; i < from->child_count; i++) {
        const struct written_column *field = &from->children[i];
        if (is_null(&field->column, row))
            continue;
        uint8_t *p = room(out, field->key_length);
        if (p == NULL)
            return -1;
        memcpy(p, field->key, field->key_length);
        out->length += field->key_length;
        if (write_value(out, field, row) < 0)
            return -1;
    }
    if (out->length == start && put_byte(out, '{') < 0)
        return -1;
    out->data[start] = '{';
    return put_byte(out, '}');
}

static int write_list(struct documents *out, const struct written_column *from, int64_t row)
{
    int64_t begin, end;
    read_range(&from->column, row, &begin, &end);
    if (put_byte(out, '[') < 0)
        return -1;
    for (int64_t i = begin; i < end; i++)
        if ((i > begin && put_byte(out, ',') < 0) || write_value(out, from->children, i) < 0)
            return -1;
    return put_byte(out, ']');
}

static int write_map(struct documents *out, const struct written_column *from, int64_t row)
{
    int64_t begin, end;
    read_range(&from->column, row, &begin, &end);
    if (put_byte(out, '{') < 0)
        return -1;
    for (int64_t i = begin; i < end; i++)
        if ((i > begin && put_byte(out, ',') < 0) || write_value(out, &from->children[0], i) < 0 ||
            put_byte(out, ':') < 0 || write_value(out, &from->children[1], i) < 0)
            return -1;
    return put_byte(out, '}');
}

static int write_value(struct documents *out, const struct written_column *from, int64_t row)
{
    int is_missing = is_null(&from->column, row);
    if (!is_missing)
        switch (from->kind) {
        case WRITTEN_STRING: return put_string(out, read_bytes(&from->column, row));
        case WRITTEN_BINARY: return put_binary(out, read_bytes(&from->column, row));
        case WRITTEN_LIST: return write_list(out, from, row);
        case WRITTEN_MAP: return write_map(out, from, row);
        case WRITTEN_STRUCT: return write_struct(out, from, row);
        default: break;
        }
    uint8_t *p = room(out, JSON_MOST_LEAF);
    if (p == NULL)
        return -1;
    p = is_missing ? put_word(p, "null", 4) : put_leaf(p, from, row);
    out->length = (size_t)(p - out->data);
    return 0;
}

/* Documents */

static int make_documents(struct documents *out, int64_t rows)
{
    enum { FIRST_BYTES = 64 };
    memset(out, 0, sizeof *out);
    out->offsets = malloc((size_t)(rows + 1) * sizeof *out->offsets);
    return out->offsets != NULL && room(out, (size_t)(rows + 1) * FIRST_BYTES) != NULL ? 0 : -1;
}

static int put_missing(struct documents *out, int64_t row, int64_t rows)
{
    size_t bits = (size_t)(rows + 7) / 8;
    if (out->validity == NULL) {
        out->validity = malloc(bits);
        if (out->validity == NULL)
            return -1;
        memset(out->validity, 0xff, bits);
    }
    out->validity[row / 8] &= (uint8_t) ~(1u << (row % 8));
    out->null_count++;
    return 0;
}

int json_write_documents(const struct written_column *root, int64_t rows, struct documents *out)
{
    if (make_documents(out, rows) < 0)
        return -1;
    out->offsets[0] = 0;
    for (int64_t row = 0; row < rows; row++) {
        int wrote = is_null(&root->column, row) ? put_missing(out, row, rows) : write_struct(out, root, row);
        if (wrote < 0)
            return -1;
        if (out->length > INT32_MAX)
            return -2;
        out->offsets[row + 1] = (int32_t)out->length;
    }
    return 0;
}

void documents_free(struct documents *documents)
{
    free(documents->data);
    free(documents->offsets);
    free(documents->validity);
    memset(documents, 0, sizeof *documents);
}

/* Export */

struct exported {
    struct documents documents;
    const void *buffers[3];
};

static void release_exported(struct ArrowArray *array)
{
    struct exported *exported = array->private_data;
    documents_free(&exported->documents);
    free(exported);
    array->release = NULL;
}

int documents_export(struct documents *documents, int64_t rows, struct ArrowArray *out)
{
    struct exported *exported = malloc(sizeof *exported);
    if (exported == NULL)
        return -1;
    exported->documents = *documents;
    memset(documents, 0, sizeof *documents);
    exported->buffers[0] = exported->documents.validity;
    exported->buffers[1] = exported->documents.offsets;
    exported->buffers[2] = exported->documents.data;
    *out = (struct ArrowArray){.length = rows,
                               .null_count = exported->documents.null_count,
                               .n_buffers = 3,
                               .buffers = exported->buffers,
                               .release = release_exported,
                               .private_data = exported};
    return 0;
}

static void release_schema(struct ArrowSchema *schema)
{
    schema->release = NULL;
}

void documents_schema(struct ArrowSchema *out)
{
    *out = (struct ArrowSchema){
        .format = "z", .name = "", .flags = ARROW_FLAG_NULLABLE, .release = release_schema};
}
