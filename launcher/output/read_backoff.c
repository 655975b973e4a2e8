/* read_backoff.c: a budget of passes, which time refills. */
#include "launcher/output/read_backoff.h"

uint64_t read_backoff_ms(struct read_backoff *p, uint64_t now_ms, size_t n,
			 size_t bytes)
{
	uint64_t windows = (now_ms - p->from_ms) / BACKOFF_WINDOW_MS;
	uint64_t earned = windows < BACKOFF_SAVED ? windows * BACKOFF_PASSES
						  : BACKOFF_SAVED;

	p->from_ms += windows * BACKOFF_WINDOW_MS;
	p->made = earned < p->made ? p->made - earned : 0;
	if (bytes >= n * BACKOFF_LITTLE_BYTES || ++p->made < BACKOFF_SAVED)
		return 0;
	return BACKOFF_WINDOW_MS - (now_ms - p->from_ms);
}
