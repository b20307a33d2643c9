#include "json_read.h"

#include <stdlib.h>
#include <string.h>

#include "json_leaves.h"

static enum json_outcome read_value(struct json_cursor *r, struct column_builder *node);

/* One wrong element makes the whole array wrong; what follows is still checked. */
static enum json_outcome read_list(struct json_cursor *r, struct column_builder *node)
{
    struct column_builder *child = &node->children[0];
    int64_t before = child->length;
    enum json_outcome worst = JSON_READ;
    if (!json_at(r, '['))
        return json_wrong(r, node);
    if (json_enter(r, ']') < 0)
        return JSON_STOPPED;
    int more = !json_at(r, ']');
    if (!more)
        json_leave(r);
    while (more) {
        enum json_outcome found;
        if (worst == JSON_WRONG)
            found = json_skip_value(r) < 0 ? JSON_STOPPED : JSON_WRONG;
        else
            found = read_value(r, child);
        if (found == JSON_STOPPED)
            return JSON_STOPPED;
        worst = found > worst ? found : worst;
        if ((more = json_go_on(r, ']')) < 0)
            return JSON_STOPPED;
    }
    if (worst == JSON_WRONG) {
        column_builder_truncate(child, before);
        return JSON_WRONG;
    }
    return column_builder_append_parent(node) < 0 ? json_out_of_memory(r) : worst;
}

static enum json_outcome read_entry(struct json_cursor *r, struct column_builder *entries)
{
    struct column_builder *key = &entries->children[0], *value = &entries->children[1];
    if (!json_at_string(r)) {
        json_stop(r, "a name in quotes is missing");
        return JSON_STOPPED;
    }
    if (json_read_string(r, key) == JSON_STOPPED || json_take_colon(r) < 0)
        return JSON_STOPPED;
    enum json_outcome found = read_value(r, value);
    if (found == JSON_READ || found == JSON_PARTLY)
        return column_builder_append_parent(entries) < 0 ? json_out_of_memory(r) : found;
    return found;
}

static enum json_outcome read_map(struct json_cursor *r, struct column_builder *node)
{
    struct column_builder *entries = &node->children[0];
    int64_t before = entries->length;
    enum json_outcome worst = JSON_READ;
    if (!json_at(r, '{'))
        return json_wrong(r, node);
    if (json_enter(r, '}') < 0)
        return JSON_STOPPED;
    int more = !json_at(r, '}');
    if (!more)
        json_leave(r);
    while (more) {
        enum json_outcome found;
        if (worst == JSON_WRONG)
            found = json_skip_name(r) < 0 || json_skip_value(r) < 0 ? JSON_STOPPED : JSON_WRONG;
        else
            found = read_entry(r, entries);
        if (found == JSON_STOPPED)
            return JSON_STOPPED;
        worst = found > worst ? found : worst;
        if ((more = json_go_on(r, '}')) < 0)
            return JSON_STOPPED;
    }
    if (worst == JSON_WRONG) {
        column_builder_truncate(entries, before);
        return JSON_WRONG;
    }
    return column_builder_append_parent(node) < 0 ? json_out_of_memory(r) : worst;
}

static inline int is_name(const struct column_builder *node, const uint8_t *from, size_t length)
{
    return node->name_length == length && memcmp(node->name, from, length) == 0;
}

/* The field of that name, or NULL. Documents mostly have the order of the schema, so the search begins there. */
static struct column_builder *find_field(struct column_builder *node, int *next, const uint8_t *from, size_t length)
{
    for (int i = 0; i < node->child_count; i++) {
        int index = *next + i < node->child_count ? *next + i : *next + i - node->child_count;
        if (is_name(&node->children[index], from, length)) {
            *next = index + 1 < node->child_count ? index + 1 : 0;
            return &node->children[index];
        }
    }
    return NULL;
}

/* Where the very name that is next in the schema follows, one comparison is all it takes. */
static inline int take_expected_name(struct json_cursor *r, const struct column_builder *child)
{
    size_t length = child->name_length;
    if (!child->is_plain || (size_t)(r->end - r->p) < length + 2 || r->p[0] != '"' || r->p[length + 1] != '"'
        || memcmp(r->p + 1, child->name, length) != 0)
        return 0;
    r->p += length + 2;
    return 1;
}

/* Takes a name and its colon; `field` is NULL where the schema has none of that name. */
static inline int take_name(struct json_cursor *r, struct column_builder *node, int *next, struct column_builder **field)
{
    const uint8_t *from, *to;
    *field = node->children + *next;
    if (__builtin_expect(node->child_count > 0 && take_expected_name(r, *field), 1)) {
        *next = *next + 1 < node->child_count ? *next + 1 : 0;
        return json_take_colon(r);
    }
    if (!json_at_string(r))
        return json_stop(r, "a name in quotes is missing");
    if (json_take_text(r, &from, &to) < 0)
        return -1;
    *field = find_field(node, next, from, (size_t)(to - from));
    return json_take_colon(r);
}

