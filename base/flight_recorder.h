/* flight_recorder.h: a worker's last calls, in memory that its agent can read
 * after its death. libddp writes it without system calls; ddprun and the other
 * ranks of the host read copies of it.
 *
 * An agent has one file (a memfd) for the workers of a round: a head, then one
 * part for each. A worker may be killed in the middle of a write to its part,
 * or write garbage there: readers copy it first and trust nothing in it. */
#ifndef BASE_FLIGHT_RECORDER_H
#define BASE_FLIGHT_RECORDER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/error.h"

enum {
	FLIGHT_VERSION = 4,
	FLIGHT_ENTRIES = 256, /* a power of two */
	FLIGHT_COMMS = 64,
	FLIGHT_NAME_MAX = 264, /* a job's name has at most 256 bytes */
	FLIGHT_SERVER_MAX = 320,
	FLIGHT_KEY_MAX = 72,
	FLIGHT_GROUP_MAX = 40, /* a communicator's name */
	FLIGHT_TEXT_MAX = 256,
};

/* Numbered as in worker-sdk/core/call.c, which asserts it. */
enum flight_kind {
	FLIGHT_INIT,
	FLIGHT_ALL_REDUCE,
	FLIGHT_BROADCAST,
	FLIGHT_ALL_GATHER,
	FLIGHT_REDUCE_SCATTER,
	FLIGHT_BARRIER,
	FLIGHT_REDUCE,
	FLIGHT_GATHER,
	FLIGHT_SCATTER,
	FLIGHT_ALL_TO_ALL,
	FLIGHT_SEND,
	FLIGHT_RECV,
	FLIGHT_SPLIT,
	FLIGHT_REDUCER,
	FLIGHT_SHOULD_STOP,
	FLIGHT_ONCE,
	FLIGHT_BATCH_NORM,
	FLIGHT_PROGRESS,
	FLIGHT_ALL_GATHER_V,
	FLIGHT_REDUCE_SCATTER_V,
	FLIGHT_ALL_TO_ALL_V,
	FLIGHT_CHECK_REPLICAS,
	FLIGHT_WAIT_EVENT, /* its number is that of the last collective */
	FLIGHT_KINDS
};

enum flight_polls { FLIGHT_POLLS = 1, FLIGHT_NOTIFIED };
enum flight_state { FLIGHT_ENTERED = 1, FLIGHT_DONE, FLIGHT_FAILED };

/* ---- The memory ---- */

struct flight_entry {
	_Atomic uint64_t ticket; /* the call's; 0: being written */
	_Atomic uint64_t number; /* the call's in its communicator */
	_Atomic uint64_t word;	 /* the packed call: flight_pack */
	_Atomic uint64_t ns;	 /* when it was entered: flight_clock */
	_Atomic uint32_t comm;
	_Atomic uint32_t state;
	uint64_t unused[3]; /* fills the cache line */
};

struct flight_comm {
	_Atomic uint32_t size; /* 0: no communicator */
	_Atomic uint32_t id;
	_Atomic uint32_t rank; /* this worker's, in it */
	uint32_t counts; /* 1: its waits count below; older writers: 0 */
	char name[FLIGHT_GROUP_MAX];
	/* how long the program has been blocked in its collectives */
	_Atomic uint64_t waited_ns;
};

/* One worker's part. */
struct flight {
	_Atomic uint64_t magic; /* FLIGHT_MAGIC; 0: no writer yet */
	uint32_t version;
	uint32_t pid;
	uint32_t rank, world_size;
	/* Set by the agent: ddp_should_stop returns true. */
	_Atomic uint32_t stop;
	/* A worker that polls ddp_should_stop gets no signal: FLIGHT_POLLS, or
	 * FLIGHT_NOTIFIED once the call has returned true. */
	_Atomic uint32_t polls;
	_Atomic uint64_t step; /* that it reported last, plus 1; 0: none */
	struct flight_comm comms[FLIGHT_COMMS];
	_Alignas(64) _Atomic uint64_t head; /* the last ticket */
	/* How long the program has been blocked in collectives of all ranks;
	 * older writers leave it 0. */
	_Atomic uint64_t waited_ns;
	_Alignas(64) struct flight_entry ring[FLIGHT_ENTRIES];
};

struct flight_worker {
	int32_t pid; /* 0: not started */
	uint32_t unused;
};

/* The file's head, which only the agent writes. */
struct flight_file {
	uint64_t magic; /* FLIGHT_FILE_MAGIC */
	uint32_t version;
	uint32_t parts;
	uint64_t parts_at, part_size; /* whole pages */
	int32_t agent_pid;
	uint32_t round, attempt, base_rank, world_size, node_rank, nodes;
	/* in a copy on a disk, when it was made: CLOCK_MONOTONIC, seconds */
	uint32_t saved_s;
	char agent_id[32]; /* DDP_AGENT_ID */
	char job[FLIGHT_NAME_MAX], host[FLIGHT_NAME_MAX];
	char server[FLIGHT_SERVER_MAX]; /* host:port of the server, or "" */
	char job_key[FLIGHT_KEY_MAX];	/* DDP_JOB_KEY, for this user's tools */
	struct flight_worker workers[];
};

