/* process_mapping.c: runs of nodes with the same number of ranks. */
#include "launcher/pmi/process_mapping.h"

#include <stdio.h>

int process_mapping_put(const uint32_t *ranks, uint32_t nodes, char *out,
			size_t size)
{
	size_t at = (size_t)snprintf(out, size, "(vector");
	uint32_t first = 0;

	for (uint32_t i = 1; i <= nodes; i++) {
		if (i < nodes && ranks[i] == ranks[first])
			continue;
		if (at < size)
			at += (size_t)snprintf(out + at, size - at,
					       ",(%u,%u,%u)", first, i - first,
					       ranks[first]);
		first = i;
	}
	if (at < size)
		at += (size_t)snprintf(out + at, size - at, ")");
	return at < size;
}
