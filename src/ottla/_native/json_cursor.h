/* A place in a document of JSON: what stands there, and how to get behind it.
 *
 * Whatever is taken has been checked in whole. A function that returns -1 has stopped: the bytes are not JSON and
 * `problem` says why, or there is no memory. Nothing here recurses. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "json_number.h"
#include "json_text.h"

/* Jackson's limit. */
enum { JSON_MOST_DEPTH = 1000 };

struct json_cursor {
    const uint8_t *start, *p, *end;
    const char *problem; /* the first, or what is no JSON at all */
    const char *column;  /* whose value it is, or NULL */
    const uint8_t *problem_at;
    int no_memory;
    int depth;
    uint8_t *scratch; /* for text that was written with escapes */
    size_t scratch_size;
    uint8_t brackets[JSON_MOST_DEPTH]; /* what closes the values that are open */
};

void json_note(struct json_cursor *r, const char *problem, const uint8_t *at, const char *column);
int json_stop(struct json_cursor *r, const char *problem);

/* Takes the string at hand, as text; it stays until the next one is taken. */
int json_take_text(struct json_cursor *r, const uint8_t **from, const uint8_t **to);
/* NaN and the infinities, which Jackson takes for numbers: how many bytes, 0 where there is none. */
size_t json_non_number(const uint8_t *p, const uint8_t *end, double *value);
/* Takes a name and its colon. */
int json_skip_name(struct json_cursor *r);
/* Checks one value, however deep, and leaves it. */
int json_skip_value(struct json_cursor *r);

static inline void json_skip_blanks(struct json_cursor *r)
{
    const uint8_t *p = r->p, *end = r->end;
    while (p < end && *p <= ' ' && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    r->p = p;
}

static inline int json_at(const struct json_cursor *r, uint8_t byte)
{
    return r->p < r->end && *r->p == byte;
}

static inline int json_at_string(const struct json_cursor *r)
{
    return r->p < r->end && (*r->p == '"' || *r->p == '\'');
}

/* -Infinity is none of JSON's numbers. */
static inline int json_at_number(const struct json_cursor *r)
{
    if (r->p < r->end && *r->p == '-')
        return r->end - r->p == 1 || r->p[1] != 'I';
    return r->p < r->end && (uint8_t)(*r->p - '0') < 10;
}

/* Takes the string at hand: the bytes between its quotes. */
static inline int json_take_string(struct json_cursor *r, const uint8_t **from, const uint8_t **to, int *escaped)
{
    const char *problem;
    *from = r->p + 1;
    *to = json_string_end(*from, r->end, *r->p, escaped, &problem);
    if (*to == NULL)
        return json_stop(r, problem);
    r->p = *to + 1;
    return 0;
}

static inline int json_take_number(struct json_cursor *r, struct json_number *number)
{
    const char *problem;
    const uint8_t *end = json_number_read(r->p, r->end, number, &problem);
    if (end == NULL)
        return json_stop(r, problem);
    r->p = end;
    return 0;
}

static inline int json_take_word(struct json_cursor *r, const char *word, size_t length)
{
    if ((size_t)(r->end - r->p) < length || memcmp(r->p, word, length) != 0)
        return 0;
    r->p += length;
    return 1;
}

#define JSON_TAKE_WORD(r, word) json_take_word(r, word, sizeof word - 1)

static inline int json_enter(struct json_cursor *r, uint8_t closing)
{
    if (r->depth == JSON_MOST_DEPTH)
        return json_stop(r, "values are nested more than 1000 deep");
    r->brackets[r->depth++] = closing;
    r->p++;
    json_skip_blanks(r);
    return 0;
}

static inline void json_leave(struct json_cursor *r)
{
    r->depth--;
    r->p++;
}

/* Behind a name and its colon. */
static inline int json_take_colon(struct json_cursor *r)
{
    json_skip_blanks(r);
    if (!json_at(r, ':'))
        return json_stop(r, "a colon is missing behind a name");
    r->p++;
    json_skip_blanks(r);
    return 0;
}

/* Behind a value inside of brackets: 1 where another one follows, 0 where the bracket closed, -1 for neither. */
static inline int json_go_on(struct json_cursor *r, uint8_t closing)
{
    json_skip_blanks(r);
    if (json_at(r, ',')) {
        r->p++;
        json_skip_blanks(r);
        return 1;
    }
    if (json_at(r, closing)) {
        json_leave(r);
        return 0;
    }
    return json_stop(r, r->p == r->end ? "the document does not end" : "a comma or a closing bracket is missing");
}
