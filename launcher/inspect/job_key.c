/* job_key.c: the key in a flight recorder, which only its user can open. */
#include "launcher/inspect/job_key.h"

#include <string.h>

int job_key_of(struct auth *a, const struct flight_file *job, struct err *e)
{
	char key[FLIGHT_KEY_MAX];

	memcpy(key, job->job_key, sizeof(key));
	key[sizeof(key) - 1] = '\0';
	if (key[0])
		return auth_of_key(a, key, e);
	auth_none(a);
	return 0;
}