#define FLIGHT_MAGIC 0x6867696c66706464ull	/* "ddpfligh" */
#define FLIGHT_FILE_MAGIC 0x73656c6966706464ull /* "ddpfiles" */
#define FLIGHT_FILE_NAME "ddprun-recorder"	/* the memfd's name */

/* ---- The writer: one thread at a time for each part ---- */

typedef int flight_gettime(clockid_t clock, struct timespec *t);
/* clock_gettime; after flight_start the vDSO's function itself, because libc's
 * wrapper takes half of the time. */
extern flight_gettime *_Atomic flight_clock_gettime;

/* Monotonic; a few ms behind clock_ns, at a tenth of its cost. */
static inline uint64_t flight_clock(void)
{
	struct timespec t;

	atomic_load_explicit(&flight_clock_gettime,
			     memory_order_relaxed)(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Records that a call begins; does nothing if f is NULL. Returns the ticket for
 * flight_end, which another thread may call, but not during flight_begin. */
static inline uint64_t flight_begin(struct flight *f, uint32_t comm,
				    uint64_t number, uint64_t word)
{
	struct flight_entry *x;
	uint64_t ticket;

	if (!f)
		return 0;
	ticket = atomic_load_explicit(&f->head, memory_order_relaxed) + 1;
	x = &f->ring[ticket % FLIGHT_ENTRIES];
	/* plain stores on x86; readers see them in this order */
	atomic_store_explicit(&x->ticket, 0, memory_order_relaxed);
	atomic_store_explicit(&x->number, number, memory_order_release);
	atomic_store_explicit(&x->word, word, memory_order_release);
	atomic_store_explicit(&x->ns, flight_clock(), memory_order_release);
	atomic_store_explicit(&x->comm, comm, memory_order_release);
	atomic_store_explicit(&x->state, FLIGHT_ENTERED, memory_order_release);
	atomic_store_explicit(&x->ticket, ticket, memory_order_release);
	atomic_store_explicit(&f->head, ticket, memory_order_release);
	return ticket;
}

/* Records that the call with this ticket has returned rc; does nothing if a
 * later call has overwritten its entry, or the ticket is 0. */
static inline void flight_end(struct flight *f, uint64_t ticket, int rc)
{
	struct flight_entry *x;

	if (!f || !ticket)
		return;
	x = &f->ring[ticket % FLIGHT_ENTRIES];
	if (atomic_load_explicit(&x->ticket, memory_order_relaxed) == ticket)
		atomic_store_explicit(&x->state,
				      rc ? FLIGHT_FAILED : FLIGHT_DONE,
				      memory_order_release);
}

/* Counts ns as a wait for the other ranks of a communicator, in the counter
 * that flight_comm_add returned. */
static inline void flight_add_wait_ns(_Atomic uint64_t *waited_ns, uint64_t ns)
{
	atomic_store_explicit(
		waited_ns,
		atomic_load_explicit(waited_ns, memory_order_relaxed) + ns,
		memory_order_relaxed);
}

/* The same for the time since from_ns (flight_clock). The clock moves once in a
 * few ms, which evens out over many waits. */
static inline void flight_add_wait(_Atomic uint64_t *waited_ns,
				   uint64_t from_ns)
{
	flight_add_wait_ns(waited_ns, flight_clock() - from_ns);
}

/* When the call with this ticket was entered; it is this thread's last. */
static inline uint64_t flight_entered_ns(const struct flight *f,
					 uint64_t ticket)
{
	return atomic_load_explicit(&f->ring[ticket % FLIGHT_ENTRIES].ns,
				    memory_order_relaxed);
}

/* Records that this step of the program is done. f may be NULL. */
static inline void flight_step(struct flight *f, uint64_t step)
{
	if (f)
		atomic_store_explicit(&f->step, step + 1,
				      memory_order_relaxed);
}

/* 1 once the agent has asked the job to stop. f may be NULL. */
static inline int flight_stop(const struct flight *f)
{
	return f && atomic_load_explicit(&f->stop, memory_order_relaxed) == 1;
}

/* Records that the worker polls for a stop, and whether the answer was yes. f
 * may be NULL. */
static inline void flight_poll_stop(struct flight *f, int stop)
{
	if (f && stop)
		atomic_store_explicit(&f->polls, FLIGHT_NOTIFIED,
				      memory_order_relaxed);
	/* once; ordered before the read of stop that follows */
	else if (f && !atomic_load_explicit(&f->polls, memory_order_relaxed))
		atomic_store(&f->polls, FLIGHT_POLLS);
}

/* Makes this process the writer of f: empties it, but keeps stop. */
void flight_start(struct flight *f, uint32_t rank, uint32_t world_size);

/* The id of the communicator with this name, the same on all its ranks; 0 for
 * the world, whose name is "". */
uint32_t flight_comm_id(const char *name);
/* Records a new communicator, its size and this worker's rank in it; and that
 * it was freed. At most FLIGHT_COMMS are recorded. f may be NULL. Returns the
 * counter of the waits in its collectives: shared, which is that of another
 * communicator of the same ranks, or, if that is NULL, its own; NULL: they are
 * not counted. */
_Atomic uint64_t *flight_comm_add(struct flight *f, const char *name,
				  uint32_t size, uint32_t rank,
				  _Atomic uint64_t *shared);
void flight_comm_remove(struct flight *f, uint32_t id);

/* ---- Calls as text ---- */

struct flight_call {
	unsigned kind, type, op;
	int root;		/* or the peer */
	uint64_t count, number; /* number 0: unknown */
	const char *group;	/* its name; NULL: the world */
};

enum {
	FLIGHT_CALL_MAX = 144,
	FLIGHT_TYPES = 8,
	FLIGHT_OPS = 7,
	FLIGHT_ROOT_BITS = 20,
	FLIGHT_COUNT_BITS = 33
};
/* Larger counts are packed as this one. */
#define FLIGHT_COUNT_MOST (((uint64_t)1 << FLIGHT_COUNT_BITS) - 1)
#define FLIGHT_ROOT_MOST ((1 << FLIGHT_ROOT_BITS) - 1)

/* Packs all but number and group: kind + 1 in 5 bits, type in 3, op in 3, root
 * in 20, count in 33. The result is never 0. */
static inline uint64_t flight_pack(const struct flight_call *c)
{
	uint64_t count =
		c->count < FLIGHT_COUNT_MOST ? c->count : FLIGHT_COUNT_MOST;

	return (uint64_t)(c->kind + 1) << 59 | (uint64_t)(c->type & 7) << 56 |
	       (uint64_t)(c->op & 7) << 53 |
	       (uint64_t)(c->root & FLIGHT_ROOT_MOST) << FLIGHT_COUNT_BITS |
	       count;
}
void flight_unpack(struct flight_call *c, uint64_t word, uint64_t number);

/* "all_reduce #12 (f32 x 39760, sum) of group 1.0", or "of reducer 1" if the
 * group's name is "r1", into out[FLIGHT_CALL_MAX]; returns out. */
char *flight_call_text(const struct flight_call *c, char *out);
/* Whether all ranks of the communicator take part. */
int flight_is_collective(unsigned kind);

/* ---- The reader: on copies only ---- */

struct flight_op {
	struct flight_call call;
	uint64_t ticket, ns;
	uint32_t comm;
	enum flight_state state;
};

struct flight_view {
	uint32_t pid, rank, world_size;
	uint64_t step; /* that it reported last, plus 1; 0: none */
	uint64_t waited_ns;
	int ncomms;
	struct {
		uint32_t id, size, rank;
		char name[FLIGHT_GROUP_MAX];
		int counts;
		uint64_t waited_ns;
	} comms[FLIGHT_COMMS];
	int n; /* oldest first */
	struct flight_op ops[FLIGHT_ENTRIES];
};

/* Reads a copy of a part. 0; 1 if no worker has written to it; ERR_DATA if it
 * is not a part, or of another version. */
int flight_read(struct flight_view *v, const struct flight *f);

/* Copies a part out of its file and reads it, without the entries that were
 * being written meanwhile. Returns as flight_read, or -errno. */
int flight_read_at(struct flight_view *v, int fd, uint64_t at);

/* Reads an open file's head. 0, or ERR_DATA if it has none. */
int flight_file_read(struct flight_file *head, int fd);
/* Fills in the sizes in the head of a file with this many parts. Returns the
 * head's own size, in whole pages. */
size_t flight_file_layout(struct flight_file *head, uint32_t parts);
static inline uint64_t flight_part_at(const struct flight_file *head,
				      uint32_t part)
{
	return head->parts_at + part * head->part_size;
}

/* The call with its group, into out[FLIGHT_CALL_MAX]; returns out. */
char *flight_op_text(const struct flight_view *v, const struct flight_op *op,
		     char *out);

/* The oldest call that has not returned, or NULL. */
const struct flight_op *flight_oldest_open(const struct flight_view *v);

/* "all_reduce #12 (f32 x 3, sum), entered 0.8 s earlier", "between calls; last:
 * barrier #11, entered 2.0 s earlier", or "" if there was no call, into
 * out[FLIGHT_TEXT_MAX]; returns out. "Earlier" is before now_ns (clock_ns). */
char *flight_last_text(const struct flight_view *v, uint64_t now_ns, char *out);
/* The same for ranks that wait for it: "last seen entering barrier #11". */
char *flight_seen_text(const struct flight_view *v, char *out);
/* The time between the two, "0.8 s" or "35 s"; returns out[16]. */
char *flight_time_text(uint64_t from_ns, uint64_t to_ns, char *out);

#endif
