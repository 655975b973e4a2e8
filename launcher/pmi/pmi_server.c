/* pmi_server.c: the commands of PMI-1 (MPICH's src/pmi), one handler each. */
#include "launcher/pmi/pmi_server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/pmi/key_space.h"
#include "pmi/pmi.h"

int pmi_server_init(struct pmi_server *s, const struct pmi_server_round *round,
		    struct err *e)
{
	int rc;

	*s = (struct pmi_server){.round = *round};
	snprintf(s->name, sizeof(s->name), "%s", round->name);
	s->round.name = NULL; /* the caller's: this is ours */
	rc = attendance_init(&s->attendance, round->base_rank, round->nproc, e);
	if (rc < 0)
		return rc;
	s->ranks = calloc(round->nproc, sizeof(*s->ranks));
	if (!s->ranks) {
		attendance_release(&s->attendance);
		return err_no_memory(e, "PMI for %u workers", round->nproc);
	}
	key_space_init(&s->keys);
	for (uint32_t i = 0; i < round->nproc; i++) {
		s->ranks[i].attendance = &s->attendance.ranks[i];
		buf_init(&s->ranks[i].in, PMI_SERVER_LINE_MAX);
		buf_init(&s->ranks[i].out, PMI_SERVER_OUT_MAX);
	}
	return 0;
}

void pmi_server_release(struct pmi_server *s)
{
	for (uint32_t i = 0; s->ranks && i < s->round.nproc; i++) {
		buf_release(&s->ranks[i].in);
		buf_release(&s->ranks[i].out);
	}
	free(s->ranks);
	s->ranks = NULL;
	attendance_release(&s->attendance);
	key_space_release(&s->keys);
}

/* ---- fields ---- */

static int pmi_server_is(struct slice s, const char *text)
{
	return s.len == strlen(text) && !memcmp(s.data, text, s.len);
}

/* The rest of the line after " key=": a value may contain spaces. */
static int pmi_server_rest(struct slice line, const char *key,
			   struct slice *value)
{
	struct slice first;

	if (!pmi_field(line, key, &first))
		return 0;
	*value = SLICE(first.data,
		       (size_t)(line.data + line.len - first.data));
	return 1;
}

static long pmi_server_number(struct slice line, const char *key, long other)
{
	struct slice value;
	char text[16];

	if (!pmi_field(line, key, &value) || !value.len ||
	    value.len >= sizeof(text))
		return other;
	memcpy(text, value.data, value.len);
	text[value.len] = '\0';
	return strtol(text, NULL, 10);
}

/* ---- commands ---- */

static int pmi_server_init_rank(struct pmi_server *s, struct pmi_rank *r,
				struct slice line, struct err *e)
{
	(void)s, (void)e;
	/* a client of PMI-2 introduces itself in the same way */
	if (pmi_server_number(line, "pmi_version", 1) != 1) {
		buf_printf(&r->out, "cmd=response_to_init pmi_version=1 "
				    "pmi_subversion=1 rc=-1\n");
		return 0;
	}
	if (r->attendance->state == ATTENDANCE_NEW)
		r->attendance->state = ATTENDANCE_IN;
	buf_printf(&r->out, "cmd=response_to_init pmi_version=1 "
			    "pmi_subversion=1 rc=0\n");
	return 0;
}

static int pmi_server_maxes(struct pmi_server *s, struct pmi_rank *r,
			    struct slice line, struct err *e)
{
	(void)s, (void)line, (void)e;
	buf_printf(&r->out, "cmd=maxes kvsname_max=256 keylen_max=%d "
			    "vallen_max=%d\n",
		   KEY_SPACE_KEY_MAX, KEY_SPACE_VALUE_MAX);
	return 0;
}

static int pmi_server_appnum(struct pmi_server *s, struct pmi_rank *r,
			     struct slice line, struct err *e)
{
	uint32_t rank = s->round.base_rank + (uint32_t)(r - s->ranks);

	(void)line, (void)e;
	buf_printf(&r->out, "cmd=appnum appnum=%u\n",
		   s->round.appnum ? s->round.appnum(s->round.arg, rank) : 0);
	return 0;
}

static int pmi_server_universe(struct pmi_server *s, struct pmi_rank *r,
			       struct slice line, struct err *e)
{
	(void)line, (void)e;
	buf_printf(&r->out, "cmd=universe_size size=%u\n",
		   s->round.world_size);
	return 0;
}

