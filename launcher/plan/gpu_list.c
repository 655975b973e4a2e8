/* gpu_list.c: a share is a run of entries, so it is one substring. */
#include "launcher/plan/gpu_list.h"

#include <stdio.h>
#include <string.h>

enum { NUMBER_BYTES = 11 }; /* ten digits and a comma */

uint32_t gpu_list_count(const char *list)
{
	uint32_t n = *list ? 1 : 0;

	for (; *list; list++)
		n += *list == ',';
	return n;
}

size_t gpu_list_room(const char *list, uint32_t n)
{
	return (list ? strlen(list) : (size_t)n * NUMBER_BYTES) + 1;
}

/* Returns what follows the nth comma, or the end. */
static const char *gpu_list_skip(const char *p, uint32_t n)
{
	for (; n && *p; p++)
		n -= *p == ',';
	return p;
}

void gpu_list_share(const char *list, uint32_t first, uint32_t n, char *out)
{
	const char *begin, *end;
	size_t len;

	*out = '\0';
	if (!list) {
		for (uint32_t i = 0; i < n; i++)
			out += sprintf(out, "%s%u", i ? "," : "", first + i);
		return;
	}
	begin = gpu_list_skip(list, first);
	end = gpu_list_skip(begin, n);
	len = (size_t)(end - begin);
	if (len && begin[len - 1] == ',')
		len--;
	memcpy(out, begin, len);
	out[len] = '\0';
}
