/* seal.c: a key into a credential, and out of it. */
#include "rendezvous/server/seal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/server/hosted.h"

enum { SEALED_SIZE = 2 * PROOF_SIZE, ANY_MAX = 128 };

static int make(char *out, const struct proof *key, struct slice job,
		struct err *e)
{
	char payload[SEALED_SIZE];
	struct proof what;
	int rc;

	proof_hash_seal(&what, job);
	memcpy(payload, what.bytes, PROOF_SIZE);
	memcpy(payload + PROOF_SIZE, key->bytes, PROOF_SIZE);
	rc = credential_make(out, SLICE(payload, SEALED_SIZE), geteuid(), e);
	proof_wipe(payload, sizeof(payload));
	return rc;
}

static int open_it(struct proof *key, const char *seal, struct slice job,
		   struct err *e)
{
	unsigned char payload[ANY_MAX];
	struct proof what;
	uid_t uid = 0;
	int n = credential_open(SLICE_STR(seal), &uid, payload, e);
	int ours;

	if (n < 0)
		return n;
	proof_hash_seal(&what, job);
	ours = n == SEALED_SIZE && uid == geteuid() &&
	       proof_same(&what, SLICE((char *)payload, PROOF_SIZE));
	if (ours)
		memcpy(key->bytes, payload + PROOF_SIZE, PROOF_SIZE);
	proof_wipe(payload, sizeof(payload));
	return ours ? 0 : err_set(e, ERR_PROOF, "what etcd has of job '%.*s' "
				  "is of user %u, or was changed: choose "
				  "another --rdzv-id", SLICE_FMT(job),
				  (unsigned)uid);
}

int seal_agree(struct server *s, struct err *e)
{
	struct auth *a = &s->door.auth;
	struct slice job = SLICE_STR(s->only_job);
	struct proof key = a->secret;
	int rc;

	if (!(a->methods & WIRE_BY_MUNGE))
		return 0;
	if (s->history.seal[0]) {
		rc = open_it(&key, s->history.seal, job, e);
	} else {
		if (!a->is_key)
			proof_job_key(&key, &a->secret, job);
		rc = make(s->history.seal, &key, job, e);
		if (rc == 0)
			history_sealed(&s->history);
	}
	if (rc == 0) {
		a->secret = key;
		a->is_key = 1;
	}
	proof_wipe(&key, sizeof(key));
	return rc;
}
