/* Rows of columns into batches, in two passes: plan_rows() chooses the batch of every row and so finds the size of
 * each batch; write_rows() fills them.
 *
 * In between, the caller provides exactly the memory that is needed. All that can be wrong with the rows is found
 * by the plan, before anything is written. Neither pass needs Python.
 *
 * What is too much for one go is cut before: measure_rows() says into which slices, by what each row really takes, and
 * finds whatever is wrong with any row; select_rows() gives the segments of one slice. */
#pragma once

#include "arrow_input.h"

enum plan_error {
    PLAN_OK,
    PLAN_NO_MEMORY,
    PLAN_ROW_IS_NULL,
    PLAN_NO_SUCH_PARTITION,  /* number: the partition */
    PLAN_NEGATIVE_PARTITION, /* number: the partition */
    PLAN_NO_PARTITION,
    PLAN_TIMESTAMP_RANGE,
    PLAN_TIMESTAMP_NEGATIVE, /* number: the timestamp */
    PLAN_HEADER_IS_NULL,  /* number: which header of the row */
    PLAN_HEADER_NO_KEY,   /* number: which header of the row */
    PLAN_RECORD_TOO_LARGE, /* number: its size */
    PLAN_RECORD_NEVER_FITS /* number: its size */
};

struct plan_options {
    int32_t partitions;
    int32_t unkeyed;        /* where records without key and partition go; -1: they are an error */
    int ignore_keys;        /* keys say nothing about partitions */
    size_t batch_size;      /* header included; a record that does not fit is alone in its batch */
    size_t max_record_size; /* of the batch that would hold the record alone; at most INT32_MAX */
    int64_t now;
};

/* Where a row goes, and the size of its record behind the length. */
struct placement {
    int32_t batch;
    uint32_t body;
};

struct planned_batch {
    int64_t base_timestamp, max_timestamp;
    size_t size; /* header included */
    int32_t partition, count;
    /* For the second pass; `data` and `rows` are given by the caller, the latter only if wanted. */
    uint8_t *data;
    int32_t *rows;
    uint8_t *next;
    int32_t written;
    uint32_t crc; /* of the records, once they are all written */
};

struct plan {
    struct placement *placements; /* given by the caller: one per row */
    struct planned_batch *batches;
    int32_t count, capacity;
    int64_t row, number; /* what the error is about */
};

struct slice {
    int64_t first, count;
    size_t size; /* about */
};

struct slicing {
    size_t most_bytes; /* of a slice, unless one row is larger */
    int64_t most_rows;
    size_t buffer; /* what a row must not exceed in any case */
    struct slice *slices;
    int64_t count, capacity;
    int64_t row, number; /* what the error is about */
};

/* Of the options the batch's size and `now` do not matter; `unkeyed` may be any partition if there will be one. The
 * caller frees `slices`. */
enum plan_error measure_rows(struct slicing *slicing, const struct segment *segments, int32_t segment_count,
                             const struct plan_options *options);

/* Whether every row names its partition; 0 also where a column could have nulls and has none. */
int all_name_partitions(const struct segment *segments, int32_t segment_count);

/* The rows from `first` on; `selected` has room for as many segments as there are. How many it has become. */
int32_t select_rows(struct segment *selected, const struct segment *segments, int64_t first, int64_t count);

enum plan_error plan_rows(struct plan *plan, const struct segment *segments, int32_t segment_count,
                          const struct plan_options *options);

/* Fills the batches and seals each as soon as it is complete, while it is in the cache. */
void write_rows(struct plan *plan, const struct segment *segments, int32_t segment_count, int64_t now);

void plan_free(struct plan *plan);