static int pmi_server_name(struct pmi_server *s, struct pmi_rank *r,
			   struct slice line, struct err *e)
{
	(void)line, (void)e;
	buf_printf(&r->out, "cmd=my_kvsname kvsname=%s\n", s->name);
	return 0;
}

static int pmi_server_put(struct pmi_server *s, struct pmi_rank *r,
			  struct slice line, struct err *e)
{
	struct slice key = {"", 0}, value = {"", 0};
	struct err why = ERR_INIT;
	int rc;

	pmi_field(line, "key", &key);
	pmi_server_rest(line, "value", &value);
	rc = key_space_put(&s->keys, key, value, &why);
	if (rc < 0 && rc != ERR_ARGUMENT)
		return err_set(e, rc, "%s", why.text);
	if (rc == 0)
		buf_printf(&r->out, "cmd=put_result rc=0 msg=success\n");
	else
		buf_printf(&r->out, "cmd=put_result rc=-1 msg=%s\n", why.text);
	return 0;
}

static void pmi_server_put_value(struct pmi_rank *r, struct slice value)
{
	buf_printf(&r->out, "cmd=get_result rc=0 msg=success value=");
	buf_put(&r->out, value.data, value.len);
	buf_put(&r->out, "\n", 1);
}

static void pmi_server_put_unknown(struct pmi_rank *r, struct slice key)
{
	buf_printf(&r->out, "cmd=get_result rc=-1 msg=key_%.*s_not_found "
			    "value=unknown\n", SLICE_FMT(key));
}

static void pmi_server_put_mapping(struct pmi_server *s, struct pmi_rank *r)
{
	r->wants_mapping = 0;
	if (s->mapping[0])
		pmi_server_put_value(r, SLICE_STR(s->mapping));
	else
		pmi_server_put_unknown(r, SLICE_STR("PMI_process_mapping"));
}

static int pmi_server_get(struct pmi_server *s, struct pmi_rank *r,
			  struct slice line, struct err *e)
{
	struct slice key = {"", 0}, value;

	(void)e;
	pmi_field(line, "key", &key);
	if (pmi_server_is(key, "PMI_process_mapping")) {
		r->wants_mapping = 1;
		if (s->has_layout)
			pmi_server_put_mapping(s, r);
	} else if (key_space_get(&s->keys, key, &value)) {
		pmi_server_put_value(r, value);
	} else {
		pmi_server_put_unknown(r, key);
	}
	return 0;
}

static int pmi_server_barrier(struct pmi_server *s, struct pmi_rank *r,
			      struct slice line, struct err *e)
{
	struct slice group;

	(void)s;
	if (pmi_field(line, "group", &group) &&
	    !pmi_server_is(group, "WORLD")) {
		buf_printf(&r->out, "cmd=barrier_out rc=-1 "
				    "msg=groups_are_not_supported\n");
		return 0;
	}
	if (r->attendance->state == ATTENDANCE_WAITS)
		return err_set(e, ERR_PROTOCOL,
			       "entered a barrier twice on PMI_FD");
	r->attendance->state = ATTENDANCE_WAITS;
	return 0;
}

static int pmi_server_finalize(struct pmi_server *s, struct pmi_rank *r,
			       struct slice line, struct err *e)
{
	(void)s, (void)line, (void)e;
	r->attendance->state = ATTENDANCE_LEFT;
	buf_printf(&r->out, "cmd=finalize_ack\n");
	return 0;
}

/* No answer: the rank ends, or waits to be killed. */
static int pmi_server_abort(struct pmi_server *s, struct pmi_rank *r,
			    struct slice line, struct err *e)
{
	struct slice text = {"", 0};

	(void)s, (void)e;
	(void)(pmi_server_rest(line, "error_msg", &text) ||
	       pmi_server_rest(line, "message", &text));
	attendance_abort(r->attendance,
			 (int)pmi_server_number(line, "exitcode", 1), text);
	return 0;
}

static int pmi_server_begin_spawn(struct pmi_server *s, struct pmi_rank *r,
				  struct slice line, struct err *e)
{
	(void)line, (void)e;
	s->has_refused_spawn = 1;
	r->is_spawning = 1;
	return 0;
}

