/* join.c: who may become a node of a job. Each refusal says in one line what
 * is wrong, who is there, and what to type instead. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/job.h"

enum { NAMED_HOSTS = 8 };

/* "h1, h2, h3 and 12 more" */
static void put_hosts(const struct job *j, struct buf *out)
{
	const struct job_node *n;
	uint32_t said = 0, all = 0;

	for (n = j->nodes; n; n = n->next, all++) {
		if (said == NAMED_HOSTS)
			continue;
		buf_printf(out, "%s%.255s", said++ ? ", " : "", n->host);
	}
	if (all > said)
		buf_printf(out, " and %u more", all - said);
}

/* What comes from one terminal and goes to another has nothing in it that a
 * terminal would obey. */
static int is_plain(struct slice s)
{
	size_t i;

	for (i = 0; i < s.len; i++)
		if ((unsigned char)s.data[i] < 0x20 || s.data[i] == 0x7f)
			return 0;
	return s.len > 0;
}

static const char *nth(uint32_t n)
{
	return n == 2 ? "a second" : n == 3 ? "a third" : "another";
}

int join_refuse_full(const struct job *j, const struct wire_join *m,
		     const char *at, struct err *e)
{
	struct buf hosts = BUF_INIT(ERR_TEXT_MAX);
	int rc;

	put_hosts(j, &hosts);
	rc = err_set(e, ERR_REFUSED,
		     "job '%s' at %s already runs on its %u node%s (%.*s): %s "
		     "cannot join; if this is another job, give it its own "
		     "--rdzv-id",
		     j->id, at, j->nnodes, j->nnodes == 1 ? "" : "s",
		     (int)hosts.len, hosts.data, nth(j->nnodes + 1));
	buf_release(&hosts);
	return rc;
}

static int check_fields(const struct wire_join *m, struct err *e)
{
	if (!is_plain(m->node_id) || !is_plain(m->host) || !is_plain(m->addr))
		return err_set(e, ERR_ARGUMENT,
			       "JOIN: node id, host and address must be "
			       "printable text");
	if (m->max_nodes < 1 || m->max_nodes > WIRE_NODES_MAX || m->nproc < 1 ||
	    m->nproc > WIRE_NPROC_MAX)
		return err_set(e, ERR_ARGUMENT,
			       "JOIN: %u nodes, %u workers on %.*s: each must "
			       "be 1 to %d",
			       m->max_nodes, m->nproc, SLICE_FMT(m->host),
			       WIRE_NODES_MAX);
	if (m->node_rank < -1 ||
	    (m->node_rank >= 0 && (uint32_t)m->node_rank >= m->max_nodes))
		return err_set(e, ERR_ARGUMENT,
			       "--node-rank %d of %.*s does not exist in a job "
			       "of %u node%s: use 0 to %u",
			       m->node_rank, SLICE_FMT(m->host), m->max_nodes,
			       m->max_nodes == 1 ? "" : "s", m->max_nodes - 1);
	return 0;
}

static int differs(const struct job *j, const struct wire_join *m,
		   const char *option, uint32_t said, uint32_t before,
		   const char *at, struct err *e)
{
	return err_set(e, ERR_REFUSED,
		       "%.*s says %s %u, but %s said %u for job '%s' at %s: "
		       "give both the same, or one of them its own --rdzv-id",
		       SLICE_FMT(m->host), option, said, j->first_host, before,
		       j->id, at);
}

int join_check(const struct job *j, const struct wire_join *m, const char *at,
	       struct err *e)
{
	const struct job_node *holder;
	int rc = check_fields(m, e);

	if (rc < 0 || !j->first_host)
		return rc;
	if (m->max_nodes != j->nnodes)
		return differs(j, m, "--nnodes", m->max_nodes, j->nnodes, at, e);
	if (m->max_restarts != j->max_restarts)
		return differs(j, m, "--max-restarts", m->max_restarts,
			       j->max_restarts, at, e);
	holder = m->node_rank >= 0 ? j->wanted[m->node_rank] : NULL;
	if (holder && (holder->item.key.len != m->node_id.len ||
		       memcmp(holder->node_id, m->node_id.data,
			      m->node_id.len)))
		return err_set(e, ERR_REFUSED,
			       "--node-rank %d of job '%s' at %s is taken by "
			       "%s: give %.*s another, or leave --node-rank "
			       "out",
			       m->node_rank, j->id, at, holder->host,
			       SLICE_FMT(m->host));
	if (j->nproc + m->nproc > WIRE_WORLD_MAX)
		return err_set(e, ERR_REFUSED,
			       "job '%s' would have %llu workers with the %u "
			       "of %.*s: at most %d are possible",
			       j->id, (unsigned long long)(j->nproc + m->nproc),
			       m->nproc, SLICE_FMT(m->host), WIRE_WORLD_MAX);
	return 0;
}

