/* tcp_group.h: leaders of several hosts, as forked processes over loopback. */
#ifndef TESTS_TCP_GROUP_H
#define TESTS_TCP_GROUP_H

#include <stdlib.h>
#include <string.h>

#include "tests/unit/forked.h"
#include "worker-sdk/algorithms/schedule.h"
#include "worker-sdk/algorithms/transport.h"
#include "worker-sdk/tcp/tcp_p2p.h"
#include "worker-sdk/tcp/tcp_steps.h"

enum { HOSTS_MAX = 8 };

static inline char *name_of(void *owner, int rank, char *out)
{
	snprintf(out, DDP__NAME_MAX, "rank %d on h%d", rank, rank / 10);
	return out;
}

static inline int fate_of(void *owner, int rank, const char *seen,
			  struct err *e)
{
	return seen ? err_set(e, ERR_REMOTE, "%s: fate of %d", seen, rank) : 0;
}

static inline int unreached_of(void *owner, int rank, const char *seen,
			       struct err *e)
{
	return err_set(e, ERR_SYSTEM, "%s: fate of %d", seen, rank);
}

static const struct ddp__peers peers = {NULL, name_of, fate_of, unreached_of};

struct group {
	int n, rails, timeout_ms;
	struct ddp__listener listener[HOSTS_MAX];
	struct ddp__tcp_site sites[HOSTS_MAX];
};

static inline struct group make(int n)
{
	struct group g = {.n = n, .timeout_ms = 20000};
	struct err e = ERR_INIT;

	for (int i = 0; i < n; i++) {
		uint16_t port = 0;

		ck_assert_msg(ddp__listen(&g.listener[i], "127.0.0.1", &port,
					  &e) == 0, "%s", e.text);
		strcpy(g.sites[i].where.host, "127.0.0.1");
		g.sites[i].where.port = port;
		g.sites[i].leader = 10 * i;
	}
	return g;
}

static inline void done_with(struct group *g)
{
	for (int i = 0; i < g->n; i++)
		ddp__listen_close(&g->listener[i]);
}

/* t as the path for a schedule; valid until the next call. */
static inline const struct ddp__path *tcp_path(struct ddp__tcp *t)
{
	static struct ddp__path path = {.transport = &ddp__tcp_transport};

	path.collectives = t;
	return &path;
}

static inline int join_as(struct ddp__tcp *t, const struct group *g, int me,
		   unsigned char key, struct err *e)
{
	struct ddp__tcp_setup s = {.sites = g->sites,
				   .me = me,
				   .n = g->n,
				   .listener = g->listener[me],
				   .key = {key, 5, 6},
				   .round = 7,
				   .timeout_ms = g->timeout_ms,
				   .rails = g->rails,
				   .peers = &peers};

	return ddp__tcp_connect(t, &s, e);
}

static inline int join(struct ddp__tcp *t, const struct group *g, int me)
{
	struct err e = ERR_INIT;

	return join_as(t, g, me, 1, &e);
}

/* As run_forked, in a group of n ranks, which body gets. */
static inline void run_group(int n, int (*body)(int me, void *arg))
{
	struct group g = make(n);

	run_forked(n, body, &g);
	done_with(&g);
}

#endif
