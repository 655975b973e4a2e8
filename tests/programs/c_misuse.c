/* c_misuse.c: what libddp says to a program that uses it wrongly, and that it
 * goes on after a failure. Prints "rank R: ok" or what was wrong.
 *
 *   c_misuse arguments | freed | fork | threads | abort | leave | late | big |
 *            quiet
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "worker-sdk/ddp.h"

static ddp_comm *world;
static int rank, size;
static float data[1000];

#define DIE(...)                                                              \
	(fprintf(stderr, "rank %d: ", rank), fprintf(stderr, __VA_ARGS__),    \
	 fprintf(stderr, ": %s\n", ddp_last_error()), exit(1))

static void must(int rc, const char *what)
{
	if (rc)
		DIE("%s: %d", what, rc);
}

/* rc is `code`, and the text has `part`. */
static void wants(int rc, int code, const char *part)
{
	if (rc != code || !strstr(ddp_last_error(), part))
		DIE("%d, not %d with '%s'", rc, code, part);
}

static void arguments(void)
{
	const int bad = DDP_ERR_ARGUMENT;
	ddp_request *r = NULL;

	wants(ddp_barrier(NULL), bad, "communicator is NULL");
	wants(ddp_all_reduce(world, NULL, data, 1, DDP_F32, DDP_SUM), bad,
	      "NULL");
	wants(ddp_all_reduce(world, data, data, (size_t)-1, DDP_F32, DDP_SUM),
	      bad, "too many");
	wants(ddp_all_reduce(world, data, data, 1, DDP_TYPES, DDP_SUM), bad,
	      "unknown type");
	wants(ddp_all_reduce(world, data, data, 1, DDP_F32, DDP_OPS), bad,
	      "unknown operation");
	wants(ddp_all_reduce(world, data, data, 1, DDP_F32, DDP_BAND), bad,
	      "integers only");
	wants(ddp_all_reduce(world, data, data + 1, 9, DDP_F32, DDP_SUM), bad,
	      "overlap");
	wants(ddp_broadcast(world, data, 1, DDP_F32, size), bad,
	      "no such root");
	wants(ddp_reduce(world, data, data + 9, 1, DDP_F32, DDP_SUM, -1), bad,
	      "no such root");
	wants(ddp_send(world, data, 1, DDP_F32, size), bad, "no such rank");
	wants(ddp_recv(world, data, 1, DDP_F32, rank), bad, "wait for ever");
	wants(ddp_barrier_async(world, NULL), bad, "request is NULL");
	wants(ddp_test(NULL), bad, "request is NULL");
	wants(ddp_wait(NULL), bad, "request is NULL");
	must(ddp_wait(&r), "wait for nothing");
	wants(ddp_wait_all(NULL, 1), bad, "1 requests");
	wants(ddp_comm_split(world, 0, 0, NULL), bad, "group is NULL");
}

static void freed(void)
{
	ddp_comm *group;

	must(ddp_comm_split(world, 0, rank, &group), "split");
	ddp_comm_free(group);
	wants(ddp_barrier(group), DDP_ERR_ARGUMENT, "was freed");
	wants(ddp_store_set(group, "a", "", 0), DDP_ERR_ARGUMENT, "was freed");
	if (ddp_local_rank(group) != -1)
		DIE("what was freed has a local rank");
	ddp_comm_free(group);
	must(ddp_barrier(world), "barrier");
}

static void in_child(void)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		wants(ddp_barrier(world), DDP_ERR_USAGE, "forked off rank");
		wants(ddp_store_set(world, "a", "", 0), DDP_ERR_USAGE,
		      "forked off rank");
		ddp_finalize(world);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status)
		DIE("the child");
	must(ddp_barrier(world), "barrier");
}

/* Asks, with a call that is wrong in itself, until the other thread is in its
 * own; then lets the other ranks come. */
static void *ask(void *arg)
{
	int rc;

	do
		rc = ddp_all_reduce(world, NULL, NULL, 1, DDP_F32, DDP_SUM);
	while (rc == DDP_ERR_ARGUMENT);
	wants(rc, DDP_ERR_USAGE, "another thread is in barrier #1");
	must(ddp_store_set(world, "asked", "", 0), "store_set");
	return NULL;
}

static void threads(void)
{
	pthread_t other;
	int rc;

	if (rank == 0 && pthread_create(&other, NULL, ask, NULL))
		DIE("no thread");
	if (rank != 0 && ddp_store_get(world, "asked", NULL, 0, 60000) < 0)
		DIE("store_get");
	/* what the other asks may be in the way */
	do
		rc = ddp_barrier(world);
	while (rc == DDP_ERR_USAGE);
	must(rc, "barrier");
	if (rank == 0)
		pthread_join(other, NULL);
}

/* All fail, requests are freed, and a new world is there afterwards. */
static void abort_and_join(void)
{
	ddp_request *r[2] = {NULL, NULL};
	int rc;

	/* rank 0 may stop it before, between and after the others' calls */
	ddp_all_reduce_async(world, data, data, 1000, DDP_F32, DDP_SUM, &r[0]);
	ddp_barrier_async(world, &r[1]);
	if (rank == 0)
		must(ddp_abort(world, "the test wants it"), "abort");
	rc = ddp_wait_all(r, 2);
	if (rc == 0) /* it was done, or could not begin */
		rc = ddp_barrier(world);
	wants(rc, DDP_ERR_ABORTED, "called ddp_abort: the test wants it");
	if (r[0] || r[1])
		DIE("a request is left");
	ddp_finalize(world);
	must(ddp_init(&world, NULL), "ddp_init again");
	must(ddp_all_reduce(world, data, data, 1000, DDP_F32, DDP_SUM),
	     "all_reduce");
	ddp_finalize(world);
	must(ddp_init(&world, NULL), "ddp_init once more");
	must(ddp_barrier(world), "barrier");
}

