/* join.c: decides which nodes may join a job. Each refusal states in one line
 * what is wrong, which nodes are in the job, and what to type instead. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rendezvous/round/job_internal.h"

enum { LEASE_MAX_MS = 86400 * 1000, OPTION_TEXT_MAX = 200 };

/* Text from one user's command line is printed on other terminals, so it must
 * not contain control characters. */
static int join_is_plain(struct slice s)
{
	for (size_t i = 0; i < s.len; i++)
		if ((unsigned char)s.data[i] < 0x20 || s.data[i] == 0x7f)
			return 0;
	return 1;
}

static int join_check_alike(const struct wire_join *m, struct err *e)
{
	struct reader r;

	reader_init(&r, m->alike);
	while (reader_left(&r)) {
		const struct wire_option o = wire_get_option(&r);

		if (r.bad || !o.name.len || !join_is_plain(o.name) ||
		    !join_is_plain(o.value))
			return err_set(e, ERR_ARGUMENT,
				       "JOIN: the options of %.*s that all "
				       "nodes must have alike are malformed, "
				       "or not printable", SLICE_FMT(m->host));
	}
	return 0;
}

static int join_check_fields(const struct wire_join *m, struct err *e)
{
	if (!join_is_plain(m->node_id) || !join_is_plain(m->host) ||
	    !join_is_plain(m->addr) || !join_is_plain(m->role) ||
	    !m->node_id.len || !m->host.len || !m->addr.len)
		return err_set(e, ERR_ARGUMENT,
			       "JOIN: node id, host, address and role must be "
			       "printable text");
	if (m->max_nodes < 1 || m->max_nodes > WIRE_NODES_MAX || m->nproc < 1 ||
	    m->nproc > WIRE_NPROC_MAX)
		return err_set(e, ERR_ARGUMENT,
			       "JOIN: %u nodes, %u workers on %.*s: each must "
			       "be 1 to %d",
			       m->max_nodes, m->nproc, SLICE_FMT(m->host),
			       WIRE_NODES_MAX);
	if (m->min_nodes < 1 || m->min_nodes > m->max_nodes)
		return err_set(e, ERR_ARGUMENT,
			       "--nnodes %u:%u of %.*s: the minimum must be "
			       "from 1 to the maximum",
			       m->min_nodes, m->max_nodes, SLICE_FMT(m->host));
	if (m->lease_ms && (m->lease_ms < WIRE_LEASE_MIN_MS ||
			    m->lease_ms > LEASE_MAX_MS))
		return err_set(e, ERR_ARGUMENT,
			       "a heartbeat timeout of %g s on %.*s: it must "
			       "be from 0.1 s to a day",
			       m->lease_ms / 1e3, SLICE_FMT(m->host));
	if (m->node_rank < WIRE_RANK_OF_SPARE ||
	    (m->node_rank >= 0 && (uint32_t)m->node_rank >= m->max_nodes))
		return err_set(e, ERR_ARGUMENT,
			       "--node-rank %d of %.*s does not exist in a job "
			       "of %u node%s: use 0 to %u",
			       m->node_rank, SLICE_FMT(m->host), m->max_nodes,
			       m->max_nodes == 1 ? "" : "s", m->max_nodes - 1);
	return join_check_alike(m, e);
}

/* Writes "4" or "2:4" to out. */
static const char *join_nnodes_text(uint32_t min, uint32_t max, char *out)
{
	if (min == max)
		snprintf(out, 24, "%u", max);
	else
		snprintf(out, 24, "%u:%u", min, max);
	return out;
}

static int join_differs(const struct job *j, const struct wire_join *m,
			const char *option, const char *said,
			const char *before, const char *at, struct err *e)
{
	return err_set(e, ERR_REFUSED,
		       "%.*s has %s %s, but %s has %s in job '%s' at %s: give "
		       "both the same value, or one of them its own --rdzv-id",
		       SLICE_FMT(m->host), option, said, j->first_host, before,
		       j->id, at);
}

