/* fuzz_flight: any content of a worker's part of the flight recorder is read
 * without harm, and its description fits. The input overwrites some bytes of a
 * valid part, so that the magic is right. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/flight_recorder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct flight_view *v)
{
	char text[FLIGHT_TEXT_MAX], op[FLIGHT_CALL_MAX];

	if (v->n < 0 || v->n > FLIGHT_ENTRIES || v->ncomms > FLIGHT_COMMS)
		abort();
	for (int i = 0; i < v->n; i++) {
		if (v->ops[i].state < FLIGHT_ENTERED ||
		    v->ops[i].state > FLIGHT_FAILED ||
		    (i && v->ops[i].ticket <= v->ops[i - 1].ticket))
			abort();
		flight_op_text(v, &v->ops[i], op);
		if (memchr(op, '\0', sizeof(op)) == NULL || !op[0])
			abort();
	}
	if (!memchr(flight_last_text(v, 1u << 30, text), '\0', sizeof(text)) ||
	    (v->n > 0) != (text[0] != '\0'))
		abort();
	if (!memchr(flight_seen_text(v, text), '\0', sizeof(text)))
		abort();
}

/* The first four bytes are the offset of the rest. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct flight f;
	static struct flight_view v;
	uint32_t at, id = flight_comm_id("1.0");

	if (size < sizeof(at))
		return 0;
	memcpy(&at, data, sizeof(at));
	at %= sizeof(f);
	data += sizeof(at);
	size -= sizeof(at);
	memset(&f, 0, sizeof(f));
	flight_start(&f, 1, 4);
	flight_comm_add(&f, "1.0", 2, 0, NULL);
	for (uint64_t i = 0; i < 300; i++)
		flight_end(&f, flight_begin(&f, i % 2 ? id : 0, i, i << 52),
			   i % 3 ? 0 : ERR_REMOTE);
	memcpy((char *)&f + at, data,
	       size < sizeof(f) - at ? size : sizeof(f) - at);
	if (flight_read(&v, &f) == 0)
		check(&v);
	else if (v.n || v.ncomms)
		abort();
	return 0;
}
