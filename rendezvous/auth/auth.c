/* auth.c: the rules for choosing how to authenticate. */
#include "rendezvous/auth/auth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/sock.h"
#include "rendezvous/auth/credential.h"
#include "rendezvous/auth/secret.h"

enum { IS_KEY = 0x80 }; /* in one byte with the methods */

enum way { WAY_AUTO, WAY_NONE, WAY_SECRET, WAY_MUNGE, WAYS };

void auth_none(struct auth *a)
{
	*a = (struct auth){.methods = WIRE_NO_PROOF, .from = "--auth none"};
}

void auth_of_secret(struct auth *a, const struct proof *secret,
		    const char *from)
{
	*a = (struct auth){.methods = WIRE_BY_SECRET, .handed = 1,
			  .secret = *secret};
	snprintf(a->from, sizeof(a->from), "%s", from);
}

int auth_random(struct auth *a, const char *from, struct err *e)
{
	struct proof secret;
	int rc = random_bytes(secret.bytes, sizeof(secret.bytes), e);

	if (rc < 0)
		return rc;
	auth_of_secret(a, &secret, from);
	proof_wipe(&secret, sizeof(secret));
	return 0;
}

int auth_of_key(struct auth *a, const char *hex, struct err *e)
{
	struct proof key;

	if (!hex || !*hex) {
		auth_none(a);
		return 0;
	}
	if (proof_from_hex(&key, hex) < 0)
		return err_set(e, ERR_USAGE,
			       "DDP_JOB_KEY is not %d hex digits: ddprun sets "
			       "it; do not change it",
			       2 * PROOF_SIZE);
	auth_of_secret(a, &key, "DDP_JOB_KEY");
	a->is_key = 1;
	proof_wipe(&key, sizeof(key));
	return 0;
}

/* ---- the rules ---- */

static int auth_method_parse(const char *method, enum way *way, struct err *e)
{
	static const char *const names[] = {"auto", "none", "secret", "munge"};
	const char *text = method ? method : getenv("DDP_AUTH");

	*way = WAY_AUTO;
	if (!text || !*text)
		return 0;
	for (int i = 0; i < WAYS; i++) {
		if (strcmp(text, names[i]) == 0) {
			*way = (enum way)i;
			return 0;
		}
	}
	return err_set(
		e, ERR_USAGE,
		"%s '%s' is not a method: use auto, secret, munge or none",
		method ? "--auth" : "DDP_AUTH", text);
}

static const char *auth_read_token(void)
{
	const char *text = getenv("DDP_TOKEN");

	return text && *text ? text : NULL;
}

int auth_is_free(const char *method, const char *token_file)
{
	enum way way;

	return auth_method_parse(method, &way, NULL) == 0 && way == WAY_AUTO &&
	       !token_file;
}

int auth_is_none(const char *method)
{
	enum way way;

	return auth_method_parse(method, &way, NULL) == 0 && way == WAY_NONE;
}

int auth_wants_secret(const char *method, const char *token_file)
{
	return auth_is_free(method, token_file) && !auth_read_token() &&
	       !secret_mounted() &&
	       (!credential_is_offered() || credential_check(NULL) < 0);
}

/* The options' token file, else the file that Kubernetes mounts. */
static const char *auth_choose_file(const char *token_file)
{
	return token_file || auth_read_token() ? token_file : secret_mounted();
}

static int auth_use_secret(struct auth *a, const char *token_file,
			   struct err *e)
{
	const char *text = auth_read_token();
	char host[SOCK_HOST_MAX];
	struct secret s;
	int rc;

	token_file = auth_choose_file(token_file);
	if (token_file)
		rc = secret_of_file(&s, token_file, "the token file", e);
	else if (text)
		rc = secret_of_text(&s, SLICE_STR(text), "DDP_TOKEN", e);
	else
		rc = secret_of_user(&s, e);
	if (rc < 0)
		return rc;
	auth_of_secret(a, &s.value, "");
	a->handed = 0;
	proof_wipe(&s.value, sizeof(s.value));
	sock_host_name(host);
	snprintf(a->from, sizeof(a->from), "%s on %.60s", s.from, host);
	return 0;
}

