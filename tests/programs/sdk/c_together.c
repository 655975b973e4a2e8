/* c_together.c: ddp_once, ddp_should_stop, spans and batch norm. Prints lines
 * with the rank, or what was wrong.
 *
 *   c_together once SCOPE FILE     each running rank adds a line to FILE
 *   c_together fail SCOPE RANK     the function fails on that rank
 *   c_together long MS             it takes twice as long as the timeout, MS
 *   c_together dies                rank 0 dies in it
 *   c_together stop RANK           its signal handler asks for the stop
 *   c_together told RANK           the agent asks for it, in that rank's part
 *                                  of the flight recorder
 *   c_together differ              spans that differ from the root's
 *   c_together named CALL          it meets a barrier of rank 0
 *   c_together values              spans and batch norm
 */
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/flight_recorder.h"
#include "tests/programs/sdk/ranks.h"
#include "worker-sdk/ddp.h"

static ddp_comm *world;

/* ---- once ---- */

static int add_line(void *arg)
{
	FILE *f = fopen(arg, "a");

	if (!f)
		return -1;
	fprintf(f, "%d\n", rank);
	fclose(f);
	return rank + 40;
}

static enum ddp_scope scope_of(const char *text)
{
	return strcmp(text, "host") ? DDP_JOB : DDP_HOST;
}

static void once(const char *scope, char *file)
{
	char line[32];
	int lines = 0, got = ddp_once(world, scope_of(scope), add_line, file);
	FILE *f = fopen(file, "r");

	while (f && fgets(line, sizeof(line), f))
		lines++;
	if (f)
		fclose(f);
	printf("rank %d: got %d, sees %d\n", rank, got, lines);
}

/* On even ranks a call of libddp fails, whose text is kept. */
static int go_wrong(void *arg)
{
	ddp_metrics *m;

	if (rank != atoi(arg))
		return 0;
	return rank % 2 ? -5 : ddp_metrics_open(&m, "/dev/null/x", DDP_JSONL);
}

static void fail(const char *scope, char *who)
{
	int got = ddp_once(world, scope_of(scope), go_wrong, who);

	printf("rank %d: %d: %s\n", rank, got, got ? ddp_last_error() : "");
	fflush(stdout);
	must(ddp_barrier(world), "the communicator is still good");
}

static int take_long(void *arg)
{
	poll(NULL, 0, 2 * atoi(arg));
	return 0;
}

/* Longer than the timeout, with a message and a group's collective under way,
 * which rank 0 comes to only afterwards. */
static void wait_long(char *ms)
{
	ddp_request *requests[2] = {NULL, NULL};
	int said = rank, sum = 1;
	ddp_comm *group;

	must(ddp_comm_split(world, 0, rank, &group), "split");
	if (rank == 1) {
		must(ddp_recv_async(world, &said, 1, DDP_I32, 0, &requests[0]),
		     "recv");
		must(ddp_all_reduce_async(group, &sum, &sum, 1, DDP_I32,
					  DDP_SUM, &requests[1]), "begin");
	}
	must(ddp_once(world, DDP_JOB, take_long, ms), "once");
	if (rank == 0)
		must(ddp_send(world, &said, 1, DDP_I32, 1), "send");
	if (rank != 1)
		must(ddp_all_reduce(group, &sum, &sum, 1, DDP_I32, DDP_SUM),
		     "all_reduce");
	must(ddp_wait_all(requests, 2), "wait_all");
	if (sum != size || (rank == 1 && said != 0))
		DIE("the sum is %d, and the value is %d", sum, said);
}

static int die(void *arg)
{
	raise(SIGKILL);
	return 0;
}

static void outlive(void)
{
	int got = ddp_once(world, DDP_JOB, die, NULL);

	printf("rank %d: %s: %s\n", rank, ddp_error_name(got),
	       ddp_last_error());
}

/* ---- stop ---- */

static void on_signal(int number)
{
	ddp_request_stop(world);
}

/* As the agent does when the job is to end soon. */
static void act_as_agent(void)
{
	const char *where = getenv("DDP_RECORDER");
	char path[64];
	struct flight_file head;
	uint32_t one = 1;
	unsigned part;
	uint64_t at;
	int fd;

	if (!where || sscanf(where, "%63[^:]:%u", path, &part) != 2)
		DIE("DDP_RECORDER is %s", where ? where : "unset");
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || flight_file_read(&head, fd))
		DIE("no recorder in %s", path);
	at = flight_part_at(&head, part) + offsetof(struct flight, stop);
	if (pwrite(fd, &one, sizeof(one), (off_t)at) != sizeof(one))
		DIE("cannot write into %s", path);
	close(fd);
}

