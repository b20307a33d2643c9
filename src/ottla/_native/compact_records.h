/* What compaction does with each record of a batch: enters its key, keeps it or not, writes it anew.
 *
 * The records are decompressed and without the header of their batch. Offsets never change; what changes in a record
 * that stays is the delta of its timestamp, where the batch gets another base. Functions that can meet bytes which are
 * no records return what is wrong with them, or NULL. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "offset_map.h"

struct record_run {
    const uint8_t *data;
    size_t size;
    int32_t count;
    int64_t base_offset;
    int64_t base_timestamp;
    int32_t failed; /* the index of the record with which something is wrong */
};

struct record_choice {
    /* the rules */
    int64_t latest_offset; /* of what the map knows: records behind it stay */
    int drops_tombstones;
    /* what was found */
    int32_t kept;
    int has_tombstones; /* among the kept */
    int64_t first_timestamp; /* of the kept */
    int64_t max_timestamp;
};

/* Enters the keys of the records from an offset on. The map has free slots for all of them. */
const char *map_records(struct offset_map *map, struct record_run *run, int64_t from_offset);

/* Writes 1 or 0 into `keeps` for each record. */
const char *choose_records(const struct offset_map *map, struct record_run *run, struct record_choice *choice,
                           uint8_t *keeps);

/* The bytes of the kept records under another base timestamp; `out` may be NULL, to learn how many there are. With
 * `timestamp` every record has that one, as where the log has set them; else NULL. */
size_t write_records(const struct record_run *run, const uint8_t *keeps, int64_t base_timestamp,
                     const int64_t *timestamp, uint8_t *out);
