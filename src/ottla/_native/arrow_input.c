/* Which Arrow types are taken, and where their buffers are. */
#include "arrow_input.h"

/* An array without bytes may leave its buffer out; an address is needed even so. */
static const uint8_t nothing[1];

static int format_is(const struct ArrowSchema *schema, const char *format)
{
    return schema->dictionary == NULL && strcmp(schema->format, format) == 0;
}

static int is_one_of(const struct ArrowSchema *schema, const char *const *formats)
{
    for (; *formats != NULL; formats++)
        if (format_is(schema, *formats))
            return 1;
    return 0;
}

void place_column(struct column *column, enum layout layout, const struct ArrowArray *array, int64_t parent)
{
    memset(column, 0, sizeof *column);
    column->layout = layout;
    if (layout == LAYOUT_NULLS)
        return;
    column->first = parent + array->offset;
    column->validity = array->null_count == 0 ? NULL : array->buffers[0];
    column->values = array->buffers[1];
    if (layout == LAYOUT_VIEWS)
        column->blocks = array->buffers + 2;
}

static int bytes_layout(const struct ArrowSchema *schema)
{
    static const char *const offsets32[] = {"z", "u", NULL}, *const offsets64[] = {"Z", "U", NULL},
                             *const views[] = {"vz", "vu", NULL};
    if (is_one_of(schema, offsets32))
        return LAYOUT_OFFSETS32;
    if (is_one_of(schema, offsets64))
        return LAYOUT_OFFSETS64;
    if (is_one_of(schema, views))
        return LAYOUT_VIEWS;
    return format_is(schema, "n") ? LAYOUT_NULLS : -1;
}

static int integer_layout(const char *format)
{
    static const struct {
        const char *format;
        enum layout layout;
    } integers[] = {
        {"c", LAYOUT_INT8},  {"s", LAYOUT_INT16},  {"i", LAYOUT_INT32},  {"l", LAYOUT_INT64},
        {"C", LAYOUT_UINT8}, {"S", LAYOUT_UINT16}, {"I", LAYOUT_UINT32}, {"L", LAYOUT_INT64},
    };
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        if (strcmp(format, integers[i].format) == 0)
            return integers[i].layout;
    return -1;
}

static int dictionary_column(struct column *column, const struct ArrowSchema *schema,
                             const struct ArrowArray *array, int64_t parent)
{
    int layout = integer_layout(schema->format);
    if (layout < 0 || schema->dictionary->dictionary != NULL ||
        bytes_column(column, schema->dictionary, array->dictionary, 0) < 0)
        return -1;
    column->indices = (struct indices){
        .layout = (enum layout)layout,
        .first = parent + array->offset,
        .validity = array->null_count == 0 ? NULL : array->buffers[0],
        .values = array->buffers[1],
    };
    return 0;
}

int bytes_column(struct column *column, const struct ArrowSchema *schema, const struct ArrowArray *array,
                 int64_t parent)
{
    if (schema->dictionary != NULL)
        return dictionary_column(column, schema, array, parent);
    int layout = bytes_layout(schema);
    if (layout < 0)
        return -1;
    place_column(column, (enum layout)layout, array, parent);
    if (layout == LAYOUT_OFFSETS32 || layout == LAYOUT_OFFSETS64)
        column->bytes = array->buffers[2] != NULL ? array->buffers[2] : nothing;
    return 0;
}

int partition_column(struct column *column, const struct ArrowSchema *schema, const struct ArrowArray *array,
                     int64_t parent)
{
    static const char *const taken[] = {"c", "s", "i", "l", "n", NULL};
    if (!is_one_of(schema, taken))
        return -1;
    int layout = format_is(schema, "n") ? LAYOUT_NULLS : integer_layout(schema->format);
    place_column(column, (enum layout)layout, array, parent);
    return 0;
}

int time_column(struct time_column *column, const struct ArrowSchema *schema, const struct ArrowArray *array,
                int64_t parent)
{
    /* Behind the colon there may be a time zone, which does not change the instant. */
    static const struct {
        const char *unit;
        int64_t multiplier, divisor;
    } units[] = {{"tss:", 1000, 1}, {"tsm:", 1, 1}, {"tsu:", 1, 1000}, {"tsn:", 1, 1000000}};
    column->multiplier = column->divisor = 1;
    if (schema->dictionary != NULL)
        return -1;
    if (format_is(schema, "n") || format_is(schema, "l")) {
        place_column(&column->values, schema->format[0] == 'n' ? LAYOUT_NULLS : LAYOUT_INT64, array, parent);
        return 0;
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strncmp(schema->format, units[i].unit, 4) == 0) {
            place_column(&column->values, LAYOUT_INT64, array, parent);
            column->multiplier = units[i].multiplier;
            column->divisor = units[i].divisor;
            return 0;
        }
    return -1;
}

static int64_t child_named(const struct ArrowSchema *schema, const char *name)
{
    for (int64_t i = 0; i < schema->n_children; i++)
        if (schema->children[i]->name != NULL && strcmp(schema->children[i]->name, name) == 0)
            return i;
    return -1;
}

static int is_text(const struct ArrowSchema *schema)
{
    static const char *const text[] = {"u", "U", "vu", NULL};
    return is_one_of(schema->dictionary != NULL ? schema->dictionary : schema, text);
}

int header_column(struct header_column *column, const struct ArrowSchema *schema, const struct ArrowArray *array,
                  int64_t parent)
{
    enum layout layout = format_is(schema, "+L") ? LAYOUT_OFFSETS64 : LAYOUT_OFFSETS32;
    if (format_is(schema, "n")) {
        place_column(&column->lists, LAYOUT_NULLS, array, parent);
        return 0;
    }
    /* A map is laid out as a list of structs is. */
    if (!format_is(schema, "+l") && !format_is(schema, "+L") && !format_is(schema, "+m"))
        return -1;
    const struct ArrowSchema *entry = schema->children[0];
    if (!format_is(entry, "+s") || entry->n_children != 2)
        return -1;
    int64_t key = child_named(entry, "key"), value = child_named(entry, "value");
    if (key < 0 || value < 0 || !is_text(entry->children[key]))
        return -1;
    const struct ArrowArray *entries = array->children[0];
    place_column(&column->lists, layout, array, parent);
    row_column(&column->entries, entries, 0);
    if (bytes_column(&column->keys, entry->children[key], entries->children[key], entries->offset) < 0)
        return -1;
    return bytes_column(&column->values, entry->children[value], entries->children[value], entries->offset);
}

void row_column(struct column *column, const struct ArrowArray *array, int64_t parent)
{
    memset(column, 0, sizeof *column);
    column->layout = LAYOUT_INT8; /* any but LAYOUT_NULLS: the values themselves are those of its children */
    if (array == NULL)
        return;
    column->first = parent + array->offset;
    column->validity = array->null_count == 0 ? NULL : array->buffers[0];
}