static void stop(int who, int by_agent)
{
	int step = 0, got;

	signal(SIGUSR1, on_signal);
	for (;; step++) {
		if (step == 7 && rank == who && by_agent)
			act_as_agent();
		else if (step == 7 && rank == who)
			raise(SIGUSR1);
		got = ddp_should_stop(world);
		if (got || step == 100)
			break;
	}
	printf("rank %d: %d at step %d, then %d\n", rank, got, step,
	       ddp_should_stop(world));
	ddp_request_stop(NULL);
}

/* ---- spans, batch norm ---- */

static void spans(int root)
{
	static const size_t counts[] = {0, 3, 100, 20000, 7, 1, 300000, 9, 9};
	static const enum ddp_type types[] = {DDP_F32, DDP_I64, DDP_BF16,
					      DDP_F64, DDP_U8, DDP_F16,
					      DDP_F32, DDP_I8, DDP_F64};
	struct ddp_span s[200];
	size_t bytes;

	for (int i = 0; i < 200; i++) {
		s[i] = (struct ddp_span){NULL, counts[i % 9], types[i % 9]};
		if (i > 20 && s[i].count > 1000)
			s[i].count = 2000; /* many that go together */
		bytes = s[i].count * ddp_type_size(s[i].type);
		s[i].data = malloc(bytes + 1);
		memset(s[i].data, rank == root ? i : 255, bytes);
		((unsigned char *)s[i].data)[bytes] = 254; /* is not touched */
	}
	must(ddp_broadcast_spans(world, s, 200, root), "broadcast_spans");
	for (int i = 0; i < 200; i++) {
		const unsigned char *p = s[i].data;

		bytes = s[i].count * ddp_type_size(s[i].type);
		for (size_t k = 0; k < bytes; k++)
			if (p[k] != i)
				DIE("span %d, byte %zu is %d", i, k, p[k]);
		if (p[bytes] != 254)
			DIE("span %d: written behind its end", i);
		free(s[i].data);
	}
	if (ddp_broadcast_spans(world, s, -1, 0) != DDP_ERR_ARGUMENT ||
	    ddp_broadcast_spans(world, s, 1, size) != DDP_ERR_ARGUMENT)
		DIE("spans: bad arguments are taken");
}

/* Rank 0 and the others differ, in all but the sum of the bytes. */
static void differ(void)
{
	static const struct ddp_span root[] = {
		{NULL, 1000, DDP_F32}, {NULL, 3000, DDP_F32}};
	static const struct ddp_span other[][2] = {
		{{NULL, 3000, DDP_F32}, {NULL, 1000, DDP_F32}},
		{{NULL, 1000, DDP_I32}, {NULL, 3000, DDP_F32}},
		{{NULL, 500, DDP_F64}, {NULL, 3000, DDP_F32}}};
	static float a[3000], b[3000];

	for (int k = 0; k < 3; k++) {
		struct ddp_span s[2];
		int rc;

		memcpy(s, rank ? other[k] : root, sizeof(s));
		s[0].data = a;
		s[1].data = b;
		a[0] = b[0] = (float)rank;
		rc = ddp_broadcast_spans(world, s, 2, 0);
		if (rc != (rank ? DDP_ERR_ARGUMENT : 0) ||
		    a[0] != (float)rank || b[0] != (float)rank)
			DIE("case %d: %d, a has %g, b has %g", k, rc,
			    (double)a[0], (double)b[0]);
		must(ddp_barrier(world), "barrier");
	}
	printf("rank %d: ok; %s\n", rank, rank ? ddp_last_error() : "");
}

static int nothing(void *arg)
{
	(void)arg;
	return 0;
}

/* Collectives inside of a function are reported by the function's name. */
static void named(const char *call)
{
	float mean = 0, var = 1;
	uint64_t count = 1;
	const struct ddp_span span = {&mean, 1, DDP_F32};
	char part[64];
	int rc;

	if (!rank)
		rc = ddp_barrier(world);
	else if (!strcmp(call, "should_stop"))
		rc = ddp_should_stop(world);
	else if (!strcmp(call, "once"))
		rc = ddp_once(world, DDP_JOB, nothing, NULL);
	else if (!strcmp(call, "sync_batch_norm"))
		rc = ddp_sync_batch_norm(world, &mean, &var, 1, &count);
	else
		rc = ddp_check_replicas(world, &span, 1);
	snprintf(part, sizeof(part), " called %s #1", call);
	if (rc != DDP_ERR_ARGUMENT || !strstr(ddp_last_error(), part) ||
	    !strstr(ddp_last_error(), " called barrier #1"))
		DIE("%s: %d: %s", call, rc, ddp_last_error());
	printf("rank %d: ok\n", rank);
}

