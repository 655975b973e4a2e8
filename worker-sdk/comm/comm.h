/* comm.h: the world, which a process joins once, and its communicators: groups
 * of its ranks, each with a backend that moves their data. The public calls
 * check their arguments and go through one struct of function pointers;
 * everything below knows no public API.
 *
 * For tests only, read in ddp_init:
 *   DDP_TEST_HOSTS=K   this machine's ranks count as K hosts, in equal runs;
 *                      =Ki: dealt in turn, so that hosts' ranks interleave
 *   DDP_TEST_SHM=fail  shared memory cannot be attached: ranks fall back to TCP
 *   DDP_TEST_SHARE=1   ranks relay gathered values, however few ranks there are
 *   DDP_TEST_VERSION=x this rank claims to be that version of libddp */
#ifndef SDK_COMM_H
#define SDK_COMM_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/flight_recorder.h"
#include "worker-sdk/core/call.h"
#include "worker-sdk/core/env.h"
#include "worker-sdk/core/peers.h"
#include "worker-sdk/core/topology.h"
#include "worker-sdk/kv/kv.h"

struct ddp__engine;

/* Shared by the communicators of a process. */
struct ddp__world {
	struct ddp__env env;
	pid_t pid;	/* the process that called ddp_init; a forked child is
			 * not the rank */
	unsigned forks; /* ddp__forks at that time; another number means another
			 * process */
	unsigned joined; /* worlds that this process was in before this one */
	int timeout_ms; /* < 0: no limit */
	char host[256]; /* this host's name */
	char warning[ERR_TEXT_MAX + 512]; /* ddp_warning's */
	struct ddp__kv *kv;
	pthread_mutex_t kv_lock; /* store.c's */
	_Atomic int kv_wanted;	 /* threads that wait for kv_lock to borrow the
				  * store */
	char **hosts; /* the host name of each rank, once the ranks have met */
	struct ddp_comm *comms; /* all of them, the world last */
	/* For call_guard.h, which detects two threads in one world: the call
	 * that a thread is in, or 0; the last thread that was in a call; the
	 * call of another thread that is about to take its place. */
	_Atomic uint64_t user, user_number;
	_Atomic uintptr_t thread;
	_Atomic uint64_t other;
	struct flight *flight; /* the flight recorder; NULL: off */
	int flight_fd;	       /* the recorder's file if there is no agent, or
				* -1 */
	struct ddp__engine *engine; /* the cpu backend's; else NULL */
	struct ddp__detector *detector; /* detects deadlocks; or NULL */
	const char *wish; /* "cpu", "nccl" or "auto": the program's choice;
			   * static */
	int is_ending;	  /* ddp_finalize frees its communicators */
	atomic_int stop; /* set by ddp_request_stop, also from a signal
			  * handler */
};

/* How the ranks of a new communicator exchange data: mine is this rank's value,
 * values[i] rank i's, valid until the next exchange. The world uses the store,
 * a group the communicator that it is split from. what names the exchange
 * ("init"). */
struct ddp__exchange {
	void *owner;
	int (*gather)(void *owner, const char *what, struct slice mine,
		      struct slice *values, struct err *e);
};

struct ddp_request;

/* A backend's functions. Their arguments have been checked, and only one thread
 * at a time, the program's, calls them. A buffer that this rank does not need
 * may be NULL; broadcast and send pass their data in send, broadcast and recv
 * in recv. After an error of run, test or wait, only release, abort and stop
 * are called on the communicator. */
