/* fuzz_etcd_text: any bytes are a reply or a clean error, and the slices of a
 * reply lie in its memory. */
#include <stdint.h>
#include <stdlib.h>

#include "etcd/etcd_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t sum; /* so that each byte is read */

static void read_all(struct slice s)
{
	for (size_t i = 0; i < s.len; i++)
		sum += (unsigned char)s.data[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct etcd_reply r;
	struct err e = ERR_INIT;
	int rc = etcd_reply_parse(&r, SLICE((const char *)data, size), &e);

	if (rc) {
		if (rc != e.code || !e.text[0])
			abort();
		return 0;
	}
	for (size_t i = 0; i < r.nkvs; i++) {
		read_all(r.kvs[i].key);
		read_all(r.kvs[i].value);
	}
	read_all(r.token);
	read_all(r.error);
	etcd_reply_release(&r);
	return 0;
}