static enum json_outcome read_struct(struct json_cursor *r, struct column_builder *node)
{
    int64_t row = node->length;
    int next = 0;
    enum json_outcome worst = JSON_READ;
    if (!json_at(r, '{'))
        return json_wrong(r, node);
    if (json_enter(r, '}') < 0)
        return JSON_STOPPED;
    int more = !json_at(r, '}');
    if (!more)
        json_leave(r);
    while (more) {
        struct column_builder *field;
        if (take_name(r, node, &next, &field) < 0)
            return JSON_STOPPED;
        if (field == NULL) {
            if (json_skip_value(r) < 0)
                return JSON_STOPPED;
        } else {
            if (field->length > row)
                column_builder_truncate(field, row);
            enum json_outcome found = read_value(r, field);
            if (found == JSON_STOPPED)
                return JSON_STOPPED;
            if (found != JSON_READ)
                worst = JSON_PARTLY;
        }
        if ((more = json_go_on(r, '}')) < 0)
            return JSON_STOPPED;
    }
    for (int i = 0; i < node->child_count; i++)
        if (node->children[i].length == row && column_builder_append_null(&node->children[i]) < 0)
            return json_out_of_memory(r);
    return column_builder_append_parent(node) < 0 ? json_out_of_memory(r) : worst;
}

static enum json_outcome read_value(struct json_cursor *r, struct column_builder *node)
{
    if (json_at(r, 'n') && JSON_TAKE_WORD(r, "null"))
        return column_builder_append_null(node) < 0 ? json_out_of_memory(r) : JSON_READ;
    switch (node->kind) {
    case COLUMN_LIST:
        return read_list(r, node);
    case COLUMN_MAP:
        return read_map(r, node);
    case COLUMN_STRUCT:
        return read_struct(r, node);
    default:
        return json_read_leaf(r, node);
    }
}

/* A struct that is there, and has nothing in it. */
static int append_empty(struct column_builder *root)
{
    for (int i = 0; i < root->child_count; i++)
        if (column_builder_append_null(&root->children[i]) < 0)
            return -1;
    return column_builder_append_parent(root);
}

/* Appends one document: 0, 1 where it is malformed, -1 without memory. Blanks alone are a null. */
static int read_document(struct json_cursor *cursor, struct column_builder *root, const uint8_t *data, size_t size)
{
    int64_t row = root->length;
    enum json_outcome found = JSON_WRONG;
    cursor->start = cursor->p = data;
    cursor->end = data + size;
    cursor->problem = NULL;
    cursor->depth = 0;
    json_skip_blanks(cursor);
    if (cursor->p == cursor->end)
        return column_builder_append_null(root);
    if (json_at(cursor, '{')) {
        found = read_struct(cursor, root);
        json_skip_blanks(cursor);
        if (found != JSON_STOPPED && cursor->p < cursor->end) {
            json_stop(cursor, "something follows the document");
            found = JSON_STOPPED;
        }
    } else {
        json_stop(cursor, "the document is not an object");
    }
    if (cursor->no_memory)
        return -1;
    if (found == JSON_READ)
        return 0;
    if (found != JSON_PARTLY) {
        column_builder_truncate(root, row);
        if (append_empty(root) < 0)
            return -1;
    }
    return 1;
}

static int is_null(const uint8_t *validity, int64_t row)
{
    return validity != NULL && (validity[row / 8] >> (row % 8) & 1) == 0;
}

static void describe(const struct json_cursor *cursor, int64_t row, struct json_failure *failure)
{
    if (failure->row >= 0)
        return;
    failure->row = row;
    failure->problem = cursor->problem;
    failure->column = cursor->column;
    failure->position = cursor->problem_at - cursor->start;
}

int64_t json_read_documents(struct column_builder *root, const uint8_t *validity, const int32_t *offsets,
                            const uint8_t *data, int64_t from, int64_t rows, uint8_t *malformed,
                            struct json_failure *failure)
{
    struct json_cursor cursor;
    int64_t count = 0;
    memset(&cursor, 0, sizeof cursor);
    failure->row = -1;
    for (int64_t row = 0; row < rows && count >= 0; row++) {
        int found;
        if (is_null(validity, from + row)) {
            found = column_builder_append_null(root);
        } else {
            int32_t start = offsets[from + row];
            found = read_document(&cursor, root, data + start, (size_t)(offsets[from + row + 1] - start));
        }
        if (found > 0) {
            describe(&cursor, row, failure);
            malformed[row / 8] |= (uint8_t)(1u << (row % 8));
            count++;
        }
        if (found < 0)
            count = -1;
    }
    free(cursor.scratch);
    return count;
}
