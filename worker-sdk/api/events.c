/* events.c: TensorFlow's record framing and the few fields of event.proto and
 * summary.proto that a scalar needs. */
#include "worker-sdk/api/api_internal.h"

#include <string.h>

/* A field's key: its number, and how it is encoded. */
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
#define KEY(field, wire) ((uint8_t)((field) << 3 | (wire)))
enum {
	EVENT_WALL_TIME = KEY(1, FIXED64),
	EVENT_STEP = KEY(2, VARINT),
	EVENT_FILE_VERSION = KEY(3, BYTES),
	EVENT_SUMMARY = KEY(5, BYTES),
	SUMMARY_VALUE = KEY(1, BYTES),
	VALUE_TAG = KEY(1, BYTES),
	VALUE_SIMPLE = KEY(2, FIXED32)
};

uint32_t ddp__crc32c(const void *data, size_t size)
{
	/* table of a 4-bit step; the polynomial is 0x82F63B78 */
	static const uint32_t table[16] = {
		0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
		0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
		0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
		0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
	const unsigned char *p = data;
	uint32_t crc = ~(uint32_t)0;

	for (size_t i = 0; i < size; i++) {
		crc ^= p[i];
		crc = crc >> 4 ^ table[crc & 15];
		crc = crc >> 4 ^ table[crc & 15];
	}
	return ~crc;
}

/* TensorFlow masks checksums, because the checksum of data that contains
 * checksums is weak. */
static uint32_t event_mask_crc(const void *data, size_t size)
{
	uint32_t crc = ddp__crc32c(data, size);

	return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* Starts a record, whose length is not known yet; returns its offset. */
static size_t event_open_record(struct buf *out, double wall)
{
	size_t at = out->len;
	uint64_t bits;

	buf_put_u64(out, 0);
	buf_put_u32(out, 0);
	memcpy(&bits, &wall, sizeof(bits));
	buf_put_u8(out, EVENT_WALL_TIME);
	buf_put_u64(out, bits);
	return at;
}

static void event_close_record(struct buf *out, size_t at)
{
	unsigned char *head;
	uint32_t crc;
	size_t n;

	if (out->failed)
		return;
	head = (unsigned char *)out->data + at;
	n = out->len - at - 12;
	for (int i = 0; i < 8; i++)
		head[i] = (unsigned char)((uint64_t)n >> 8 * i);
	crc = event_mask_crc(head, 8);
	for (int i = 0; i < 4; i++)
		head[8 + i] = (unsigned char)(crc >> 8 * i);
	buf_put_u32(out, event_mask_crc(head + 12, n));
}

static size_t event_varint_size(uint64_t v)
{
	size_t n = 1;

	for (; v > 0x7f; v >>= 7)
		n++;
	return n;
}

static void event_put_varint(struct buf *out, uint64_t v)
{
	for (; v > 0x7f; v >>= 7)
		buf_put_u8(out, (uint8_t)(v | 0x80));
	buf_put_u8(out, (uint8_t)v);
}

static void event_put_bytes(struct buf *out, uint8_t key, struct slice s)
{
	buf_put_u8(out, key);
	event_put_varint(out, s.len);
	buf_put(out, s.data, s.len);
}

void ddp__event_version(struct buf *out, double wall)
{
	size_t at = event_open_record(out, wall);

	event_put_bytes(out, EVENT_FILE_VERSION, SLICE_STR("brain.Event:2"));
	event_close_record(out, at);
}

void ddp__event_scalar(struct buf *out, double wall, int64_t step,
		       struct slice tag, float value)
{
	size_t size = 1 + event_varint_size(tag.len) + tag.len + 5;
	size_t at = event_open_record(out, wall);
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	if (step) { /* a missing field reads as 0 */
		buf_put_u8(out, EVENT_STEP);
		event_put_varint(out, (uint64_t)step);
	}
	buf_put_u8(out, EVENT_SUMMARY);
	event_put_varint(out, 1 + event_varint_size(size) + size);
	buf_put_u8(out, SUMMARY_VALUE);
	event_put_varint(out, size);
	event_put_bytes(out, VALUE_TAG, tag);
	buf_put_u8(out, VALUE_SIMPLE);
	buf_put_u32(out, bits);
	event_close_record(out, at);
}
