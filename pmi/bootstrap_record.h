/* bootstrap_record.h: the address at which ddpruns that an MPI launcher started
 * meet. Rank 0 sends it to the others through the launcher. Pure: converts the
 * record to hex digits, which every launcher accepts, and back. */
#ifndef PMI_BOOTSTRAP_RECORD_H
#define PMI_BOOTSTRAP_RECORD_H

#include "base/sock.h"

enum {
	BOOTSTRAP_PLACES_MAX = 16,
	BOOTSTRAP_JOB_MAX = 200,
	BOOTSTRAP_KEY_SIZE = 32,
	BOOTSTRAP_TEXT_MAX = 1000, /* PMI's values have 1024 bytes */
};

struct bootstrap_record {
	char job[BOOTSTRAP_JOB_MAX]; /* the job's name */
	unsigned char key[BOOTSTRAP_KEY_SIZE]; /* the job's secret */
	int n;			      /* to try, in this order */
	struct endpoint at[BOOTSTRAP_PLACES_MAX];
	struct err why; /* 0, or why rank 0 has no address */
};

/* Writes to text[BOOTSTRAP_TEXT_MAX] as many places as fit, at least one. */
void bootstrap_record_put(const struct bootstrap_record *p, char *text);
/* ERR_PROTOCOL if it does not parse. */
int bootstrap_record_get(struct bootstrap_record *p, const char *text,
			 struct err *e);

#endif
