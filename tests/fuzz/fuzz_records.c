/* fuzz_records: any head of a packed file is valid or a clean error. Its
 * checksum is corrected, so that the rest is checked. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "trainers/data/records_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned char head[RECORDS_HEAD_SIZE] = {0}, again[RECORDS_HEAD_SIZE];
	struct err e = ERR_INIT;
	struct records_head h, back;
	uint64_t image;

	memcpy(head, data, size < sizeof(head) ? size : sizeof(head));
	if (size % 4) {
		memcpy(head, "ddpack\r\n", 8);
		records_label_put(head + 12, 4, RECORDS_VERSION);
		records_label_put(head + 8, 4,
				  (uint32_t)crc32_z(0, head + 12,
						    sizeof(head) - 12));
	}
	if (records_head_get(&h, head, "x", &e) < 0) {
		if (!e.text[0])
			abort();
		return 0;
	}
	/* no product of its numbers overflows */
	image = records_image_size(&h.shape);
	if (image < 1 || h.total > UINT64_MAX / image ||
	    records_labels_at(&h) < RECORDS_ALIGN + h.count * image ||
	    records_file_size(&h) !=
		    records_labels_at(&h) + h.count * h.label_size)
		abort();
	records_head_put(&h, again);
	if (records_head_get(&back, again, "x", &e) < 0 ||
	    memcmp(&h, &back, sizeof(h)) != 0)
		abort();
	return 0;
}