static int join_check_number(const struct job *j, const struct wire_join *m,
			     const char *option, uint32_t said,
			     uint32_t before, const char *at, struct err *e)
{
	char said_text[12], before_text[12];

	if (said == before)
		return 0;
	snprintf(said_text, sizeof(said_text), "%u", said);
	snprintf(before_text, sizeof(before_text), "%u", before);
	return join_differs(j, m, option, said_text, before_text, at, e);
}

/* "--env tf", "no --env"; a long value is cut. */
static const char *join_option_text(struct slice name, struct slice value,
				    char out[OPTION_TEXT_MAX])
{
	enum { NAME = 40, VALUE = OPTION_TEXT_MAX - NAME - 8 };
	int cut = value.len > VALUE, n = cut ? VALUE : (int)value.len;

	snprintf(out, OPTION_TEXT_MAX, "%s%.*s%s%.*s%s",
		 value.len ? "" : "no ", name.len > NAME ? NAME : (int)name.len,
		 name.data, value.len ? " " : "", n, value.data,
		 cut ? "..." : "");
	return out;
}

/* Compares only the options that both nodes list: a node that cannot run
 * workers joins to report the reason, and does not know all of its options. */
static int join_check_options(const struct job *j, const struct wire_join *m,
			      const char *at, struct err *e)
{
	const struct slice first = SLICE(j->alike.data, j->alike.len);
	char said[OPTION_TEXT_MAX], before[OPTION_TEXT_MAX];
	struct reader r;

	reader_init(&r, m->alike);
	while (reader_left(&r)) {
		const struct wire_option o = wire_get_option(&r);
		struct slice value;

		if (!wire_find_option(first, o.name, &value) ||
		    (value.len == o.value.len &&
		     memcmp(value.data, o.value.data, value.len) == 0))
			continue;
		join_option_text(o.name, o.value, said);
		join_option_text(o.name, value, before);
		return err_set(e, ERR_REFUSED,
			       "%.*s has %s, but %s has %s in job '%s' at %s: "
			       "give all nodes the same, or this one its own "
			       "--rdzv-id", SLICE_FMT(m->host), said,
			       j->first_host, before, j->id, at);
	}
	return 0;
}

static int join_check_same(const struct job *j, const struct wire_join *m,
			   const char *at, struct err *e)
{
	char said[24], before[24];
	int rc;

	if (m->min_nodes != j->min_nodes || m->max_nodes != j->max_nodes)
		return join_differs(
			j, m, "--nnodes",
			join_nnodes_text(m->min_nodes, m->max_nodes, said),
			join_nnodes_text(j->min_nodes, j->max_nodes, before),
			at, e);
	if (m->backoff_ms != j->backoff_ms) {
		snprintf(said, sizeof(said), "%g", m->backoff_ms / 1e3);
		snprintf(before, sizeof(before), "%g", j->backoff_ms / 1e3);
		return join_differs(j, m, "--restart-backoff", said, before,
				    at, e);
	}
	rc = join_check_number(j, m, "--max-restarts", m->max_restarts,
			       j->max_restarts, at, e);
	if (rc == 0)
		rc = join_check_number(j, m, "--max-no-progress-restarts",
				       m->max_no_progress, j->max_no_progress,
				       at, e);
	if (rc == 0)
		rc = join_check_number(j, m, "--swap-after", m->swap_after,
				       j->swap_after, at, e);
	return rc == 0 ? join_check_options(j, m, at, e) : rc;
}

int join_check(const struct job *j, const struct wire_join *m, const char *at,
	       struct err *e)
{
	const struct job_node *holder;
	int rc = join_check_fields(m, e);

	if (rc < 0 || !j->first_host)
		return rc;
	rc = join_check_same(j, m, at, e);
	if (rc < 0)
		return rc;
	holder = m->node_rank >= 0 ? j->homes[m->node_rank] : NULL;
	if (holder && !holder->stands_in &&
	    (holder->item.key.len != m->node_id.len ||
	     memcmp(holder->node_id, m->node_id.data, m->node_id.len)))
		return err_set(e, ERR_REFUSED,
			       "--node-rank %d of job '%s' at %s is taken by "
			       "%s: give %.*s another, or leave --node-rank "
			       "out",
			       m->node_rank, j->id, at, holder->host,
			       SLICE_FMT(m->host));
	return 0;
}

