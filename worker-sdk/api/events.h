/* events.h: TensorBoard's event file format: records with checksums, each an
 * Event of its protobuf. Pure: knows neither files nor clocks. */
#ifndef SDK_EVENTS_H
#define SDK_EVENTS_H

#include <stdint.h>

#include "base/buf.h"

/* CRC-32C, as in iSCSI: for "123456789" it is 0xE3069283. */
uint32_t ddp__crc32c(const void *data, size_t size);

/* Append one record to out; if out has no room, out->failed says so. wall:
 * seconds since 1970. A file's first record is the version. tag is UTF-8.
 * Readers skip an incomplete last record. */
void ddp__event_version(struct buf *out, double wall);
void ddp__event_scalar(struct buf *out, double wall, int64_t step,
		       struct slice tag, float value);

#endif
