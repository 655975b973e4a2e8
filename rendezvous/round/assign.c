/* assign.c: node ranks and, by prefix sums, worker ranks. Users can predict the
 * order: a node's former rank, then explicit ranks, the server's
 * host, addresses, and last the order of joining. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/round/job_internal.h"

/* Sorts IPv4 before IPv6, and text that is not an address last. */
void assign_addr_key(struct job_node *n)
{
	memset(n->addr_key, 0, sizeof(n->addr_key));
	if (inet_pton(AF_INET, n->addr, n->addr_key + 1) == 1)
		n->addr_key[0] = 4;
	else if (inet_pton(AF_INET6, n->addr, n->addr_key + 1) == 1)
		n->addr_key[0] = 6;
	else
		n->addr_key[0] = 255;
}

static int assign_compare_nodes(const void *pa, const void *pb)
{
	const struct job_node *a = *(struct job_node *const *)pa;
	const struct job_node *b = *(struct job_node *const *)pb;
	int d = b->hosts_server - a->hosts_server;

	if (d == 0)
		d = memcmp(a->addr_key, b->addr_key, sizeof(a->addr_key));
	if (d == 0 && a->addr_key[0] == 255)
		d = strcmp(a->addr, b->addr);
	if (d == 0)
		d = a->seq < b->seq ? -1 : a->seq > b->seq;
	return d;
}

/* ---- the memory of hosts ---- */

static void assign_empty(struct job *j, struct job_memory *m)
{
	if (m->host)
		j->memory_bytes -= strlen(m->host) + 1;
	free(m->host);
	m->host = NULL;
}

void assign_fill(struct job *j, struct job_memory *m, char *host, int32_t rank)
{
	m->host = host;
	m->rank = rank;
	if (host)
		j->memory_bytes += strlen(host) + 1;
}

void assign_forget(struct job *j, struct job_node *n)
{
	struct job_memory *m = &j->memory[j->next_memory % MEMORIES];

	if (n->home >= 0 && j->homes && j->homes[n->home] == n)
		j->homes[n->home] = NULL;
	if (n->rank >= 0 && n->home >= 0) {
		assign_empty(j, m);
		/* strdup failed: the rank is not remembered */
		assign_fill(j, m, strdup(n->host), n->home);
		j->next_memory++;
	}
	/* the rank may not exist in the job's next --nnodes */
	n->home = -1;
}

/* Gives n the lowest free rank that a node of its host left behind. */
static void assign_remember_rank(struct job *j, struct job_node *n)
{
	struct job_memory *m, *best = NULL;

	for (uint32_t i = 0; i < MEMORIES; i++) {
		m = &j->memory[i];
		if (m->host && !strcmp(m->host, n->host) &&
		    !j->homes[m->rank] && (!best || m->rank < best->rank))
			best = m;
	}
	if (!best)
		return;
	n->home = best->rank;
	j->homes[n->home] = n;
	assign_empty(j, best);
}

/* ---- node ranks ---- */

static int assign_take_rank(struct job *j, struct job_node *n, int32_t rank)
{
	if (rank < 0 || (uint32_t)rank >= j->nnodes || j->order[rank])
		return 0;
	j->order[rank] = n;
	return 1;
}

/* A node whose rank does not fit the round's size takes a free one, and keeps
 * that replacement until its own rank fits again. */
static int assign_place_nodes(struct job *j)
{
	struct job_node **rest = malloc(j->nnodes * sizeof(*rest));
	struct job_node *n;
	uint32_t left = 0, nrest = 0, free_rank = 0;

	if (!rest)
		return -ENOMEM;
	memset(j->order, 0, j->nnodes * sizeof(struct job_node *));
	for (n = j->nodes; n; n = n->next) {
		if (n->place != NODE_MEMBER)
			continue;
		if (n->home < 0 && j->next_memory)
			assign_remember_rank(j, n);
		if (!assign_take_rank(j, n, n->home))
			rest[nrest++] = n;
	}
	for (uint32_t i = 0; i < nrest; i++)
		if (!assign_take_rank(j, rest[i], rest[i]->rank))
			rest[left++] = rest[i];
	qsort(rest, left, sizeof(struct job_node *), assign_compare_nodes);
	for (uint32_t i = 0; i < left; i++) {
		while (j->order[free_rank])
			free_rank++;
		j->order[free_rank] = rest[i];
	}
	free(rest);
	return 0;
}

static void assign_fill_homes(struct job *j, struct job_node *n, int32_t rank)
{
	n->rank = rank;
	n->running = 1;
	/* if a spare asked for this rank, n only borrows it */
	if (n->home < 0 && !j->homes[rank]) {
		n->home = rank;
		j->homes[rank] = n;
	}
}

/* ---- roles ---- */

static int assign_compare_roles(const void *pa, const void *pb)
{
	const struct job_node *a = *(struct job_node *const *)pa;
	const struct job_node *b = *(struct job_node *const *)pb;
	int d = strcmp(a->role, b->role);

	return d ? d : a->rank < b->rank ? -1 : a->rank > b->rank;
}

static int assign_roles(struct job *j)
{
	struct job_node **nodes = malloc(j->nnodes * sizeof(*nodes));
	uint32_t k, sum;

	if (!nodes)
		return -ENOMEM;
	memcpy(nodes, j->order, j->nnodes * sizeof(*nodes));
	qsort(nodes, j->nnodes, sizeof(*nodes), assign_compare_roles);
	for (uint32_t i = 0; i < j->nnodes; i = k) {
		sum = 0;
		for (k = i; k < j->nnodes &&
			    !strcmp(nodes[k]->role, nodes[i]->role); k++) {
			nodes[k]->role_base = sum;
			sum += nodes[k]->nproc;
		}
		while (i < k)
			nodes[i++]->role_world = sum;
	}
	free(nodes);
	return 0;
}

int assign_ranks(struct job *j)
{
	uint32_t base = 0;
	int rc;

	j->nnodes = j->members;
	rc = assign_place_nodes(j);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < j->nnodes; i++) {
		struct job_node *n = j->order[i];

		assign_fill_homes(j, n, (int32_t)i);
		n->base = base;
		base += n->nproc;
	}
	j->world_size = base;
	return assign_roles(j);
}
