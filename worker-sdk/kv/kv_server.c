/* kv_server.c: the store in ddprdzv. */
#include <stdlib.h>
#include <unistd.h>

#include "rendezvous/client/client.h"
#include "worker-sdk/kv/gather_relay.h"
#include "worker-sdk/kv/kv.h"

struct server_kv {
	struct ddp__kv kv;
	struct client *client;
	pid_t guest; /* the process whose leave is reported; 0: the agent
		      * reports it */
	int pipe;
	int shares; /* the ranks relay gathered values */
	const char *share_addr;
	char *list; /* the last gathered list */
};

static struct client *server_client(struct ddp__kv *kv)
{
	return ((struct server_kv *)kv)->client;
}

static void server_free(struct ddp__kv *kv)
{
	struct server_kv *s = (struct server_kv *)kv;

	/* a forked child is not the rank */
	if (s->guest == getpid())
		client_left(s->client);
	client_free(s->client);
	if (s->pipe >= 0)
		close(s->pipe);
	free(s->list);
	free(s);
}

static int server_set(struct ddp__kv *kv, struct slice key, struct slice value,
		      struct err *e)
{
	return client_set(server_client(kv), key, value, e);
}

static int server_get(struct ddp__kv *kv, struct slice key, int timeout_ms,
		      struct slice *value, struct err *e)
{
	int rc = client_get(server_client(kv), key, value, e);

	if (rc || timeout_ms == 0)
		return rc;
	rc = client_wait(server_client(kv), &key, 1, timeout_ms, e);
	return rc < 0 ? rc : client_get(server_client(kv), key, value, e);
}

static int server_add(struct ddp__kv *kv, struct slice key, int64_t delta,
		      int64_t *sum, struct err *e)
{
	return client_add(server_client(kv), key, delta, sum, e);
}

static int server_compare_set(struct ddp__kv *kv, struct slice key,
			      struct slice expected, struct slice desired,
			      struct slice *now, struct err *e)
{
	return client_compare_set(server_client(kv), key, expected, desired,
				  now, e);
}

static int server_append(struct ddp__kv *kv, struct slice key,
			 struct slice value, struct err *e)
{
	int64_t length;

	return client_append(server_client(kv), key, value, &length, e);
}

static int server_delete(struct ddp__kv *kv, struct slice key, struct err *e)
{
	return client_delete(server_client(kv), key, e);
}

static int server_share(struct server_kv *s, struct wire_share *m,
			int timeout_ms, struct slice *values, struct err *e)
{
	struct wire_shared answer;
	struct ddp__relay relay;
	struct reader r;
	size_t bytes;
	int rc;

	free(s->list);
	s->list = NULL;
	ddp__relay_open(&relay, s->share_addr, m);
	rc = client_share(s->client, m, timeout_ms, &answer, e);
	if (!rc)
		rc = ddp__relay_on(&relay, s->client, &answer, m->size,
				   &s->list, &bytes, e);
	ddp__relay_close(&relay);
	if (rc)
		return rc;
	reader_init(&r, SLICE(s->list, bytes));
	for (uint32_t i = 0; i < m->size; i++)
		values[i] = reader_slice(&r);
	return !r.bad ? 0
		      : err_set(e, ERR_PROTOCOL,
				"ddp_init: the list that the ranks gathered is "
				"malformed");
}

static int server_gather(struct ddp__kv *kv, struct slice key, int rank,
			 int size, int timeout_ms, struct slice mine,
			 struct slice *values, struct err *e)
{
	struct server_kv *s = (struct server_kv *)kv;
	struct wire_share m = {.key = key, .size = (uint32_t)size,
			       .value = mine};

	/* the server knows this rank's number from its HELLO */
	if (s->shares)
		return server_share(s, &m, timeout_ms, values, e);
	return client_gather(server_client(kv), key, (uint32_t)size, timeout_ms,
			     mine, values, e);
}

static int server_fate(struct ddp__kv *kv, int rank, int timeout_ms,
		       struct slice *text, struct err *e)
{
	return client_fate(server_client(kv), (uint32_t)rank, timeout_ms, text,
			   e);
}

static const struct ddp__kv_ops server_ops = {
	.free = server_free,
	.set = server_set,
	.get = server_get,
	.add = server_add,
	.compare_set = server_compare_set,
	.append = server_append,
	.delete = server_delete,
	.gather = server_gather,
	.fate = server_fate,
};

int ddp__kv_server(struct ddp__kv **out, const struct endpoint *where,
		   const struct wire_hello *hello, const struct auth *auth,
		   int timeout_ms, struct err *e)
{
	struct server_kv *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return err_no_memory(e, "ddp_init");
	s->kv.ops = &server_ops;
	s->pipe = -1;
	rc = client_connect(&s->client, where, hello, auth, timeout_ms, e);
	if (rc) {
		free(s);
		return rc;
	}
	*out = &s->kv;
	return 0;
}

void ddp__kv_server_again(struct ddp__kv *kv, int timeout_ms)
{
	client_set_reconnect(server_client(kv), timeout_ms);
}

void ddp__kv_server_share(struct ddp__kv *kv, const char *addr)
{
	struct server_kv *s = (struct server_kv *)kv;

	s->shares = 1;
	s->share_addr = addr;
}

void ddp__kv_server_guest(struct ddp__kv *kv, int pipe)
{
	struct server_kv *s = (struct server_kv *)kv;

	s->guest = getpid();
	s->pipe = pipe;
}
