/* murmur2 as Kafka has it: the hash of a record's key that chooses its partition.
 *
 * Invariant: the result is that of Kafka's Java client, bit for bit; another one would send the records of a
 * key to a different partition than every other client does.
 */
#ifndef OTTLA_MURMUR2_H
#define OTTLA_MURMUR2_H

#include <stddef.h>
#include <stdint.h>

/* Signed, as Java's int. A partitioner clears the sign bit before it takes the remainder. */
int32_t murmur2(const void *data, size_t length);

#endif