struct ddp__backend {
	const char *name;
	/* Also serves communicators of one rank; otherwise collective.c
	 * copies. */
	int serves_one;
	size_t op_size; /* bytes at r->op of each request */
	/* The ranks of c meet. On failure nothing is left; on success stop
	 * frees c->state. */
	int (*start)(struct ddp_comm *c, const struct ddp__exchange *x,
		     struct err *e);
	/* Called on every rank of parent; group is NULL if color < 0. As start:
	 * sets group->state. NULL: start(group) is called instead, if there is
	 * a group. */
	int (*split)(struct ddp_comm *parent, struct ddp_comm *group, int color,
		     int key, const struct ddp__exchange *x, struct err *e);
	/* Forgets requests that are still under way: their memory is not
	 * touched afterwards. */
	void (*stop)(struct ddp_comm *c);
	/* Ends all operations under way on c, and tells the ranks that wait for
	 * this one the reason. Returns at once. */
	void (*abort)(struct ddp_comm *c, const struct err *why);
	/* Runs call, of any kind, and returns when it is done. */
	int (*run)(struct ddp_comm *c, const struct ddp__call *call,
		   const void *send, void *recv, struct err *e);
	/* Begins r->call, which follows the calls begun before it. After an
	 * error the backend keeps nothing of r. */
	int (*begin)(struct ddp_request *r, struct err *e);
	/* 1: ended well; 0: not yet; < 0: failed, then and every later time. */
	int (*test)(struct ddp_request *r, struct err *e);
	/* As test, but waits up to timeout_ms for the end; < 0: no limit. */
	int (*wait)(struct ddp_request *r, int timeout_ms, struct err *e);
	/* r has ended, or was never begun: frees its op. NULL: nothing to
	 * do. */
	void (*release)(struct ddp_request *r);
	/* Gathers every rank's size bytes, in rank order, into all. Both
	 * buffers are in host memory, whatever the backend: groups meet through
	 * it. */
	int (*gather)(struct ddp_comm *c, const struct ddp__call *call,
		      const void *mine, void *all, size_t size, struct err *e);
	/* Picks the communicator that serves the call, by where its buffers
	 * lie: sets *c, or returns an error, which does not break the
	 * communicator. NULL: this communicator serves all calls. The type and
	 * operation may be unknown values. */
	int (*home)(struct ddp_comm **c, const struct ddp__call *call,
		    const void *send, const void *recv, struct err *e);
	/* Sets how long later calls wait, < 0: no limit. NULL: not
	 * supported. */
	void (*set_timeout)(struct ddp_comm *c, int timeout_ms);
	/* ddp_progress_start; NULL: the backend needs no help to progress. */
	int (*progress)(struct ddp_comm *world, int cpu, struct err *e);
};

extern const struct ddp__backend ddp__cpu;

enum { DDP__GROUP_NAME = 40 };
#define DDP__ALIVE 0x61646470636f6d6dull

struct ddp_comm {
	uint64_t magic; /* DDP__ALIVE until it is freed */
	struct ddp__world *world;
	struct ddp_comm *next; /* in world->comms */
	int rank, size;	       /* in this communicator */
	int *ranks; /* each rank's world rank; NULL: the ranks are the same */
	/* "1.0": color 0 of the world's first split; "1.0/2.3": color 3 of the
	 * second split of "1.0"; "r1": the world's first reducer. "": the
	 * world. */
	char name[DDP__GROUP_NAME];
	uint32_t id; /* the name's number in the flight recorder */
	/* where the recorder counts waits in its collectives; NULL: nowhere */
	_Atomic uint64_t *waited_ns;
	unsigned splits, reducers; /* made from this communicator so far */
	/* The pointer to it in its owner inside libddp, set to NULL when it is
	 * freed; or NULL. */
	struct ddp_comm **kept_at;
	struct ddp__topology topology;
	struct ddp__peers peers; /* names this communicator's ranks */
	const struct ddp__backend *backend;
	void *state;	/* the backend's; NULL: a communicator of one rank */
	int has_fastpath; /* all its ranks share memory, for cpu_fastpath.h */
	uint64_t calls; /* collectives so far */
	uint64_t *messages; /* to each rank, then from each; or NULL */
	struct ddp__letter *letters;  /* self_messages.c's */
	struct ddp_request *requests; /* all that the program has not waited for
				       * yet */
	struct err broken; /* code 0, or the reason why no call works any
			    * more */
};

/* Makes an otherwise empty communicator in this world's list; NULL: no
 * memory. */
struct ddp_comm *ddp__comm_new(struct ddp__world *w);
/* Stops its backend, ends its requests and frees it. For a while its memory
 * stays, marked as freed, so that a later use is reported. */
void ddp__comm_free(struct ddp_comm *c);

/* ---- store.c ----
 *
 * The world's store, used by one thread at a time: the program's, in a store
 * call, or its progress thread, which asks why a rank left. Where no progress
 * thread can exist (in ddp_init, on nccl) world->kv is used directly. */

/* For the program: waits for the progress thread's short question. Copy the
 * data that kv returns before you give the store back. */
struct ddp__kv *ddp__store_lock(struct ddp__world *w);
/* For the progress thread: NULL if the store is not free within ms. */
struct ddp__kv *ddp__store_lock_within(struct ddp__world *w, int ms);
void ddp__store_unlock(struct ddp__world *w);

#endif
