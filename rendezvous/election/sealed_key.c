/* sealed_key.c: seals a key in a munge credential, and opens it. */
#include "rendezvous/election/sealed_key.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/wire.h"

enum { SEALED_SIZE = 2 * PROOF_SIZE, ANY_MAX = 128 };

static int sealed_key_make(char *out, const struct proof *key, struct slice job,
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

static int sealed_key_open(struct proof *key, const char *seal,
			   struct slice job, struct err *e)
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
	return ours ? 0
		    : err_set(e, ERR_PROOF,
			      "the key of job '%.*s' in etcd "
			      "belongs to user %u, or was changed: choose "
			      "another --rdzv-id",
			      SLICE_FMT(job), (unsigned)uid);
}

int sealed_key_agree(struct auth *a, const char *job_name,
		     char sealed[CREDENTIAL_MAX], struct err *e)
{
	struct slice job = SLICE_STR(job_name);
	struct proof key = a->secret;
	int rc;

	if (!(a->methods & WIRE_BY_MUNGE))
		return 0;
	if (sealed[0]) {
		rc = sealed_key_open(&key, sealed, job, e);
	} else {
		if (!a->is_key)
			proof_job_key(&key, &a->secret, job);
		rc = sealed_key_make(sealed, &key, job, e);
		if (rc == 0)
			rc = 1;
	}
	if (rc >= 0) {
		a->secret = key;
		a->is_key = 1;
	}
	proof_wipe(&key, sizeof(key));
	return rc;
}
