/* exchange.c: keys "check/WHAT/NODE" of the round's store. */
#include "worker-sdk/check/check.h"

#include <stdio.h>

#include "base/clock.h"
#include "rendezvous/auth/auth.h"
#include "rendezvous/wire.h"

enum {
	CONNECT_MS = 10000,
	KEY_MAX = 96,
	VALUE_MAX = 8 << 20,
	TURN_MS = 20, /* between two calls of meanwhile */
};

static int exchange_connect(struct exchange *x, struct err *e)
{
	const struct wire_hello hello = {
		.role = WIRE_WORKER, .host = SLICE_STR(x->host),
		.job = SLICE_STR(x->env.job), .round = x->env.round,
		.rank = (uint32_t)x->env.rank, .proof = SLICE("", 0),
	};
	struct auth auth;
	int rc = auth_of_key(&auth, x->env.job_key, e);

	if (rc)
		return rc;
	rc = ddp__kv_server(&x->kv, &x->env.server, &hello, &auth, CONNECT_MS,
			    e);
	auth_wipe(&auth);
	if (rc)
		return rc;
	ddp__kv_server_again(x->kv, x->env.again_ms);
	return 0;
}

int exchange_open(struct exchange *x, struct err *e)
{
	int rc;

	*x = (struct exchange){.kv = NULL};
	sock_host_name(x->host);
	rc = ddp__env_read(&x->env, e);
	if (rc)
		return rc;
	if (x->env.alone || x->env.starter != DDP__DDPRUN)
		return err_set(e, ERR_USAGE,
			       "this program is started by ddprun: write "
			       "ddprun check");
	x->me = x->env.node_rank;
	x->n = x->env.nodes;
	return exchange_connect(x, e);
}

void exchange_close(struct exchange *x)
{
	if (x->kv)
		x->kv->ops->free(x->kv);
	x->kv = NULL;
}

static struct slice exchange_key(char out[KEY_MAX], const char *what, int node)
{
	snprintf(out, KEY_MAX, "check/%.60s/%d", what, node);
	return SLICE_STR(out);
}

/* 1: there; 0: not within time_ms. */
static int exchange_get(struct exchange *x, const char *what, int node,
			struct buf *value, int time_ms, struct err *e)
{
	char key[KEY_MAX];
	struct slice got;
	int rc = x->kv->ops->get(x->kv, exchange_key(key, what, node), time_ms,
				 &got, e);

	if (rc <= 0)
		return rc == ERR_TIMEOUT ? 0 : rc;
	buf_put(value, got.data, got.len);
	return value->failed ? err_no_memory(e, "a node's results") : 1;
}

int exchange_gather(struct exchange *x, const char *what, struct slice mine,
		    struct buf *values, int time_ms,
		    void (*meanwhile)(void *arg), void *arg, struct err *e)
{
	uint64_t now = clock_ms(), end = now + (uint64_t)time_ms;
	char key[KEY_MAX];
	int i = 0, rc;

	for (int k = 0; k < x->n; k++)
		buf_init(&values[k], VALUE_MAX);
	rc = x->kv->ops->set(x->kv, exchange_key(key, what, x->me), mine, e);
	while (i < x->n && rc >= 0) {
		int ms = now < end ? (int)(end - now) : 1;

		rc = exchange_get(x, what, i, &values[i],
				  meanwhile && ms > TURN_MS ? TURN_MS : ms, e);
		i += rc > 0;
		now = clock_ms();
		if (rc == 0 && now >= end)
			rc = err_set(e, ERR_TIMEOUT, "node %d has not reported "
				     "its %s within %d s: it is stopped, or "
				     "far slower than the others", i, what,
				     time_ms / 1000);
		if (meanwhile)
			meanwhile(arg);
	}
	return rc < 0 ? rc : 0;
}

int exchange_set(struct exchange *x, const char *what, struct err *e)
{
	char key[KEY_MAX];

	return x->kv->ops->set(x->kv, exchange_key(key, what, x->me),
			       SLICE("1", 1), e);
}

int exchange_wait(struct exchange *x, const char *what, int node,
		  struct err *e)
{
	char key[KEY_MAX];
	struct slice value;
	int rc = x->kv->ops->get(x->kv, exchange_key(key, what, node), -1,
				 &value, e);

	return rc > 0 ? 0
		      : rc < 0 ? rc
			       : err_set(e, ERR_PROTOCOL, "%s: no value", what);
}
