#include "scan_batches.h"

#include <stdlib.h>

#include "crc32c.h"

enum { MAGIC = 2, NO_TIMESTAMP = -1, NO_PRODUCER = -1, FIRST_ROOM = 64 };

void batch_scan_start(struct batch_scan *scan, int64_t size, int64_t base_offset, int64_t index_interval,
                      int64_t latest_epoch)
{
    *scan = (struct batch_scan){
        .size = size,
        .base_offset = base_offset,
        .index_interval = index_interval,
        .next_offset = base_offset,
        .first_timestamp = NO_TIMESTAMP,
        .max_timestamp = NO_TIMESTAMP,
        .max_timestamp_offset = base_offset,
        .indexed_timestamp = NO_TIMESTAMP,
        .latest_epoch = latest_epoch,
    };
}

void batch_scan_end(struct batch_scan *scan)
{
    free(scan->batches);
    free(scan->producers);
    free(scan->offset_entries.data);
    free(scan->time_entries.data);
    batch_scan_start(scan, 0, 0, 0, 0);
}

/* Room for `needed` elements, at least twice what there was; NULL where there is no memory. */
static void *grown(void *data, size_t *room, size_t needed, size_t element)
{
    size_t larger = *room ? 2 * *room : FIRST_ROOM;
    void *moved = realloc(data, (larger < needed ? needed : larger) * element);
    if (moved != NULL)
        *room = larger < needed ? needed : larger;
    return moved;
}

static uint8_t *new_entry(struct entries *entries, size_t size)
{
    if (entries->size + size > entries->room) {
        void *moved = grown(entries->data, &entries->room, entries->size + size, 1);
        if (moved == NULL)
            return NULL;
        entries->data = moved;
    }
    entries->size += size;
    return entries->data + entries->size - size;
}

/* Whether the batch whose header is there can be the next one. */
static int fits(const struct batch_scan *scan)
{
    const uint8_t *header = scan->header;
    int64_t size = (int64_t)(int32_t)load32(header + BATCH_LENGTH) + LOG_OVERHEAD;
    int64_t offset = (int64_t)load64(header + BATCH_BASE_OFFSET);
    int64_t delta = (int32_t)load32(header + BATCH_LAST_OFFSET_DELTA);
    return size >= BATCH_OVERHEAD && size <= scan->size - scan->position && header[BATCH_MAGIC] == MAGIC &&
           delta >= 0 && offset >= scan->next_offset && offset - scan->base_offset <= INT32_MAX - delta;
}

static int index_batch(struct batch_scan *scan, int64_t size, int64_t last_offset, int64_t timestamp)
{
    if (scan->position == 0)
        scan->first_timestamp = timestamp;
    if (timestamp > scan->max_timestamp) {
        scan->max_timestamp = timestamp;
        scan->max_timestamp_offset = last_offset;
    }
    if (scan->unindexed > scan->index_interval) {
        uint8_t *entry = new_entry(&scan->offset_entries, 8);
        if (entry == NULL)
            return -1;
        store32(entry, (uint32_t)(last_offset - scan->base_offset));
        store32(entry + 4, (uint32_t)scan->position);
        if (scan->max_timestamp > scan->indexed_timestamp) {
            entry = new_entry(&scan->time_entries, 12);
            if (entry == NULL)
                return -1;
            store64(entry, (uint64_t)scan->max_timestamp);
            store32(entry + 8, (uint32_t)(scan->max_timestamp_offset - scan->base_offset));
            scan->indexed_timestamp = scan->max_timestamp;
        }
        scan->unindexed = 0;
    }
    scan->unindexed += size;
    return 0;
}

/* The batch that was read to its end is whole. */
static int take_batch(struct batch_scan *scan)
{
    const uint8_t *header = scan->header;
    int64_t size = (int64_t)(int32_t)load32(header + BATCH_LENGTH) + LOG_OVERHEAD;
    int64_t last_offset =
        (int64_t)load64(header + BATCH_BASE_OFFSET) + (int32_t)load32(header + BATCH_LAST_OFFSET_DELTA);
    int32_t epoch = (int32_t)load32(header + BATCH_LEADER_EPOCH);
    if (scan->count == scan->room) {
        void *moved = grown(scan->batches, &scan->room, scan->count + 1, sizeof *scan->batches);
        if (moved == NULL)
            return -1;
        scan->batches = moved;
    }
    struct scanned_batch *batch = &scan->batches[scan->count++];
    batch->position = scan->position;
    memcpy(batch->header, header, BATCH_OVERHEAD);
    batch->is_told = epoch > scan->latest_epoch;
    if (batch->is_told)
        scan->latest_epoch = epoch;
    if (index_batch(scan, size, last_offset, (int64_t)load64(header + BATCH_MAX_TIMESTAMP)) < 0)
        return -1;
    scan->position += size;
    scan->next_offset = last_offset + 1;
    scan->header_size = 0;
    return 0;
}