enum { CHANNELS = 5 };

/* Far from zero, where sums of squares would lose all precision. */
static double value(int r, int i, int channel)
{
	unsigned h = (unsigned)(r * 7919 + i * 104729 + channel * 31 + 1);

	h *= 2654435761u;
	return 1000.0 * channel + (h >> 8) * 0x1p-24 + r;
}

/* Rank r has r * r values a channel: rank 0 none. */
static void batch_norm(void)
{
	float mean[CHANNELS], var[CHANNELS], root[2 * CHANNELS];
	uint64_t count = (uint64_t)(rank * rank), all = 0;

	for (int r = 0; r < size; r++)
		all += (uint64_t)(r * r);
	for (int k = 0; k < CHANNELS; k++) {
		double m = 0, v = 0;

		for (int i = 0; i < rank * rank; i++)
			m += value(rank, i, k) / (rank * rank);
		for (int i = 0; i < rank * rank; i++)
			v += pow(value(rank, i, k) - m, 2) / (rank * rank);
		mean[k] = rank ? (float)m : NAN;
		var[k] = rank ? (float)v : NAN;
	}
	must(ddp_sync_batch_norm(world, mean, var, CHANNELS, &count), "norm");
	if (count != all)
		DIE("count %llu", (unsigned long long)count);
	memcpy(root, mean, sizeof(mean));
	memcpy(root + CHANNELS, var, sizeof(var));
	must(ddp_broadcast(world, root, 2 * CHANNELS, DDP_F32, 0), "root's");
	if (size > 1 && (memcmp(root, mean, sizeof(mean)) ||
			 memcmp(root + CHANNELS, var, sizeof(var))))
		DIE("batch norm: not the bits of rank 0");
	for (int k = 0; k < CHANNELS && all; k++) {
		double m = 0, v = 0;

		for (int r = 0; r < size; r++)
			for (int i = 0; i < r * r; i++)
				m += value(r, i, k) / (double)all;
		for (int r = 0; r < size; r++)
			for (int i = 0; i < r * r; i++)
				v += pow(value(r, i, k) - m, 2) / (double)all;
		/* the ranks' means are exact to f32 */
		if (fabs((double)mean[k] - m) > 1e-7 * m + 1e-6 ||
		    fabs((double)var[k] - v) > 2e-4 * v)
			DIE("channel %d: mean %g, not %g; var %g, not %g", k,
			    (double)mean[k], m, (double)var[k], v);
	}
	must(ddp_sync_batch_norm(world, NULL, NULL, 0, &count), "nothing");
	if (ddp_sync_batch_norm(world, NULL, var, 1, &count) !=
	    DDP_ERR_ARGUMENT)
		DIE("batch norm: bad arguments are taken");
}

int main(int argc, char **argv)
{
	struct ddp_options o = {.backend = "cpu"};
	const char *what = argc > 1 ? argv[1] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(what, "long"))
		o.timeout_ms = atoi(argv[2]);
	must(ddp_init(&world, &o), "init");
	rank = ddp_rank(world);
	size = ddp_world_size(world);
	if (!strcmp(what, "once") && argc == 4) {
		once(argv[2], argv[3]);
	} else if (!strcmp(what, "fail") && argc == 4) {
		fail(argv[2], argv[3]);
	} else if (!strcmp(what, "long") && argc == 3) {
		wait_long(argv[2]);
		printf("rank %d: ok\n", rank);
	} else if (!strcmp(what, "dies")) {
		outlive();
	} else if (!strcmp(what, "stop") && argc == 3) {
		stop(atoi(argv[2]), 0);
	} else if (!strcmp(what, "told") && argc == 3) {
		stop(atoi(argv[2]), 1);
	} else if (!strcmp(what, "named") && argc == 3) {
		named(argv[2]);
	} else if (!strcmp(what, "differ")) {
		differ();
	} else if (!strcmp(what, "values")) {
		for (int root = 0; root < size; root++)
			spans(root);
		batch_norm();
		must(ddp_barrier(world), "barrier");
		printf("rank %d: ok\n", rank);
	} else {
		return 2;
	}
	ddp_finalize(world);
	return 0;
}
