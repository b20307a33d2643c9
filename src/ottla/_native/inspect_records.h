/* What a broker must know of the records in a producer's batch before it accepts them.
 *
 * One pass over the decompressed records; nothing is kept but a few numbers. Records that break a rule of the topic
 * are reported one by one, as most batches have none. The layout is checked as strictly as Kafka's broker does it:
 * lengths within lengths, and not a byte left over. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum inspect_status {
    INSPECT_DONE,   /* every record was read, and nothing is left */
    INSPECT_FAULT,  /* the record before `next` breaks a rule: note it, call again */
    INSPECT_BAD,    /* `problem` says what is wrong with the bytes of record `next` */
};

struct inspection {
    /* the records, and how many there should be */
    const uint8_t *position;
    const uint8_t *end;
    int32_t count;
    int64_t base_timestamp;
    /* the rules: a time within the bounds, unless it is -1, and a key */
    int64_t earliest;
    int64_t latest;
    int keys_required;
    /* what was found */
    int32_t next; /* the index of the record at `position` */
    int offsets_are_dense; /* they are 0, 1, 2, ... */
    int64_t max_timestamp;
    int64_t timestamp; /* of the record with a fault */
    int has_key;
    const char *problem;
};

void inspect_start(struct inspection *inspection, const uint8_t *data, size_t size);

enum inspect_status inspect_go_on(struct inspection *inspection);
