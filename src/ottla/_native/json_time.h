/* Dates and timestamps as text, in the forms that Spark takes.
 *
 *     [+-]yyyy[-[m]m[-[d]d]]                                   with anything behind a blank or a T, for a date
 *     [+-]yyyy[-[m]m[-[d]d[T| ][h]h[:[m]m[:[s]s[.fraction][zone]]]]]
 *
 * A zone is Z, UTC, UT, GMT, or an offset, alone or behind one of these names. Regions are not known here. */
#pragma once

#include <stdint.h>

/* Days since 1970-01-01; -1 where it is no date. */
int json_date(const uint8_t *p, const uint8_t *end, int32_t *out);

/* Microseconds since 1970-01-01T00:00:00; without a zone, in UTC. -1 where it is none, or has a zone and must not. */
int json_timestamp(const uint8_t *p, const uint8_t *end, int zone_allowed, int64_t *out);