static int no_memory(struct err *e)
{
	return err_set(e, -ENOMEM, "the rendezvous server is out of memory");
}

static char *copy(struct slice s)
{
	return strndup(s.data, s.len);
}

/* Where the node can be reached may change between two rounds. */
static int take_place(struct job *j, struct job_node *n,
		      const struct wire_join *m, struct err *e)
{
	char *host = copy(m->host), *addr = copy(m->addr);

	if (!host || !addr) {
		free(host);
		free(addr);
		return no_memory(e);
	}
	free(n->host);
	free(n->addr);
	n->host = host;
	n->addr = addr;
	assign_addr_key(n);
	n->master_port = m->master_port;
	n->hosts_server = m->hosts_server != 0;
	n->nproc = m->nproc;
	n->joined = 1;
	j->joined++;
	j->nproc += n->nproc;
	return 0;
}

static void forget_first(struct job *j)
{
	free(j->first_host);
	free(j->wanted);
	free(j->order);
	j->first_host = NULL;
	j->wanted = j->order = NULL;
}

/* What the first node says holds for the job. */
static int be_first(struct job *j, const struct wire_join *m, struct err *e)
{
	if (j->first_host)
		return 0;
	j->first_host = copy(m->host);
	j->wanted = calloc(m->max_nodes, sizeof(struct job_node *));
	j->order = calloc(m->max_nodes, sizeof(struct job_node *));
	if (!j->first_host || !j->wanted || !j->order) {
		forget_first(j);
		return no_memory(e);
	}
	j->nnodes = m->max_nodes;
	j->max_restarts = m->max_restarts;
	return 0;
}

int join_new(struct job *j, const struct wire_join *m, void *owner,
	     struct job_node **out, struct err *e)
{
	struct job_node *n;
	int rc;

	if (table_find(&j->by_id, m->node_id))
		return err_set(e, ERR_REFUSED,
			       "node %.*s on %.*s is in job '%s' already",
			       SLICE_FMT(m->node_id), SLICE_FMT(m->host),
			       j->id);
	rc = be_first(j, m, e);
	if (rc < 0)
		return rc;
	n = calloc(1, sizeof *n);
	if (!n || !(n->node_id = copy(m->node_id))) {
		free(n);
		return no_memory(e);
	}
	n->item.key = SLICE(n->node_id, strlen(n->node_id));
	n->owner = owner;
	n->seq = j->seq++;
	n->rank = -1;
	n->wanted = m->node_rank;
	rc = take_place(j, n, m, e);
	if (rc == 0 && table_insert(&j->by_id, &n->item) < 0) {
		join_undo(j, n);
		rc = no_memory(e);
	}
	if (rc < 0) {
		free(n->host);
		free(n->addr);
		free(n->node_id);
		free(n);
		return rc;
	}
	if (n->wanted >= 0)
		j->wanted[n->wanted] = n;
	n->pprev = j->nodes_tail;
	*j->nodes_tail = n;
	j->nodes_tail = &n->next;
	*out = n;
	return 0;
}

int join_again(struct job *j, const struct wire_join *m, void *owner,
	       const char *at, struct job_node **out, struct err *e)
{
	struct job_node *n =
		(struct job_node *)table_find(&j->by_id, m->node_id);

	if (!n)
		return join_refuse_full(j, m, at, e);
	if (n->owner != owner || n->joined)
		return err_set(e, ERR_REFUSED,
			       "node %.*s on %.*s has joined job '%s' already",
			       SLICE_FMT(m->node_id), SLICE_FMT(m->host),
			       j->id);
	*out = n;
	return take_place(j, n, m, e);
}

/* Its place is free again. */
void join_undo(struct job *j, struct job_node *n)
{
	if (n->wanted >= 0 && n->rank < 0) {
		if (j->wanted && j->wanted[n->wanted] == n)
			j->wanted[n->wanted] = NULL;
		/* whoever is first next may say a smaller --nnodes */
		n->wanted = -1;
	}
	if (!n->joined)
		return;
	n->joined = 0;
	j->joined--;
	j->nproc -= n->nproc;
	if (j->joined == 0 && j->state == JOB_GATHERING)
		forget_first(j);
}
