/* The batches of a segment, read from its first byte on: which are whole, and what its indexes and producers are.
 *
 * The bytes come in pieces of any size, cut anywhere; of a batch that is not at its end only its header and its
 * checksum so far are kept. The scan ends with the first batch that is damaged or does not fit into the segment.
 *
 * Of the batches of a piece those are told that change what is known of leader epochs or producers. Of a producer
 * that is, as long as its epoch and its kind of batches stay the same, the first one, with which a transaction may
 * begin, every marker, and the last ones, which may be sent again: for the others nothing would be different. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "batch.h"

enum { REMEMBERED_BATCHES = 5 }; /* of a producer, as in broker/log/producers.py */

struct scanned_batch {
    int64_t position;
    uint8_t header[BATCH_OVERHEAD];
    uint8_t is_told;
};

struct scanned_producer {
    int64_t id; /* -1: the slot is free */
    int16_t epoch;
    uint8_t is_transactional;
    uint8_t begins; /* the next batch is the first one behind a marker */
    uint32_t count;
    uint32_t last[REMEMBERED_BATCHES]; /* a ring: batch number n of this producer is at n % REMEMBERED_BATCHES */
};

struct entries {
    uint8_t *data;
    size_t size;
    size_t room;
};

struct batch_scan {
    int64_t size; /* of the segment, in bytes */
    int64_t base_offset;
    int64_t index_interval;
    /* up to here every batch is whole */
    int64_t position;
    int64_t next_offset;
    int64_t first_timestamp;
    int64_t max_timestamp;
    int64_t max_timestamp_offset;
    int64_t indexed_timestamp;
    int64_t unindexed;
    int64_t latest_epoch;
    int is_damaged;
    /* the batch behind that */
    uint8_t header[BATCH_OVERHEAD];
    size_t header_size;
    int64_t left;
    uint32_t crc;
    /* what the last piece has come to; the entries are in the form of the index files */
    struct scanned_batch *batches;
    size_t count;
    size_t room;
    struct scanned_producer *producers;
    size_t producers_room;
    struct entries offset_entries;
    struct entries time_entries;
};

void batch_scan_start(struct batch_scan *scan, int64_t size, int64_t base_offset, int64_t index_interval,
                      int64_t latest_epoch);

void batch_scan_end(struct batch_scan *scan);

/* Takes the next piece; -1 where there is no memory, after which the scan is of no use. */
int batch_scan_feed(struct batch_scan *scan, const uint8_t *data, size_t size);
