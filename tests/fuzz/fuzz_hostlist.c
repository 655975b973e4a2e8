/* fuzz_hostlist: any text is a host list or a clean error, and each name in a
 * list is a valid list of one. */
#include <stdint.h>
#include <stdlib.h>

#include "slurm/hostlist.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hostlist l, one;
	struct err e = ERR_INIT;

	hostlist_init(&l);
	int rc = hostlist_parse(&l, SLICE((const char *)data, size), &e);
	if (rc && (e.code != rc || !e.text[0]))
		abort();
	for (uint32_t i = 0; rc == 0 && i < l.count && i < 100; i++) {
		const char *name = hostlist_name(&l, i);
		hostlist_init(&one);
		if (hostlist_parse(&one, SLICE_STR(name), &e) ||
		    one.count != 1 || strcmp(hostlist_name(&one, 0), name))
			abort();
		hostlist_release(&one);
	}
	hostlist_release(&l);
	return 0;
}