static struct scanned_producer *producer_of(struct batch_scan *scan, int64_t id)
{
    size_t mask = scan->producers_room - 1;
    size_t at = (size_t)(((uint64_t)id * 0x9E3779B97F4A7C15ULL) >> 32) & mask;
    while (scan->producers[at].id != id && scan->producers[at].id != NO_PRODUCER)
        at = (at + 1) & mask;
    return &scan->producers[at];
}

static void look_at_producer(struct batch_scan *scan, uint32_t number)
{
    struct scanned_batch *batch = &scan->batches[number];
    int64_t id = (int64_t)load64(batch->header + BATCH_PRODUCER_ID);
    if (id <= NO_PRODUCER)
        return;
    struct scanned_producer *producer = producer_of(scan, id);
    int is_new = producer->id == NO_PRODUCER;
    int16_t epoch = (int16_t)load16(batch->header + BATCH_PRODUCER_EPOCH);
    uint16_t attributes = load16(batch->header + BATCH_ATTRIBUTES);
    uint8_t is_transactional = (attributes & ATTRIBUTE_TRANSACTIONAL) != 0;
    if (attributes & ATTRIBUTE_CONTROL) {
        batch->is_told = 1;
        if (!is_new)
            producer->begins = 1;
        return;
    }
    if (is_new || producer->begins || producer->epoch != epoch || producer->is_transactional != is_transactional)
        batch->is_told = 1;
    producer->id = id;
    producer->epoch = epoch;
    producer->is_transactional = is_transactional;
    producer->begins = 0;
    producer->last[producer->count++ % REMEMBERED_BATCHES] = number;
}

static int tell_producers(struct batch_scan *scan)
{
    size_t needed = FIRST_ROOM;
    while (needed < 2 * scan->count)
        needed *= 2;
    if (needed > scan->producers_room) {
        void *moved = realloc(scan->producers, needed * sizeof *scan->producers);
        if (moved == NULL)
            return -1;
        scan->producers = moved;
        scan->producers_room = needed;
    }
    for (size_t i = 0; i < scan->producers_room; i++)
        scan->producers[i] = (struct scanned_producer){.id = NO_PRODUCER};
    for (size_t i = 0; i < scan->count; i++)
        look_at_producer(scan, (uint32_t)i);
    for (size_t i = 0; i < scan->producers_room; i++) {
        const struct scanned_producer *producer = &scan->producers[i];
        for (uint32_t n = 0; n < REMEMBERED_BATCHES && n < producer->count; n++)
            scan->batches[producer->last[n]].is_told = 1;
    }
    return 0;
}

int batch_scan_feed(struct batch_scan *scan, const uint8_t *data, size_t size)
{
    scan->count = 0;
    scan->offset_entries.size = scan->time_entries.size = 0;
    while (size && !scan->is_damaged) {
        if (scan->header_size < BATCH_OVERHEAD) {
            size_t missing = BATCH_OVERHEAD - scan->header_size;
            size_t taken = missing < size ? missing : size;
            memcpy(scan->header + scan->header_size, data, taken);
            scan->header_size += taken;
            data += taken;
            size -= taken;
            if (scan->header_size < BATCH_OVERHEAD)
                break;
            if (!fits(scan)) {
                scan->is_damaged = 1;
                break;
            }
            scan->left = (int64_t)load32(scan->header + BATCH_LENGTH) + LOG_OVERHEAD - BATCH_OVERHEAD;
            scan->crc = crc32c(0, scan->header + BATCH_ATTRIBUTES, BATCH_OVERHEAD - BATCH_ATTRIBUTES);
        }
        size_t taken = (uint64_t)scan->left < size ? (size_t)scan->left : size;
        scan->crc = crc32c(scan->crc, data, taken);
        scan->left -= (int64_t)taken;
        data += taken;
        size -= taken;
        if (scan->left)
            break;
        if (scan->crc != load32(scan->header + BATCH_CRC))
            scan->is_damaged = 1;
        else if (take_batch(scan) < 0)
            return -1;
    }
    return tell_producers(scan);
}
