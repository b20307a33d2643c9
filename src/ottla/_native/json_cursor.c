#include "json_cursor.h"

#include <math.h>
#include <stdlib.h>

void json_note(struct json_cursor *r, const char *problem, const uint8_t *at, const char *column)
{
    if (r->problem != NULL)
        return;
    r->problem = problem;
    r->problem_at = at;
    r->column = column;
}

int json_stop(struct json_cursor *r, const char *problem)
{
    /* What is no JSON at all says more than a wrong type before it. */
    r->problem = NULL;
    json_note(r, problem, r->p, NULL);
    return -1;
}

int json_take_text(struct json_cursor *r, const uint8_t **from, const uint8_t **to)
{
    int escaped;
    if (json_take_string(r, from, to, &escaped) < 0)
        return -1;
    if (!escaped)
        return 0;
    size_t size = (size_t)(*to - *from);
    if (size > r->scratch_size) {
        uint8_t *grown = realloc(r->scratch, size);
        if (grown == NULL) {
            r->no_memory = 1;
            return -1;
        }
        r->scratch = grown;
        r->scratch_size = size;
    }
    *to = r->scratch + json_unescape(*from, *to, r->scratch);
    *from = r->scratch;
    return 0;
}

size_t json_non_number(const uint8_t *p, const uint8_t *end, double *value)
{
    static const struct {
        const char *word;
        double value;
    } WORDS[] = {{"NaN", NAN},        {"Infinity", INFINITY},   {"-Infinity", -INFINITY},
                 {"-INF", -INFINITY}, {"+Infinity", INFINITY}, {"+INF", INFINITY}};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        size_t length = strlen(WORDS[i].word);
        if ((size_t)(end - p) >= length && memcmp(p, WORDS[i].word, length) == 0) {
            *value = WORDS[i].value;
            return length;
        }
    }
    return 0;
}

static int skip_non_number(struct json_cursor *r)
{
    double value;
    size_t length = json_non_number(r->p, r->end, &value);
    r->p += length;
    return length > 0 ? 0 : json_stop(r, "a value begins as none of JSON's does");
}

static int skip_word(struct json_cursor *r)
{
    if (JSON_TAKE_WORD(r, "true") || JSON_TAKE_WORD(r, "false") || JSON_TAKE_WORD(r, "null"))
        return 0;
    return json_stop(r, "a word is none of JSON's");
}

static int skip_scalar(struct json_cursor *r)
{
    struct json_number number;
    const uint8_t *from, *to;
    int escaped;
    if (r->p == r->end)
        return json_stop(r, "the document does not end");
    if (json_at_string(r))
        return json_take_string(r, &from, &to, &escaped);
    if (json_at_number(r))
        return json_take_number(r, &number);
    return *r->p == 't' || *r->p == 'f' || *r->p == 'n' ? skip_word(r) : skip_non_number(r);
}

int json_skip_name(struct json_cursor *r)
{
    const uint8_t *from, *to;
    int escaped;
    if (!json_at_string(r))
        return json_stop(r, "a name in quotes is missing");
    return json_take_string(r, &from, &to, &escaped) < 0 ? -1 : json_take_colon(r);
}

int json_skip_value(struct json_cursor *r)
{
    int base = r->depth;
    for (;;) {
        if (json_at(r, '{') || json_at(r, '[')) {
            if (json_enter(r, *r->p == '{' ? '}' : ']') < 0)
                return -1;
            if (!json_at(r, r->brackets[r->depth - 1])) {
                if (r->brackets[r->depth - 1] == '}' && json_skip_name(r) < 0)
                    return -1;
                continue;
            }
            json_leave(r);
        } else if (skip_scalar(r) < 0) {
            return -1;
        }
        int more = 0;
        while (r->depth > base && (more = json_go_on(r, r->brackets[r->depth - 1])) == 0)
            ;
        if (more < 0)
            return -1;
        if (r->depth == base)
            return 0;
        if (r->brackets[r->depth - 1] == '}' && json_skip_name(r) < 0)
            return -1;
    }
}