/* Nodes that have not joined again are counted when they do. */
static int join_fits(const struct job *j, uint32_t nproc)
{
	return j->nproc + nproc <= WIRE_WORLD_MAX;
}

static int join_check_fits(const struct job *j, const struct wire_join *m,
			   struct err *e)
{
	if (join_fits(j, m->nproc))
		return 0;
	return err_set(e, ERR_REFUSED,
		       "job '%s' would have %llu workers with the %u of %.*s: "
		       "the maximum is %d",
		       j->id, (unsigned long long)(j->nproc + m->nproc),
		       m->nproc, SLICE_FMT(m->host), WIRE_WORLD_MAX);
}

static int join_fail_no_memory(struct err *e)
{
	return err_set(e, -ENOMEM, "the rendezvous server is out of memory");
}

static char *join_copy_text(struct slice s)
{
	return strndup(s.data, s.len);
}

/* Copies what JOIN says of the node, which may change between two rounds. */
static int join_node_describe(struct job_node *n, const struct wire_join *m,
			      struct err *e)
{
	char *host = join_copy_text(m->host), *addr = join_copy_text(m->addr);
	char *role = join_copy_text(m->role);

	if (!host || !addr || !role) {
		free(host);
		free(addr);
		free(role);
		return join_fail_no_memory(e);
	}
	free(n->host);
	free(n->addr);
	free(n->role);
	n->host = host;
	n->addr = addr;
	n->role = role;
	assign_addr_key(n);
	n->master_port = m->master_port;
	n->hosts_server = m->hosts_server != 0;
	n->agent_store = m->agent_store != 0;
	n->store_open = m->store_open != 0;
	n->nproc = m->nproc;
	n->lease_ms = m->lease_ms;
	n->notices = 0;
	return 0;
}

static void join_set_joined(struct job *j, struct job_node *n)
{
	n->joined = 1;
	j->joined++;
	j->nproc += n->nproc;
}

static void join_set_member(struct job *j, struct job_node *n)
{
	n->place = NODE_MEMBER;
	j->members++;
	join_set_joined(j, n);
}

static void join_reset_first(struct job *j)
{
	free(j->first_host);
	free(j->homes);
	free(j->order);
	j->first_host = NULL;
	j->homes = j->order = NULL;
	buf_reset(&j->alike);
}

/* The first node sets the job's options. */
static int join_set_first(struct job *j, const struct wire_join *m,
			  struct err *e)
{
	if (j->first_host)
		return 0;
	j->first_host = join_copy_text(m->host);
	j->homes = calloc(m->max_nodes, sizeof(struct job_node *));
	j->order = calloc(m->max_nodes, sizeof(struct job_node *));
	buf_put(&j->alike, m->alike.data, m->alike.len);
	if (!j->first_host || !j->homes || !j->order || j->alike.failed) {
		join_reset_first(j);
		return join_fail_no_memory(e);
	}
	j->min_nodes = m->min_nodes;
	j->max_nodes = m->max_nodes;
	j->max_restarts = m->max_restarts;
	j->max_no_progress = m->max_no_progress;
	j->swap_after = m->swap_after;
	j->backoff_ms = m->backoff_ms;
	j->last_call_ms = m->last_call_ms;
	return 0;
}

static int join_node_new(struct job *j, const struct wire_join *m,
			 struct job_node **out, struct err *e)
{
	struct job_node *n = calloc(1, sizeof(*n));
	int rc;

	if (!n || !(n->node_id = join_copy_text(m->node_id))) {
		free(n);
		return join_fail_no_memory(e);
	}
	n->item.key = SLICE(n->node_id, strlen(n->node_id));
	rc = join_node_describe(n, m, e);
	if (rc == 0 && hash_table_insert(&j->by_id, &n->item) < 0)
		rc = join_fail_no_memory(e);
	if (rc < 0) {
		free(n->host);
		free(n->addr);
		free(n->role);
		free(n->node_id);
		free(n);
		return rc;
	}
	*out = n;
	return 0;
}

