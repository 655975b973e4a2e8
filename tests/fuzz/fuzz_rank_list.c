/* fuzz_rank_list: any text is a list of ranks or a clean error. A list is
 * sorted, contains the ranks that it names, and no others. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/output/rank_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct rank_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct rank_range *r = &l->ranges[i];

		if (r->first > r->last || !rank_list_contains(l, r->first) ||
		    !rank_list_contains(l, r->last) ||
		    rank_list_contains(l, r->last + 1))
			abort();
		if (i && l->ranges[i - 1].last + 1 >= r->first)
			abort();
	}
	if (l->n == 0 || rank_list_last(l) > RANK_LIST_LAST)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct err e = ERR_INIT;
	struct rank_list l;
	int rc;

	memcpy(text, data, size);
	text[size] = '\0';
	rc = rank_list_parse(&l, text, "x", &e);
	if (rc && (e.code != rc || !e.text[0] || l.ranges))
		abort();
	if (rc == 0)
		check(&l);
	rank_list_release(&l);
	free(text);
	return 0;
}
