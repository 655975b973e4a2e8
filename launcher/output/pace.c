/* pace.c: a budget of passes, which time refills. */
#include "launcher/output/pace.h"

uint64_t pace_rest(struct pace *p, uint64_t now_ms, size_t n, size_t bytes)
{
	uint64_t windows = (now_ms - p->from_ms) / PACE_WINDOW_MS;
	uint64_t earned = windows < PACE_SAVED ? windows * PACE_PASSES
					       : PACE_SAVED;

	p->from_ms += windows * PACE_WINDOW_MS;
	p->made = earned < p->made ? p->made - earned : 0;
	if (bytes >= n * PACE_LITTLE_BYTES || ++p->made < PACE_SAVED)
		return 0;
	return PACE_WINDOW_MS - (now_ms - p->from_ms);
}
