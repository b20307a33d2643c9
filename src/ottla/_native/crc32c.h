/* CRC32C (Castagnoli), the checksum of Kafka's record batches.
 *
 * A value is a finished checksum, as it stands in a batch header, and 0 is that of no bytes; passing the value
 * of what came before continues it: crc32c(crc32c(0, a), b) is the checksum of a and b together.
 *
 * Invariant: every implementation gives the same result for the same bytes, whatever their alignment.
 */
#ifndef OTTLA_CRC32C_H
#define OTTLA_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Build the tables and choose the implementation. Must return before any other function here is called; the
 * extension module calls it once while it is imported, which is what makes the rest free of locks. */
void crc32c_setup(void);

/* The best implementation that this processor has. */
uint32_t crc32c(uint32_t value, const void *data, size_t length);

/* The one that runs everywhere; reachable by name so that tests can compare the two. */
uint32_t crc32c_software(uint32_t value, const void *data, size_t length);

/* What crc32c() stands for: "sse4.2", "armv8" or "software". */
const char *crc32c_implementation(void);

#endif
