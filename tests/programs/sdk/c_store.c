/* c_store.c: the store calls, on every rank at once, with or without a server.
 * Prints "rank R: ok" or what was wrong. With `thread`: with a progress thread.
 * With `threads`: several threads of each rank use the store at once, each with
 * its own keys, which detects replies that reach another thread. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "worker-sdk/ddp.h"

#define EXPECT(what)                                                          \
	((what) ? (void)0                                                     \
		: (fprintf(stderr, "rank %d: not so: %s (%s)\n",              \
			   ddp_rank(c), #what, ddp_last_error()),             \
		   exit(1)))

enum { THREADS = 4, TURNS = 300 };

static ddp_comm *shared;

static void *use(void *arg)
{
	ddp_comm *c = shared;
	int me = *(int *)arg;
	char key[64], list[64], value[96], got[96];
	int64_t n;

	snprintf(key, sizeof(key), "turn/%d/%d", ddp_rank(c), me);
	snprintf(list, sizeof(list), "list/%d/%d", ddp_rank(c), me);
	for (int i = 1; i <= TURNS; i++) {
		EXPECT(ddp_store_add(c, key, me + 1, &n) == 0);
		EXPECT(n == (int64_t)i * (me + 1));
		snprintf(value, sizeof(value), "%d of %s", i, list);
		EXPECT(ddp_store_set(c, list, value, strlen(value)) == 0);
		memset(got, 0, sizeof(got));
		EXPECT(ddp_store_get(c, list, got, sizeof(got), 60000) ==
		       (int64_t)strlen(value));
		EXPECT(!strcmp(got, value));
	}
	return NULL;
}

static void use_together(ddp_comm *c)
{
	pthread_t thread[THREADS];
	int me[THREADS];

	shared = c;
	for (int i = 0; i < THREADS; i++) {
		me[i] = i;
		EXPECT(!pthread_create(&thread[i], NULL, use, &me[i]));
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

int main(int argc, char **argv)
{
	char key[64], got[16], *big = malloc((8 << 20) + 1);
	uint64_t start;
	ddp_comm *c;
	int64_t n;
	int rank, size;

	if (ddp_init(&c, NULL)) {
		fprintf(stderr, "%s\n", ddp_last_error());
		return 1;
	}
	if (argc > 1)
		EXPECT(ddp_progress_start(c, -1) == 0);
	if (argc > 1 && !strcmp(argv[1], "threads"))
		use_together(c);
	rank = ddp_rank(c);
	size = ddp_world_size(c);
	/* each sets its own, and waits for its neighbour's */
	snprintf(key, sizeof(key), "name/%d", rank);
	EXPECT(ddp_store_set(c, key, key, strlen(key)) == 0);
	snprintf(key, sizeof(key), "name/%d", (rank + 1) % size);
	EXPECT(ddp_store_get(c, key, got, sizeof(got), -1) ==
	       (int64_t)strlen(key));
	EXPECT(!memcmp(got, key, strlen(key)));
	/* copies what fits, returns the whole size */
	memset(got, 0, sizeof(got));
	EXPECT(ddp_store_get(c, key, got, 4, 0) == (int64_t)strlen(key));
	EXPECT(!strcmp(got, "name"));
	EXPECT(ddp_store_get(c, key, NULL, 0, 0) == (int64_t)strlen(key));
	/* numbers */
	EXPECT(ddp_store_add(c, "sum", rank + 1, &n) == 0 && n >= rank + 1);
	EXPECT(ddp_barrier(c) == 0);
	EXPECT(ddp_store_add(c, "sum", 0, &n) == 0);
	EXPECT(n == (int64_t)size * (size + 1) / 2);
	EXPECT(ddp_store_add(c, "sum", 0, NULL) == 0);
	EXPECT(ddp_store_set(c, "text", "x", 1) == 0);
	EXPECT(ddp_store_add(c, "text", 1, &n) == DDP_ERR_ARGUMENT);
	/* exactly one rank wins */
	snprintf(key, sizeof(key), "%d", rank);
	n = ddp_store_compare_set(c, "lock", NULL, 0, key, strlen(key));
	EXPECT(n == 0 || n == 1);
	EXPECT(ddp_store_add(c, "winners", n, NULL) == 0);
	EXPECT(ddp_barrier(c) == 0);
	EXPECT(ddp_store_add(c, "winners", 0, &n) == 0 && n == 1);
	EXPECT(ddp_store_compare_set(c, "none", "x", 1, "y", 1) == 0);
	EXPECT(ddp_store_get(c, "none", NULL, 0, 0) == DDP_ERR_TIMEOUT);
	/* append, delete */
	EXPECT(ddp_store_append(c, "log", "ab", 2) == 0);
	EXPECT(ddp_barrier(c) == 0);
	EXPECT(ddp_store_get(c, "log", NULL, 0, 0) == 2 * size);
	EXPECT(ddp_barrier(c) == 0);
	if (rank == 0)
		EXPECT(ddp_store_delete(c, "log") == 1);
	EXPECT(ddp_barrier(c) == 0);
	EXPECT(ddp_store_delete(c, "log") == 0);
	/* a key that is never set: the wait ends with its timeout */
	start = clock_ms();
	EXPECT(ddp_store_get(c, "never", got, 4, 200) == DDP_ERR_TIMEOUT);
	EXPECT(strstr(ddp_last_error(), "never"));
	EXPECT(clock_ms() - start < 10000);
	/* for ever is longer than some time */
	if (rank == 0) {
		EXPECT(ddp_store_get(c, "no", got, 4, 450) == DDP_ERR_TIMEOUT);
		EXPECT(ddp_store_set(c, "late", "x", 1) == 0);
	}
	EXPECT(ddp_store_get(c, "late", got, 4, -1) == 1);
	/* limits */
	memset(big, 'k', 9000);
	big[9000] = 0;
	EXPECT(ddp_store_set(c, big, "", 0) == DDP_ERR_ARGUMENT);
	EXPECT(ddp_store_set(c, "", "", 0) == DDP_ERR_ARGUMENT);
	EXPECT(ddp_store_set(c, "a", NULL, 1) == DDP_ERR_ARGUMENT);
	EXPECT(ddp_store_set(NULL, "a", "", 0) == DDP_ERR_ARGUMENT);
	EXPECT(ddp_store_set(c, "big", big, (8 << 20) + 1) ==
	       DDP_ERR_ARGUMENT);
	EXPECT(ddp_store_set(c, "big", big, 8 << 20) == 0);
	EXPECT(ddp_store_get(c, "big", NULL, 0, 0) == 8 << 20);
	EXPECT(ddp_store_set(c, "empty", NULL, 0) == 0);
	EXPECT(ddp_store_get(c, "empty", NULL, 0, 0) == 0);
	EXPECT(ddp_barrier(c) == 0);
	printf("rank %d: ok\n", rank);
	ddp_finalize(c);
	free(big);
	return 0;
}
