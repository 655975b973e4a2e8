/* etcd_election.c: a candidate with its journal that executes commands from
 * stdin and prints events: ENDPOINTS JOB ADDRESS LEASE TTL. Commands: append
 * TEXT, snapshot TEXT, fill BYTES (a snapshot of BYTES), remove, resign. It
 * ends with its stdin. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/election/election.h"
#include "rendezvous/journal/journal_etcd.h"

enum { LINE_MAX_BYTES = 4096, WITHIN_MS = 5000, KEEP_S = 60 };

static uv_loop_t *loop;
static struct etcd *etcd;
static struct election *candidate;
static struct journal_etcd *journal;
static uv_pipe_t in;
static char room[LINE_MAX_BYTES];
static struct buf lines = BUF_INIT(1 << 20);
static const char *job;
static int64_t lease;
static int ended;
static int written; /* batches */

static void say(const char *what, const char *text)
{
	printf("%s%s%s\n", what, *text ? " " : "", text);
	fflush(stdout);
}

static void end(void)
{
	if (ended++)
		return;
	journal_etcd_close(journal);
	election_close(candidate);
	etcd_close(etcd);
	uv_close((uv_handle_t *)&in, NULL);
}

static void on_lost(void *owner, const struct err *why)
{
	say("lost", why->text);
	end();
}

static int take(void *arg, struct slice batch)
{
	printf("had %.*s (%zu)\n", batch.len > 40 ? 40 : (int)batch.len,
	       batch.data, batch.len);
	return 0;
}

static void on_loaded(void *owner)
{
	journal_etcd_replay(journal, take, NULL);
	say("loaded", "");
}

static void on_kept(void *owner)
{
	printf("kept %d\n", written);
	fflush(stdout);
}

static const struct journal_etcd_events journal_events = {
	.on_loaded = on_loaded, .on_kept = on_kept, .on_lost = on_lost,
};

static void on_won(void *owner, int64_t revision)
{
	struct err e = ERR_INIT;
	const struct journal_etcd_options o = {
		.job = job, .guard = election_key(candidate),
		.guard_revision = revision, .within_ms = WITHIN_MS,
		.lease = lease + 1, .keep_s = KEEP_S,
	};

	say("won", "");
	if (journal_etcd_open(&journal, etcd, loop, &o, &journal_events, NULL,
			      &e))
		on_lost(NULL, &e);
}

static void on_other(void *owner, const char *address)
{
	say("other", address);
}

static void on_none(void *owner)
{
}

static const struct election_events events = {
	.on_other = on_other, .on_none = on_none, .on_won = on_won,
	.on_longer = on_none, .on_lost = on_lost,
};

static void on_resigned(void *owner)
{
	say("resigned", "");
	end();
}

static void fill(size_t n)
{
	char *bytes = calloc(1, n + 1);

	memset(bytes, 'x', n);
	journal_etcd_snapshot(journal, &SLICE(bytes, n), 1);
	free(bytes);
}

static void obey(char *line)
{
	char *arg = strchr(line, ' ');

	if (arg)
		*arg++ = '\0';
	written++;
	if (strcmp(line, "append") == 0)
		journal_etcd_append(journal, SLICE_STR(arg));
	else if (strcmp(line, "snapshot") == 0)
		journal_etcd_snapshot(journal, &SLICE_STR(arg), 1);
	else if (strcmp(line, "fill") == 0)
		fill(strtoul(arg, NULL, 10));
	else if (strcmp(line, "remove") == 0)
		journal_etcd_remove(journal);
	else if (strcmp(line, "resign") == 0)
		election_resign(candidate, on_resigned);
}

static void on_alloc(uv_handle_t *h, size_t hint, uv_buf_t *b)
{
	*b = uv_buf_init(room, sizeof(room));
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	char *newline;

	if (n < 0) {
		end();
		return;
	}
	buf_put(&lines, b->base, (size_t)n);
	while (!ended && lines.len &&
	       (newline = memchr(lines.data, '\n', lines.len))) {
		*newline = '\0';
		obey(lines.data);
		buf_consume(&lines, (size_t)(newline + 1 - lines.data));
	}
}

int main(int argc, char **argv)
{
	struct err e = ERR_INIT;
	const struct etcd_options o = {.endpoints = argv[1]};
	struct election_options me;

	if (argc != 6)
		return 2;
	job = argv[2];
	lease = strtoll(argv[4], NULL, 10);
	me = (struct election_options){
		.job = job, .address = argv[3],
		.lease = lease,
		.ttl_s = (uint32_t)strtoul(argv[5], NULL, 10),
		.within_ms = WITHIN_MS,
	};
	loop = uv_default_loop();
	uv_pipe_init(loop, &in, 0);
	if (uv_pipe_open(&in, 0) < 0 ||
	    uv_read_start((uv_stream_t *)&in, on_alloc, on_read) < 0) {
		say("lost", "no stdin");
		return 1;
	}
	if (etcd_new(&etcd, loop, &o, &e) ||
	    election_start(&candidate, etcd, loop, &me, &events, NULL, &e)) {
		say("lost", e.text);
		return 1;
	}
	uv_run(loop, UV_RUN_DEFAULT);
	buf_release(&lines);
	return uv_loop_close(loop);
}