/* Requests that are never waited for. */
static void leave(void)
{
	ddp_request *r, *m;

	must(ddp_barrier(world), "barrier");
	must(ddp_recv_async(world, data, 1000, DDP_F32, (rank + 1) % size, &m),
	     "async");
	must(ddp_recv_async(world, data, 1, DDP_F32, rank, &r), "async");
}

/* A wait that is over before its operation, which goes on. */
static void late(void)
{
	ddp_request *r;
	int rc;

	must(ddp_barrier(world), "barrier");
	if (rank == 0) {
		must(ddp_recv_async(world, data, 1, DDP_F32, 1, &r), "async");
		rc = ddp_wait_timeout(&r, 30);
		wants(rc, DDP_ERR_TIMEOUT, "still under way after 30 ms");
		rc = ddp_wait_timeout(&r, 0);
		wants(rc, DDP_ERR_TIMEOUT, "still under way after 0 ms");
		if (!r || ddp_test(r))
			DIE("the request is not there any more");
		must(ddp_send(world, data, 1, DDP_F32, 1), "send");
		must(ddp_wait_timeout(&r, -1), "wait");
	} else if (rank == 1) {
		must(ddp_recv(world, data, 1, DDP_F32, 0), "recv");
		must(ddp_send(world, data, 1, DDP_F32, 0), "send");
	}
	must(ddp_barrier(world), "barrier");
}

/* More than 2^31 elements: what is in them says where it came from. */
static void big(void)
{
	const size_t count = ((size_t)1 << 31) + 5;
	const size_t at[] = {0, 1, count / 3, count - 6, count - 5, count - 1};
	const int n = sizeof(at) / sizeof(*at);
	unsigned char *buf = calloc(count, 1);

	if (!buf)
		DIE("no memory");
	for (int i = 0; i < n && rank == 0; i++)
		buf[at[i]] = (unsigned char)(i + 1);
	must(ddp_broadcast(world, buf, count, DDP_U8, 0), "broadcast");
	for (int i = 0; i < n; i++)
		if (buf[at[i]] != i + 1)
			DIE("broadcast: %d at %zu", buf[at[i]], at[i]);
	must(ddp_all_reduce(world, buf, buf, count, DDP_U8, DDP_SUM),
	     "all_reduce");
	for (int i = 0; i < n; i++)
		if (buf[at[i]] != size * (i + 1))
			DIE("all_reduce: %d at %zu", buf[at[i]], at[i]);
	if (rank == 0)
		must(ddp_send(world, buf, count, DDP_U8, 1), "send");
	else if (rank == 1)
		must(ddp_recv(world, buf, count, DDP_U8, 0), "recv");
	if (buf[count - 1] != size * n || buf[count - 2])
		DIE("recv: %d at the end", buf[count - 1]);
	free(buf);
}

/* CPU time of all threads but this one, in ms. */
static long others_ms(void)
{
	struct rusage all, mine;

	getrusage(RUSAGE_SELF, &all);
	getrusage(RUSAGE_THREAD, &mine);
	return (all.ru_utime.tv_sec + all.ru_stime.tv_sec -
		mine.ru_utime.tv_sec - mine.ru_stime.tv_sec) * 1000 +
	       (all.ru_utime.tv_usec + all.ru_stime.tv_usec -
		mine.ru_utime.tv_usec - mine.ru_stime.tv_usec) / 1000;
}

/* A progress thread sleeps, with nothing to do and while a peer is late. */
static void quiet(void)
{
	const struct timespec second = {1, 0};
	ddp_request *r = NULL, *m = NULL;
	long before, idle, waiting;

	must(ddp_progress_start(world, -1), "progress_start");
	must(ddp_barrier(world), "barrier");
	before = others_ms();
	nanosleep(&second, NULL);
	idle = others_ms() - before;
	must(ddp_barrier(world), "barrier");
	if (rank == 0) {
		must(ddp_recv_async(world, data, 1, DDP_F32, size - 1, &m),
		     "recv");
		must(ddp_barrier_async(world, &r), "barrier");
	}
	before = others_ms();
	nanosleep(&second, NULL);
	waiting = others_ms() - before;
	if (rank == size - 1)
		must(ddp_send(world, data, 1, DDP_F32, 0), "send");
	must(rank == 0 ? ddp_wait(&r) : ddp_barrier(world), "barrier");
	must(ddp_wait(&m), "wait");
	printf("in 1 s the progress thread took %ld ms of CPU when idle, "
	       "%ld ms when waiting\n", idle, waiting);
	if (idle > 500 || waiting > 500)
		DIE("the progress thread spins: %ld, %ld ms", idle, waiting);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {{"arguments", arguments}, {"freed", freed},
		     {"fork", in_child},       {"threads", threads},
		     {"abort", abort_and_join}, {"leave", leave},
		     {"late", late},	       {"big", big},
		     {"quiet", quiet}};

	must(ddp_init(&world, NULL), "ddp_init");
	rank = ddp_rank(world);
	size = ddp_world_size(world);
	if (argc > 2 && !strcmp(argv[2], "thread"))
		must(ddp_progress_start(world, -1), "progress_start");
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
		if (!strcmp(argv[1], modes[i].name))
			modes[i].run();
	printf("rank %d: ok\n", rank);
	fflush(stdout);
	ddp_finalize(world);
	return 0;
}