static int auth_use_munge(struct auth *a, struct err *e)
{
	int rc = credential_check(e);

	*a = (struct auth){.methods = WIRE_BY_MUNGE, .from = "munge"};
	return rc;
}

/* As on a host without munge, but `from` includes the reason, because other
 * nodes may use munge. */
static int auth_use_secret_instead(struct auth *a, const struct err *why,
				   struct err *e)
{
	int rc = auth_use_secret(a, NULL, e);
	size_t n = strlen(a->from);

	if (rc < 0)
		return rc;
	a->without_munge = 1;
	snprintf(a->from + n, sizeof(a->from) - n, ", as %.300s", why->text);
	return 0;
}

int auth_choose(struct auth *a, const char *method, const char *token_file,
		struct err *e)
{
	const char *slurm = getenv("SLURM_JOB_ID");
	int in_slurm = slurm && *slurm;
	struct err why = ERR_INIT;
	enum way way;
	int rc = auth_method_parse(method, &way, e),
	    given = token_file || auth_read_token() || secret_mounted();

	if (rc < 0)
		return rc;
	if (way == WAY_NONE && token_file)
		return err_set(e, ERR_USAGE,
			       "--auth none contradicts --token-file; omit one "
			       "of them");
	if (way == WAY_NONE) {
		auth_none(a);
		return 0;
	}
	if (way == WAY_MUNGE)
		return auth_use_munge(a, e);
	if (way == WAY_SECRET || given)
		return auth_use_secret(a, token_file, e);
	/* in Slurm, munged should run on all nodes: if it is down, that is an
	 * error there, and only a missing libmunge means no munge */
	if (credential_is_offered() && !credential_is_named() &&
	    (in_slurm ? credential_load(&why) : credential_try(&why)) < 0)
		return auth_use_secret_instead(a, &why, e);
	if (credential_is_offered() ||
	    (in_slurm && credential_is_expected()))
		return auth_use_munge(a, e);
	return auth_use_secret(a, NULL, e);
}

int auth_alone(struct auth *a, const char *method, const char *token_file,
	       struct err *e)
{
	const struct err none = ERR_INIT;
	char from[AUTH_FROM_MAX];

	if (auth_read_token() || secret_mounted() ||
	    !auth_is_free(method, token_file))
		return e->code;
	snprintf(from, sizeof(from),
		 "a key that this ddprun generated: %.600s", e->text);
	*e = none;
	return auth_random(a, from, e);
}

/* ---- a server's authentication ---- */

int auth_for_server(struct auth *server, struct auth *a, struct err *e)
{
	int rc;

	if (a->methods == WIRE_BY_MUNGE) {
		rc = auth_random(a, "this ddprun", e);
		if (rc < 0)
			return rc;
		*server = *a;
		server->methods |= WIRE_BY_MUNGE;
		return 0;
	}
	*server = *a;
	return 0;
}

void auth_keep(struct auth *server)
{
	struct secret s;

	if (!(server->methods & WIRE_BY_MUNGE) || secret_of_user(&s, NULL) < 0)
		return;
	server->secret = s.value;
	proof_wipe(&s, sizeof(s));
}

void auth_to_bytes(unsigned char *out, const struct auth *a)
{
	out[0] = (unsigned char)(a->methods | (a->is_key ? IS_KEY : 0));
	memcpy(out + 1, a->secret.bytes, PROOF_SIZE);
}

void auth_from_bytes(struct auth *a, const unsigned char *in)
{
	*a = (struct auth){.methods = in[0] & ~IS_KEY,
			   .is_key = (in[0] & IS_KEY) != 0,
			   .from = "the process that started it"};
	memcpy(a->secret.bytes, in + 1, PROOF_SIZE);
}

void auth_wipe(struct auth *a)
{
	proof_wipe(a, sizeof(*a));
}
