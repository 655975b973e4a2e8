/* assign.c: node ranks and, by prefix sums, worker ranks. The order is of the
 * kind that a user can predict: explicit ranks, the node that hosts the
 * server, addresses, and only then who came first. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/job.h"

/* IPv4 before IPv6 before what is no address. */
void assign_addr_key(struct job_node *n)
{
	memset(n->addr_key, 0, sizeof n->addr_key);
	if (inet_pton(AF_INET, n->addr, n->addr_key + 1) == 1)
		n->addr_key[0] = 4;
	else if (inet_pton(AF_INET6, n->addr, n->addr_key + 1) == 1)
		n->addr_key[0] = 6;
	else
		n->addr_key[0] = 255;
}

static int by_precedence(const void *pa, const void *pb)
{
	const struct job_node *a = *(struct job_node *const *)pa;
	const struct job_node *b = *(struct job_node *const *)pb;
	int d = b->hosts_server - a->hosts_server;

	if (d == 0)
		d = memcmp(a->addr_key, b->addr_key, sizeof a->addr_key);
	if (d == 0 && a->addr_key[0] == 255)
		d = strcmp(a->addr, b->addr);
	if (d == 0)
		d = a->seq < b->seq ? -1 : a->seq > b->seq;
	return d;
}

/* The rank that a node has a right to: what it had, what it was given. */
static int32_t own_rank(const struct job_node *n)
{
	return n->rank >= 0 ? n->rank : n->wanted;
}

static int place_nodes(struct job *j)
{
	struct job_node **rest = malloc(j->nnodes * sizeof *rest);
	struct job_node *n;
	uint32_t i, free_rank = 0, nrest = 0;

	if (!rest)
		return -ENOMEM;
	memset(j->order, 0, j->nnodes * sizeof(struct job_node *));
	for (n = j->nodes; n; n = n->next) {
		if (!n->joined)
			continue;
		if (own_rank(n) >= 0)
			j->order[own_rank(n)] = n;
		else
			rest[nrest++] = n;
	}
	qsort(rest, nrest, sizeof(struct job_node *), by_precedence);
	for (i = 0; i < nrest; i++) {
		while (j->order[free_rank])
			free_rank++;
		j->order[free_rank] = rest[i];
	}
	free(rest);
	return 0;
}

int assign_ranks(struct job *j)
{
	uint32_t i, base = 0;
	int rc = place_nodes(j);

	if (rc < 0)
		return rc;
	buf_reset(&j->start_nodes);
	for (i = 0; i < j->nnodes; i++) {
		struct job_node *n = j->order[i];
		struct wire_node item = {SLICE_STR(n->host), SLICE_STR(n->addr),
					 n->nproc};

		n->rank = (int32_t)i;
		n->base = base;
		base += n->nproc;
		wire_put_node_item(&j->start_nodes, &item);
	}
	j->world_size = base;
	return j->start_nodes.failed;
}
