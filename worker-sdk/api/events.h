/* events.h: TensorBoard's event file as bytes: records with checksums, each an
 * Event of its protobuf. Pure: knows neither files nor clocks. */
#ifndef SDK_EVENTS_H
#define SDK_EVENTS_H

#include <stdint.h>

#include "base/buf.h"

/* Castagnoli's CRC, as in iSCSI: of "123456789" it is 0xE3069283. */
uint32_t ddp__crc32c(const void *data, size_t size);

/* Each appends one record; what there was no room for sticks in out->failed.
 * wall: seconds since 1970. The version is a file's first record. tag is UTF-8.
 * A reader skips a last record that is cut short. */
void ddp__event_version(struct buf *out, double wall);
void ddp__event_scalar(struct buf *out, double wall, int64_t step,
		       struct slice tag, float value);

#endif
