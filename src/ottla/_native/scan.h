/* Scanning a fetched `records` field: which records are in it, and where their parts are.
 *
 * One pass per batch: header, checksum, records, while the batch is in the cache. Nothing is copied; a record is
 * described by pointers into the fetched or decompressed bytes. The scan keeps the rules of a consumer: control
 * batches are not delivered (unless a coordinator reads them), nor, when reading committed data, the batches of aborted
 * transactions; offsets below the requested one are cut; a truncated last batch is left out.
 *
 * The scan touches no Python object. Where it needs help (more room, decompression, message sets of magic 0 and
 * 1) it returns and is called again. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct record {
    int64_t offset;
    int64_t timestamp;
    const uint8_t *key;     /* where the key is, or would be: the other parts are found from here */
    uint32_t value_at;      /* distance from key */
    uint32_t headers_at;    /* distance from key, behind the number of headers */
    int32_t key_length;     /* -1: null */
    int32_t value_length;   /* -1: null */
    uint32_t headers_and_flags; /* how many headers, a bit for control records, timestamp type + 1 in two bits */
    int32_t leader_epoch;
};

enum { MOST_HEADERS = (1 << 28) - 1 };

static inline uint32_t record_headers_and_flags(int32_t headers, int control, int timestamp_type)
{
    return (uint32_t)headers << 3 | (uint32_t)(control != 0) << 2 | (uint32_t)(timestamp_type + 1);
}

static inline int32_t record_header_count(const struct record *r)
{
    return (int32_t)(r->headers_and_flags >> 3);
}

static inline int record_is_control(const struct record *r)
{
    return (r->headers_and_flags & 4) != 0;
}

static inline int record_timestamp_type(const struct record *r)
{
    return (int)(r->headers_and_flags & 3) - 1;
}

struct aborted_transaction {
    int64_t producer_id;
    int64_t first_offset;
};

enum scan_status {
    SCAN_DONE,       /* the end, or a truncated last batch */
    SCAN_GO_ON,      /* one batch is done */
    SCAN_NEEDS_ROOM, /* for `batch.count` more records: enlarge, call again */
    SCAN_COMPRESSED, /* `batch.records` must be decompressed, then scan_decompressed */
    SCAN_OLD_MAGIC,  /* a message of magic 0 or 1 stands at `position` */
    SCAN_BAD,        /* `problem` says why */
};

/* The batch that the scan is at. */
struct scanned_batch {
    int64_t base_offset;
    int64_t next_offset;
    int64_t base_timestamp;
    int64_t max_timestamp;
    int64_t producer_id;
    int32_t leader_epoch;
    int32_t count;
    int32_t attributes;
    const uint8_t *records;
    size_t records_size;
    size_t size; /* of the whole batch in the field */
};

struct scan {
    /* the field */
    const uint8_t *data;
    size_t size;
    size_t position;
    /* what is wanted */
    int64_t wanted_offset;
    int check_crc;
    int deliver_control;
    int read_committed;
    const struct aborted_transaction *aborted; /* ascending first offsets */
    size_t aborted_count;
    size_t aborted_next;
    int64_t *aborting; /* producers whose current transaction will be aborted; room for aborted_count */
    size_t aborting_count;
    /* what was found */
    struct record *records;
    size_t count;
    size_t room;
    int64_t next_offset;
    uint64_t key_bytes;
    uint64_t value_bytes;
    uint64_t header_count;
    uint64_t header_key_bytes;
    uint64_t header_value_bytes;
    /* where it is */
    struct scanned_batch batch;
    const char *problem;
};

/* At least how many records the uncompressed batches claim, within what their bytes could hold. */
size_t scan_estimate(const struct scan *scan);

/* Handles the batch at `position`. */
enum scan_status scan_batch(struct scan *scan);

/* Goes on with a compressed batch: `data` are its records. */
enum scan_status scan_decompressed(struct scan *scan, const uint8_t *data, size_t size);

/* The next header: returns the position behind it, or NULL at bytes that are none. A null value has length -1. */
const uint8_t *scan_header(const uint8_t *p, const uint8_t *end, const uint8_t **key, int32_t *key_length,
                           const uint8_t **value, int32_t *value_length);