static const struct pmi_command {
	const char *name;
	int (*run)(struct pmi_server *s, struct pmi_rank *r, struct slice line,
		   struct err *e);
	const char *refusal; /* the answer's name, if run is NULL */
} pmi_commands[] = {
	{"init", pmi_server_init_rank, NULL},
	{"get_maxes", pmi_server_maxes, NULL},
	{"get_appnum", pmi_server_appnum, NULL},
	{"get_universe_size", pmi_server_universe, NULL},
	{"get_my_kvsname", pmi_server_name, NULL},
	{"put", pmi_server_put, NULL},
	{"get", pmi_server_get, NULL},
	{"barrier_in", pmi_server_barrier, NULL},
	{"finalize", pmi_server_finalize, NULL},
	{"abort", pmi_server_abort, NULL},
	{"spawn", pmi_server_begin_spawn, NULL},
	{"publish_name", NULL, "publish_result"},
	{"unpublish_name", NULL, "unpublish_result"},
	{"lookup_name", NULL, "lookup_result"},
	{"create_kvs", NULL, "newkvs"},
	{"destroy_kvs", NULL, "kvs_destroyed"},
	{"getbyidx", NULL, "getbyidx_results"},
	{"singinit", NULL, "singinit_info"},
};

static void pmi_server_refuse(struct pmi_rank *r, const char *answer)
{
	buf_printf(&r->out, "cmd=%s rc=-1 msg=not_supported_by_ddprun\n",
		   answer);
}

/* The lines of a spawn up to "endcmd"; the last of several is answered. */
static void pmi_server_skip_spawn(struct pmi_rank *r, struct slice line)
{
	r->spawns = (uint32_t)pmi_server_number(line, "totspawns",
						(long)r->spawns);
	r->spawned = (uint32_t)pmi_server_number(line, "spawnssofar",
						 (long)r->spawned);
	if (!pmi_server_is(line, "endcmd"))
		return;
	r->is_spawning = 0;
	if (r->spawned < r->spawns)
		return;
	r->spawns = r->spawned = 0;
	pmi_server_refuse(r, "spawn_result");
}

static int pmi_server_line(struct pmi_server *s, struct pmi_rank *r,
			   struct slice line, struct err *e)
{
	struct slice name;

	if (r->is_spawning) {
		pmi_server_skip_spawn(r, line);
		return 0;
	}
	if (!pmi_field(line, "cmd", &name) && !pmi_field(line, "mcmd", &name))
		return err_set(e, ERR_PROTOCOL,
			       "sent a line without a command on PMI_FD");
	for (size_t i = 0; i < sizeof(pmi_commands) / sizeof(*pmi_commands);
	     i++) {
		const struct pmi_command *c = &pmi_commands[i];

		if (!pmi_server_is(name, c->name))
			continue;
		if (c->run)
			return c->run(s, r, line, e);
		pmi_server_refuse(r, c->refusal);
		return 0;
	}
	return err_set(e, ERR_PROTOCOL,
		       "sent '%.*s' on PMI_FD, which is not a command of "
		       "PMI-1",
		       name.len < 60 ? (int)name.len : 60, name.data);
}

/* ---- bytes ---- */

/* PMI-2's messages begin with their length, and may have no newline. */
static int pmi_server_check_start(const struct pmi_rank *r, struct err *e)
{
	const struct buf *in = &r->in;

	if (r->is_spawning || !in->len || in->data[0] == 'c' ||
	    in->data[0] == 'm')
		return 0;
	return err_set(e, ERR_PROTOCOL,
		       "does not speak PMI-1 on PMI_FD: its first bytes are "
		       "'%.*s'",
		       in->len < 20 ? (int)in->len : 20, in->data);
}

static int pmi_server_lines(struct pmi_server *s, struct pmi_rank *r,
			    struct err *e)
{
	size_t at = 0;
	int rc = 0;

	while (rc == 0 && at < r->in.len) {
		const char *from = r->in.data + at;
		const char *end = memchr(from, '\n', r->in.len - at);

		if (!end)
			break;
		at += (size_t)(end - from) + 1;
		rc = pmi_server_line(s, r, SLICE(from, (size_t)(end - from)),
				     e);
	}
	buf_consume(&r->in, at);
	return rc ? rc : pmi_server_check_start(r, e);
}

