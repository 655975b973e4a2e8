/* c_misuse.c: the errors that libddp reports to a program that misuses it, and
 * that it continues after a failure. Prints "rank R: ok" or what was wrong.
 *
 * c_misuse arguments | first-error | freed | fork | threads | abort | leave |
 * late | big | quiet | missed | missed_many | roots | roots_gather |
 * roots_reduce | roots_scatter | roots_broadcast */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
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
	wants(ddp_all_reduce(world, data, data + 1, (size_t)1 << 36, DDP_U8,
			     DDP_SUM), bad, "too many");
	wants(ddp_all_reduce(world, data, data, 1, DDP_TYPES, DDP_SUM), bad,
	      "unknown type");
	wants(ddp_all_reduce(world, data, data, 1, DDP_F32, DDP_OPS), bad,
	      "unknown operation");
	wants(ddp_all_reduce(world, data, data, 1, DDP_F32, DDP_BAND), bad,
	      "need integers");
	wants(ddp_all_reduce(world, data, data + 1, 9, DDP_F32, DDP_SUM), bad,
	      "overlap");
	/* few enough bytes for the fast path */
	wants(ddp_all_reduce(world, data, data + 1, 2, DDP_F32, DDP_SUM), bad,
	      "overlap");
	wants(ddp_all_reduce(world, data + 1, data, 2, DDP_F32, DDP_SUM), bad,
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

/* Each thread waits for a message that its own rank has not sent, in a group of
 * its own. */
static void first_error(void)
{
	ddp_comm *group[3];
	ddp_request *r[3];

	for (int i = 0; i < 3; i++) {
		must(ddp_comm_split(world, 0, rank, &group[i]), "split");
		must(ddp_recv_async(group[i], data, 1, DDP_F32, rank, &r[i]),
		     "recv");
	}
	must(ddp_send(group[0], data, 1, DDP_F32, rank), "send");
	wants(ddp_wait_all(r, 3), DDP_ERR_ARGUMENT, "of group 2.0");
	if (r[0] || r[1] || r[2])
		DIE("a request is left");
	for (int i = 0; i < 3; i++)
		ddp_comm_free(group[i]);
}

static int never(void *arg)
{
	DIE("what runs once ran");
	return 0;
}

/* Each call on c fails with `code` and `part`. */
static void refused(ddp_comm *c, int code, const char *part)
{
	const struct ddp_span span = {data, 1, DDP_F32};
	const size_t counts[] = {1};
	ddp_comm *group = NULL;
	ddp_request *r = NULL;
	ddp_reducer *reducer;
	uint64_t count = 1;
	char id[128];

	wants(ddp_barrier(c), code, part);
	wants(ddp_all_reduce(c, data, data, 1, DDP_F32, DDP_SUM), code, part);
	wants(ddp_barrier_async(c, &r), code, part);
	wants(ddp_send(c, data, 1, DDP_F32, 0), code, part);
	wants(ddp_recv_async(c, data, 1, DDP_F32, 0, &r), code, part);
	wants(ddp_comm_split(c, 0, 0, &group), code, part);
	wants(ddp_abort(c, "no"), code, part);
	wants(ddp_progress_start(c, -1), code, part);
	wants(ddp_set_stream(c, NULL), code, part);
	wants(ddp_nccl_unique_id(c, id, sizeof(id)), code, part);
	wants(ddp_store_set(c, "a", "", 0), code, part);
	wants((int)ddp_store_get(c, "a", NULL, 0, -1), code, part);
	wants(ddp_reducer_new(&reducer, c, data, DDP_F32, counts, 1, NULL),
	      code, part);
	wants(ddp_broadcast_spans(c, &span, 1, 0), code, part);
	wants(ddp_sync_batch_norm(c, data, data + 1, 1, &count), code, part);
	wants(ddp_once(c, DDP_JOB, never, NULL), code, part);
	wants(ddp_once(c, DDP_HOST, never, NULL), code, part);
	wants(ddp_should_stop(c), code, part);
	if (r || group || reducer || ddp_nccl_comm(c))
		DIE("something was made");
}

static void freed(void)
{
	ddp_comm *group;

	must(ddp_comm_split(world, 0, rank, &group), "split");
	/* this call is for worlds */
	ddp_finalize(group);
	must(ddp_barrier(group), "barrier of the group");
	ddp_comm_free(group);
	refused(group, DDP_ERR_ARGUMENT, "was freed");
	ddp_request_stop(group);
	if (ddp_local_rank(group) != -1 || ddp_host_leader(group) != -1 ||
	    ddp_world_rank(group, 0) != -1 || ddp_warning(group)[0] ||
	    ddp_backend(group)[0])
		DIE("what was freed has a place");
	ddp_comm_free(group);
	ddp_finalize(group);
	/* and this call is for groups */
	ddp_comm_free(world);
	must(ddp_barrier(world), "barrier");
}

static void in_child(void)
{
	ddp_request *r;
	pid_t child;
	int status;

	must(ddp_barrier(world), "barrier");
	/* a message that has not arrived yet */
	must(ddp_recv_async(world, data, 1, DDP_F32, !rank, &r), "recv");
	child = fork();
	if (child == 0) {
		refused(world, DDP_ERR_CALLER, "forked from rank");
		wants(ddp_test(r), DDP_ERR_CALLER, "forked from rank");
		wants(ddp_wait_timeout(&r, 0), DDP_ERR_CALLER,
		      "forked from rank");
		ddp_finalize(world);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status)
		DIE("the child");
	/* the others ask about the late rank: they must not learn that it left,
	 * because only its child did */
	if (rank == 1)
		wants(ddp_wait_timeout(&r, 300), DDP_ERR_TIMEOUT,
		      "in progress");
	must(ddp_barrier(world), "barrier");
	must(ddp_send(world, data, 1, DDP_F32, !rank), "send");
	must(ddp_wait(&r), "wait");
	must(ddp_barrier(world), "barrier");
}

/* Repeats an invalid call until the other thread is in its call; then lets the
 * other ranks arrive. */
static void *ask(void *arg)
{
	int rc;

	do
		rc = ddp_all_reduce(world, NULL, NULL, 1, DDP_F32, DDP_SUM);
	while (rc == DDP_ERR_ARGUMENT);
	wants(rc, DDP_ERR_CALLER, "another thread is in barrier");
	must(ddp_store_set(world, "asked", "", 0), "store_set");
	return NULL;
}

static void *ask_once(void *arg)
{
	wants(ddp_barrier(world), DDP_ERR_CALLER,
	      "another thread is in progress_start");
	return arg;
}

/* libddp calls this while a thread starts the progress thread: another thread
 * makes a call. */
int eventfd(unsigned count, int flags)
{
	pthread_t other;

	if (world && (pthread_create(&other, NULL, ask_once, NULL) ||
		      pthread_join(other, NULL)))
		DIE("no thread");
	return (int)syscall(SYS_eventfd2, count, flags);
}

static void *call_in_turn(void *arg)
{
	(void)arg;
	must(ddp_all_reduce(world, data, data, 1, DDP_F32, DDP_MAX), "turn");
	return NULL;
}

static void threads(void)
{
	pthread_t other;
	int rc;

	/* one after the other they may use it */
	for (int i = 0; i < 100; i++) {
		if (pthread_create(&other, NULL, call_in_turn, NULL))
			DIE("no thread");
		pthread_join(other, NULL);
		call_in_turn(NULL);
	}

	if (rank == 0 && pthread_create(&other, NULL, ask, NULL))
		DIE("no thread");
	if (rank != 0 && ddp_store_get(world, "asked", NULL, 0, 60000) < 0)
		DIE("store_get");
	/* the other thread's call may be in the way */
	do
		rc = ddp_barrier(world);
	while (rc == DDP_ERR_CALLER);
	must(rc, "barrier");
	if (rank == 0)
		pthread_join(other, NULL);
	must(ddp_progress_start(world, -1), "progress_start");
}

/* All calls fail, requests are freed, and the process can join a new world. */
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

/* Requests outlive their group: those that had ended report success, the others
 * an error. One collective was not called by all ranks, so it cannot end. */
static void orphans(void)
{
	static float sent, got[3]; /* the collective has data */
	const char *freed = "its communicator was freed before it ended";
	ddp_request *r[2] = {NULL, NULL}, *own, *never, *of_world;
	ddp_comm *group;

	must(ddp_comm_split(world, 0, rank, &group), "split");
	if (rank != 0)
		must(ddp_all_reduce_async(group, data, data, 1000, DDP_F32,
					  DDP_SUM, &r[1]), "async");
	must(ddp_send(group, &sent, 1, DDP_F32, rank), "send");
	must(ddp_recv_async(group, &got[0], 1, DDP_F32, rank, &own), "recv");
	must(ddp_recv_async(group, &got[1], 1, DDP_F32, rank, &never), "recv");
	/* a message to itself: another rank could be gone before our barrier
	 * ends */
	must(ddp_recv_async(world, &got[2], 1, DDP_F32, rank, &of_world),
	     "recv");
	must(ddp_barrier(world), "barrier");
	ddp_comm_free(group);
	if (ddp_test(own) != 1)
		DIE("what had ended has not ended well");
	must(ddp_wait(&own), "wait");
	wants(ddp_test(never), DDP_ERR_ABORTED, freed);
	wants(ddp_wait_timeout(&never, 0), DDP_ERR_ABORTED, freed);
	if (rank != 0)
		wants(ddp_wait_all(r, 2), DDP_ERR_ABORTED, freed);
	if (own || never || r[1])
		DIE("a request is left");
	must(ddp_barrier(world), "barrier");
	ddp_finalize(world);
	wants(ddp_wait(&of_world), DDP_ERR_ABORTED, freed);
	must(ddp_init(&world, NULL), "ddp_init again");
}

/* A wait that times out before its operation, which continues. */
static void late(void)
{
	ddp_request *r;
	int rc;

	must(ddp_barrier(world), "barrier");
	if (rank == 0) {
		must(ddp_recv_async(world, data, 1, DDP_F32, 1, &r), "async");
		rc = ddp_wait_timeout(&r, 30);
		wants(rc, DDP_ERR_TIMEOUT, "still in progress after 30 ms");
		rc = ddp_wait_timeout(&r, 0);
		wants(rc, DDP_ERR_TIMEOUT, "still in progress after 0 ms");
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

/* A large address range on little memory: all of it but the end maps the same
 * FOLD bytes. */
enum { FOLD = 1 << 20 };
#define BIG (((size_t)1 << 32) + FOLD + 5) /* more than 32 bits count */

static unsigned char *map_folded(void)
{
	size_t end = BIG / FOLD * FOLD;
	int fd = memfd_create("folded", MFD_CLOEXEC);
	char *p = mmap(NULL, end + FOLD, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (fd < 0 || ftruncate(fd, FOLD) || p == MAP_FAILED)
		DIE("no memory");
	for (size_t at = 0; at < end; at += FOLD)
		if (mmap(p + at, FOLD, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd,
			 0) == MAP_FAILED)
			DIE("no memory");
	close(fd);
	return (unsigned char *)p;
}

/* Fills a fold, and the end, with their values times `factor`. */
static void fill(unsigned char *p, unsigned factor)
{
	for (size_t i = BIG - FOLD - 5; i < BIG; i++)
		p[i] = (unsigned char)(factor * (i % 83 + (i >= BIG - 5)));
}

static int is_filled(const unsigned char *p, const unsigned char *want,
		     unsigned factor)
{
	fill((unsigned char *)(uintptr_t)want, factor);
	return !memcmp(p, want, FOLD) &&
	       !memcmp(p + BIG - 5, want + BIG - 5, 5);
}

/* In place, and the greatest: however often the same bytes are reduced. */
static void big(void)
{
	unsigned char *a = map_folded(), *b = map_folded(), *c = map_folded();

	if (rank == 0)
		fill(a, 1);
	must(ddp_broadcast(world, a, BIG, DDP_U8, 0), "broadcast");
	if (!is_filled(a, c, 1))
		DIE("broadcast: wrong");
	fill(b, (unsigned)rank + 1);
	must(ddp_all_reduce(world, b, b, BIG, DDP_U8, DDP_MAX), "all_reduce");
	if (!is_filled(b, c, 2))
		DIE("all_reduce: wrong");
	if (rank == 0)
		must(ddp_send(world, b, BIG, DDP_U8, 1), "send");
	else
		must(ddp_recv(world, a, BIG, DDP_U8, 0), "recv");
	if (!is_filled(a, c, (unsigned)rank + 1))
		DIE("recv: wrong");
}

static long cpu_ms(int who)
{
	struct rusage u;

	getrusage(who, &u);
	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000 +
	       (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1000;
}

enum { COMPUTED_MS = 400 };

/* Computes for COMPUTED_MS of CPU time; returns how much of it all other
 * threads took meanwhile. */
static long others_ms(void)
{
	long all = cpu_ms(RUSAGE_SELF), mine = cpu_ms(RUSAGE_THREAD), took;

	do
		took = cpu_ms(RUSAGE_THREAD) - mine;
	while (took < COMPUTED_MS);
	return cpu_ms(RUSAGE_SELF) - all - took;
}

/* A progress thread leaves the CPU to the program, with nothing to do and while
 * a peer is late. */
static void quiet(void)
{
	ddp_request *r = NULL, *m = NULL;
	long idle, waiting;

	must(ddp_progress_start(world, -1), "progress_start");
	must(ddp_barrier(world), "barrier");
	idle = others_ms();
	must(ddp_barrier(world), "barrier");
	if (rank == 0) {
		must(ddp_recv_async(world, data, 1, DDP_F32, size - 1, &m),
		     "recv");
		must(ddp_barrier_async(world, &r), "barrier");
	}
	waiting = others_ms();
	if (rank == size - 1)
		must(ddp_send(world, data, 1, DDP_F32, 0), "send");
	must(rank == 0 ? ddp_wait(&r) : ddp_barrier(world), "barrier");
	must(ddp_wait(&m), "wait");
	printf("beside %d ms of computing the progress thread took %ld ms of "
	       "CPU when idle, %ld ms when waiting\n", COMPUTED_MS, idle,
	       waiting);
	if (idle > COMPUTED_MS / 10 || waiting > COMPUTED_MS / 10)
		DIE("the progress thread spins: %ld, %ld ms", idle, waiting);
}

/* Rank 0 makes n calls that the others do not make. */
static void miss(int n)
{
	float seed = 1;
	int rc = 0;

	for (int i = 0; i < n && rank == 0 && !rc; i++)
		rc = ddp_broadcast(world, &seed, 1, DDP_F32, 0);
	if (!rc)
		rc = ddp_broadcast(world, &seed, 1, DDP_F32, 0);
	if (!rc)
		rc = ddp_all_reduce(world, data, data, 10, DDP_F32, DDP_SUM);
	wants(rc, DDP_ERR_ARGUMENT, "rank 0 on ");
	wants(rc, DDP_ERR_ARGUMENT, " called broadcast #");
	wants(rc, DDP_ERR_ARGUMENT, " called all_reduce #");
}

static void missed(void)
{
	miss(4);
}

static void missed_many(void)
{
	miss(3000);
}

/* Each rank names itself as the root of a broadcast, so none of them waits. */
static void roots(void)
{
	float seed = (float)rank;
	int rc = ddp_broadcast(world, &seed, 1, DDP_F32, rank);

	if (!rc)
		rc = ddp_all_reduce(world, data, data, 10, DDP_F32, DDP_SUM);
	wants(rc, DDP_ERR_ARGUMENT, " called broadcast #1 (f32 x 1, root ");
	wants(rc, DDP_ERR_ARGUMENT, ", but rank ");
}

/* Each rank waits for the others as the root, or for the next rank as its root:
 * none sends. */
static void waiting_roots(int kind)
{
	static float in[3000], out[3 * 3000];
	const size_t n = 3000;
	const int next = (rank + 1) % size;
	int rc;

	switch (kind) {
	case 0:
		rc = ddp_gather(world, in, out, n, DDP_F32, rank);
		break;
	case 1:
		rc = ddp_reduce(world, in, out, n, DDP_F32, DDP_SUM, rank);
		break;
	case 2:
		rc = ddp_scatter(world, in, out, n, DDP_F32, next);
		break;
	default:
		rc = ddp_broadcast(world, in, n, DDP_F32, next);
	}
	wants(rc, DDP_ERR_ARGUMENT, " #1 (f32 x 3000");
	wants(rc, DDP_ERR_ARGUMENT, " called ");
	wants(rc, DDP_ERR_ARGUMENT, ", but rank ");
}

static void roots_gather(void) { waiting_roots(0); }
static void roots_reduce(void) { waiting_roots(1); }
static void roots_scatter(void) { waiting_roots(2); }
static void roots_broadcast(void) { waiting_roots(3); }

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {{"arguments", arguments}, {"freed", freed},
		     {"first-error", first_error},
		     {"fork", in_child},       {"threads", threads},
		     {"abort", abort_and_join}, {"leave", leave},
		     {"late", late},	       {"big", big},
		     {"orphans", orphans},     {"quiet", quiet},
		     {"missed", missed},       {"roots", roots},
		     {"missed_many", missed_many},
		     {"roots_gather", roots_gather},
		     {"roots_reduce", roots_reduce},
		     {"roots_scatter", roots_scatter},
		     {"roots_broadcast", roots_broadcast}};

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