/* A spare that stood in for n keeps n's rank until the round ends. */
static void join_take_home(struct job *j, struct job_node *n)
{
	if (j->homes[n->home])
		j->homes[n->home]->home = -1;
	j->homes[n->home] = n;
}

int join_new(struct job *j, const struct wire_join *m, void *owner, int spare,
	     struct job_node **out, struct err *e)
{
	struct job_node *n = NULL;
	int rc;

	if (hash_table_find(&j->by_id, m->node_id))
		return err_set(e, ERR_REFUSED,
			       "node %.*s on %.*s is in job '%s' already",
			       SLICE_FMT(m->node_id), SLICE_FMT(m->host),
			       j->id);
	rc = join_set_first(j, m, e);
	if (rc < 0)
		return rc;
	spare |= j->members == j->max_nodes ||
		 (m->node_rank == WIRE_RANK_OF_SPARE &&
		  j->state == JOB_GATHERING);
	rc = spare ? 0 : join_check_fits(j, m, e);
	if (rc == 0)
		rc = join_node_new(j, m, &n, e);
	if (rc) {
		if (!j->members && !j->spares)
			join_reset_first(j);
		return rc;
	}
	n->owner = owner;
	n->seq = j->seq++;
	n->rank = -1;
	n->home = m->node_rank >= 0 ? m->node_rank : -1;
	n->stands_in = m->node_rank == WIRE_RANK_OF_SPARE;
	if (n->home >= 0)
		join_take_home(j, n);
	n->pprev = j->nodes_tail;
	*j->nodes_tail = n;
	j->nodes_tail = &n->next;
	if (spare) {
		n->place = NODE_SPARE;
		j->spares++;
		log_debug("job '%s': %s is a spare", j->id, n->host);
	} else {
		join_set_member(j, n);
	}
	*out = n;
	return 0;
}

int join_again(struct job *j, const struct wire_join *m, void *owner,
	       struct job_node *n, struct err *e)
{
	int rc;

	if (n->owner != owner || n->joined || n->place != NODE_MEMBER)
		return err_set(e, ERR_REFUSED,
			       "node %.*s on %.*s has joined job '%s' already",
			       SLICE_FMT(m->node_id), SLICE_FMT(m->host),
			       j->id);
	rc = join_check_fits(j, m, e);
	if (rc == 0)
		rc = join_node_describe(n, m, e);
	if (rc < 0)
		return rc;
	join_set_joined(j, n);
	restarts_on_joined(j, n, m->steps);
	return 0;
}

void join_drop(struct job *j, struct job_node *n)
{
	if (n->place == NODE_GONE)
		return;
	if (n->place == NODE_SPARE)
		j->spares--;
	else
		j->members--;
	if (n->joined) {
		j->joined--;
		j->nproc -= n->nproc;
	}
	n->joined = n->running = 0;
	n->place = NODE_GONE;
	assign_forget(j, n);
	/* the next first node may set another --nnodes */
	if (!j->members && !j->spares && j->state == JOB_GATHERING)
		join_reset_first(j);
}

void join_demote(struct job *j, struct job_node *n)
{
	j->members--;
	j->joined--;
	j->nproc -= n->nproc;
	n->joined = 0;
	n->place = NODE_SPARE;
	j->spares++;
	assign_forget(j, n);
	n->rank = -1;
}

struct job_node *join_next_spare(const struct job *j)
{
	struct job_node *n, *last = NULL;

	for (n = j->spares ? j->nodes : NULL; n; n = n->next) {
		if (n->place != NODE_SPARE || !join_fits(j, n->nproc))
			continue;
		if (n->swap != NODE_SWAPPED)
			return n;
		if (!last)
			last = n;
	}
	return j->members < j->min_nodes ? last : NULL;
}

struct job_node *join_promote(struct job *j)
{
	struct job_node *n = NULL;

	if (j->members < j->max_nodes)
		n = join_next_spare(j);
	if (n) {
		j->spares--;
		join_set_member(j, n);
	}
	return n;
}