int pmi_server_receive(struct pmi_server *s, uint32_t local_rank,
		       struct slice bytes, struct err *e)
{
	struct pmi_rank *r = &s->ranks[local_rank];
	struct err why = ERR_INIT;
	int rc = 0;

	while (rc == 0 && bytes.len) {
		size_t n = PMI_SERVER_LINE_MAX - r->in.len;

		n = n < bytes.len ? n : bytes.len;
		buf_put(&r->in, bytes.data, n);
		bytes = SLICE(bytes.data + n, bytes.len - n);
		rc = r->in.failed ? err_set(&why, r->in.failed,
					    "cannot be read from: no memory")
				  : pmi_server_lines(s, r, &why);
		if (rc == 0 && r->in.len == PMI_SERVER_LINE_MAX)
			rc = err_set(&why, ERR_PROTOCOL,
				     "sent a line of more than %d bytes on "
				     "PMI_FD", PMI_SERVER_LINE_MAX);
	}
	return rc ? err_set(e, rc, "rank %u %s", s->round.base_rank +
			    local_rank, why.text)
		  : pmi_server_check(s, local_rank, e);
}

int pmi_server_check(const struct pmi_server *s, uint32_t local_rank,
		     struct err *e)
{
	uint32_t rank = s->round.base_rank + local_rank;
	int rc = s->ranks[local_rank].out.failed;

	if (rc == -ENOMEM)
		return err_no_memory(e, "PMI's answer to rank %u", rank);
	return rc ? err_set(e, ERR_PROTOCOL, "rank %u does not read the "
			    "answers on PMI_FD", rank) : 0;
}

void pmi_server_ended(struct pmi_server *s, uint32_t local_rank)
{
	s->attendance.ranks[local_rank].has_ended = 1;
}

/* ---- layout and barriers ---- */

void pmi_server_set_layout(struct pmi_server *s, const uint32_t *ranks)
{
	s->has_layout = 1;
	if (!process_mapping_put(ranks, s->round.nnodes, s->mapping,
				 sizeof(s->mapping)))
		s->mapping[0] = '\0';
	for (uint32_t i = 0; i < s->round.nproc; i++)
		if (s->ranks[i].wants_mapping)
			pmi_server_put_mapping(s, &s->ranks[i]);
}

int pmi_server_is_ready(const struct pmi_server *s)
{
	return s->has_layout && !s->is_exchanging && !s->is_over &&
	       attendance_is_ready(&s->attendance);
}

void pmi_server_take(struct pmi_server *s, struct buf *part)
{
	s->is_exchanging = 1;
	attendance_put(&s->attendance, part);
	key_space_take_new(&s->keys, part);
}

/* Reads the parts of all nodes. */
static int pmi_server_read(struct pmi_server *s, const struct slice *parts,
			   struct attendance_ended *ended, struct err *e)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < s->round.nnodes; i++) {
		struct reader r;

		reader_init(&r, parts[i]);
		attendance_read(&r, ended);
		if (r.bad)
			rc = err_set(e, ERR_PROTOCOL, "node %u's part of an "
				     "exchange of PMI is malformed", i);
		else if (i != s->round.node_rank)
			rc = key_space_merge(&s->keys, &r, e);
	}
	return rc;
}

int pmi_server_finish(struct pmi_server *s, const struct slice *parts,
		      struct err *e)
{
	struct attendance_ended ended = {0};
	int rc = pmi_server_read(s, parts, &ended, e);

	s->is_exchanging = 0;
	if (rc == 0)
		rc = attendance_check(&s->attendance, &ended, e);
	s->is_over = rc == 0;
	if (rc <= 0)
		return rc;
	s->barriers++;
	for (uint32_t i = 0; i < s->round.nproc; i++)
		if (s->ranks[i].attendance->state == ATTENDANCE_WAITS)
			buf_printf(&s->ranks[i].out, "cmd=barrier_out\n");
	attendance_resume(&s->attendance);
	return 0;
}

/* FNV-1a, as MPICH hashes the name. */
void pmi_server_memory_path(const char *name, uint32_t node_rank,
			    const char *kind, char out[PMI_SERVER_PATH_MAX])
{
	uint32_t hash = 2166136261;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619;
	snprintf(out, PMI_SERVER_PATH_MAX, "/dev/shm/mpich_%s_%x_%u", kind,
		 hash, node_rank);
}
