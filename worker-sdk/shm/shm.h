/* shm.h: the ranks of one host and the memory that they share: a segment
 * without a name (memfd), a step counter for each rank, and waits for other
 * ranks. Knows nothing of types or sockets; shm_collective.c moves data with
 * it. */
#ifndef SDK_SHM_H
#define SDK_SHM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "worker-sdk/core/call.h"
#include "worker-sdk/core/key.h"
#include "worker-sdk/core/peers.h"
#include "worker-sdk/math/copy.h"

/* Each rank's slot has two halves of input and two of output, used in turn: a
 * rank that posts step k+1 has read what the others posted for step k. */
enum {
	DDP__SHM_VERSION = 7,
	DDP__SHM_CONTROL = 4096,
	DDP__SHM_IN = 1 << 20,
	DDP__SHM_OUT = 512 << 10,
	DDP__SHM_TINY = 16,	   /* bytes that travel with the step counter */
	DDP__SHM_CELLS = 1024,	   /* cells of each rank, for small
				    * broadcasts */
	DDP__SHM_CELL = 48,	   /* bytes that a cell holds at most */
	DDP__SHM_BOARD = 16 << 10, /* bytes of each rank's board */
	DDP__SHM_BOARD_AT = DDP__SHM_CONTROL + 64 * DDP__SHM_CELLS,
	DDP__SHM_HEAD = DDP__SHM_BOARD_AT + DDP__SHM_BOARD,
	DDP__SHM_CPUS = 1024,
	DDP__BELL = 16,
	/* How much longer the ranks of a host wait for a rank that is away.
	 * They wait longer than that rank does itself (DDP__TCP_GRACE_MS),
	 * because its error says more. */
	DDP__SHM_GRACE_MS = 2000
};

/* The call for which a rank posts a step, in full; the others read it when
 * their marks differ. */
struct ddp__shm_full_call {
	uint64_t word, number, before;
};

/* A rank's control words. The words that a peer reads on the fast path share
 * one cache line. */
struct ddp__shm_control {
	_Alignas(64) _Atomic uint32_t step; /* a futex; wraps */
	_Atomic uint32_t sleepers;          /* on step */
	_Atomic uint32_t cpu;               /* CPU on which the rank ran when it
					     * posted */
	_Atomic uint32_t given; /* a futex: number of cells given so far */
	uint64_t call[2]; /* for a call's first step: ddp__call_mark */
	unsigned char tiny[2][DDP__SHM_TINY];
	/* The call that the rank entered last, for the errors of ranks that
	 * miss it. The number is 0 while the two are being
	 * written. */
	_Alignas(64) _Atomic uint64_t last;
	_Atomic uint64_t last_number;
	struct ddp__shm_full_call full[2]; /* for a first step, as call */
	_Alignas(64) int64_t pid;
	uint64_t start_time;   /* tells apart processes that reuse a pid */
	_Atomic uint32_t left;	/* ddp_finalize was called */
	_Atomic uint32_t armed; /* the next poster rings its bell, once */
	_Atomic uint32_t dozing; /* a futex: the rank sleeps for a message */
	_Atomic uint32_t away;	 /* it waits for another host, on behalf of its
				  * own */
	uint64_t probe_at; /* address of the segment's cookie in its memory */
};

/* Data from one rank for all others, which read it without posting. */
struct ddp__shm_cell {
	/* ddp__shm_stamp: its place among all ranks' cells, from 1, and in the
	 * lower half 32 bits that are equal after the same calls. */
	_Alignas(64) _Atomic uint64_t stamp;
	uint64_t call; /* ddp__call_pack */
	unsigned char data[DDP__SHM_CELL];
};

/* A call's first step, in which the ranks compare their calls, and its later
 * ones. */
enum { DDP__SHM_FIRST = 1, DDP__SHM_LATER };

/* DDP__SHM_ABORTING + i: rank i is writing the reason. */
enum { DDP__SHM_ALIVE, DDP__SHM_ABORTED, DDP__SHM_ABORTING };

/* At the start of the segment. */
struct ddp__shm_header {
	char magic[8];
	uint32_t version;
	uint32_t slot_size;
	unsigned char cookie[DDP__COOKIE];
	_Atomic uint64_t cpus[DDP__SHM_CPUS / 64]; /* CPUs that any rank may run
						    * on */
	_Alignas(64) _Atomic uint32_t armed;	   /* number of ranks with a
						    * bell armed */
	_Atomic uint32_t no_reading; /* process_vm_readv does not work between
				      * these ranks */
	_Atomic uint32_t aborted;    /* DDP__SHM_ABORTED: abort_* are set */
	int32_t abort_code;
	char abort_text[ERR_TEXT_MAX];
};

/* One direction between this rank and a peer, as this rank sees it
 * (shm_p2p.c). */
struct ddp__shm_lane {
	uint64_t line, byte;     /* the next line's and byte's number */
	uint64_t taken, drained; /* how far the receiver has released them */
	uint64_t large;		 /* large messages ended */
};

struct ddp__shm_msg;

struct ddp__shm {
	int me, n;
	const int *ranks; /* world rank of each of the n; borrowed */
	int timeout_ms;   /* < 0: no limit */
	const struct ddp__peers *peers;
	uint32_t step;                /* the last step that this rank posted */
	int waits;		      /* the others have not posted it yet */
	int awaits;		      /* the step that this rank must still wait
				       * for; 0: none */
	struct ddp__call call;	      /* the call of that step, for texts */
	uint64_t cells;		      /* cells of all ranks so far, */
	uint64_t before;	      /* ddp__digest of their calls, */
	uint32_t numbers[DDP__SHM_CELLS]; /* and their numbers, by place */
	/* the cell that this rank awaits instead of a step; or NULL */
	const struct ddp__shm_cell *cell;
	const struct ddp__call *cell_call;
	int cell_from;
	int spins;                    /* every rank has a CPU of its own */
	uint64_t moved, move_ns; /* when this rank made way for another on its
				  * CPU, and how long not to do so again */
	int was_away;		      /* a rank was away during this step */
	uint64_t mark;	/* ddp__call_mark of this rank's last first step */
	int has_waited; /* set by a wait longer than a few polls */
	int bell, has_bell;	      /* a socket or -1; the socket is bound to
				       * its name */
	int armed;		      /* peers ring it: shm_transport.c's */
	unsigned char bell_name[DDP__BELL]; /* from which the names of all
					     * ranks' bells are made */
	struct ddp__shm_header *header;
	char *slots;
	size_t mapped;
	size_t chunk; /* bytes of input a rank puts into one step at most */
	struct ddp__put put;  /* how to write to slots and rings */
	const void **sources; /* scratch memory: n pointers */
	char *pairs;	      /* n * n pairs, for messages */
	size_t ring;	      /* bytes of each pair's ring */
	struct ddp__shm_lane *lanes; /* 2 * peer, + 1 for receiving */
	struct ddp__shm_msg *msgs;   /* under way */
	unsigned char probe[DDP__COOKIE];
};

/* Creates a segment with room for `ranks` slots (sparse: untouched slots cost
 * nothing). Returns its descriptor or an error. The memory is freed when the
 * last process unmaps it. */
int ddp__shm_create(size_t ranks, const unsigned char cookie[DDP__COOKIE],
		    struct err *e);

/* Maps fd, which stays the caller's, as slot me of n. ERR_PROTOCOL: it is not a
 * segment with that cookie. The caller sets ranks, timeout_ms and peers before
 * the first step. */
int ddp__shm_attach(struct ddp__shm *s, int fd, int me, int n,
		    const unsigned char cookie[DDP__COOKIE], struct err *e);
/* Marks that this rank left, for the other ranks, and unmaps the segment. s may
 * be zeroed. */
void ddp__shm_detach(struct ddp__shm *s);

/* Called once, after every rank has attached: makes a step, and chooses how to
 * wait. */
int ddp__shm_start(struct ddp__shm *s, const struct ddp__call *call,
		   struct err *e);

/* Starts a collective: this rank's next post carries the call. */
void ddp__shm_begin(struct ddp__shm *s, const struct ddp__call *call);
/* Publishes this rank's data for the next step. */
void ddp__shm_post(struct ddp__shm *s);
/* Waits until every rank has posted this rank's step. ERR_TIMEOUT, ERR_REMOTE
 * (a rank is gone or left), or the error with which another rank aborted. After
 * an error no rank can use the segment any more. */
int ddp__shm_wait(struct ddp__shm *s, struct err *e);
/* As ddp__shm_wait, for a collective's first step: ERR_ARGUMENT if the ranks
 * make different calls. */
int ddp__shm_wait_first(struct ddp__shm *s, struct err *e);
/* As the waits above, without waiting: 1 if every rank has posted this step, 0
 * if not. */
int ddp__shm_arrived(struct ddp__shm *s, int first, struct err *e);

/* Small broadcasts go through cells (shm_cell.c): the root writes a cell and
 * continues, and the others wait only for the root. This begins one. Returns 0
 * if the broadcast has to go by steps; one broadcast in DDP__SHM_CELLS / 2
 * must, so that all cells before it are free. */
int ddp__shm_cell_begin(struct ddp__shm *s, const struct ddp__call *call);
/* 1 if the next broadcast goes through a cell, 0 if it has to go by steps. */
static inline int ddp__shm_cell_is_next(const struct ddp__shm *s)
{
	return (s->cells + 1) % (DDP__SHM_CELLS / 2) != 0;
}
/* The root gives, at most DDP__SHM_CELL bytes. */
void ddp__shm_cell_give(struct ddp__shm *s, const struct ddp__call *call,
			const void *from, size_t size);
/* The other ranks' part: wait for the cell, with the errors of
 * ddp__shm_wait_first, or test for it as ddp__shm_arrived does; then the data
 * is at ddp__shm_cell(s, root)->data. */
int ddp__shm_cell_wait(struct ddp__shm *s, const struct ddp__call *call,
		       int root, struct err *e);
int ddp__shm_cell_arrived(struct ddp__shm *s, const struct ddp__call *call,
			  int root, struct err *e);

/* For a rank that waits for several things and so cannot block in one segment.
 * The doorbell, made at the first call, is a descriptor that becomes readable
 * when a peer posts while this rank is armed. To sleep: arm; if it returned 0,
 * poll, for at most a second; disarm; advance what is under way. */
int ddp__shm_doorbell(struct ddp__shm *s, struct err *e);
/* 1: do not sleep, the awaited step or cell is there; 0: sleep. */
int ddp__shm_arm(struct ddp__shm *s);
void ddp__shm_disarm(struct ddp__shm *s);
/* Call after a post, if header->armed is not 0. */
void ddp__shm_ring(struct ddp__shm *s);

/* Marks that this rank waits for other hosts, or no longer does. */
void ddp__shm_set_away(void *shm, int is_away);

/* Call at intervals while the operation under way has not moved for waited_ns:
 * 0 if the missing ranks may still come, else an error of ddp__shm_wait. */
int ddp__shm_check(void *shm, uint64_t waited_ns, struct err *e);

/* The call whose step or cell this rank waits for. *from: the rank whose cell
 * it is, or DDP__FROM_HOST. */
const struct ddp__call *ddp__shm_awaited(const void *shm, int *from);

/* Each rank has a board, which only that rank writes, rarely, and all ranks
 * read: up to DDP__SHM_BOARD - 8 bytes, in words. get returns 0 while the board
 * is being written. */
void ddp__shm_board_put(struct ddp__shm *s, size_t at, const void *from,
			size_t size);
int ddp__shm_board_get(const struct ddp__shm *s, int i, size_t at, void *to,
		       size_t size);

/* For the files of this room, in a wait for rank i since start: 1: keep
 * polling; 0: sleep. */
int ddp__shm_patience(struct ddp__shm *s, int i, uint64_t start);
void ddp__shm_sleep(_Atomic uint32_t *word, uint32_t value, int ms);
void ddp__shm_wake(_Atomic uint32_t *word);
/* Makes *e the error of all ranks, unless another rank was first: then *e
 * becomes that rank's error. Returns its code. */
int ddp__shm_fail(struct ddp__shm *s, struct err *e);
/* 0: rank i is alive; else an error that reports how it ended. */
int ddp__shm_check_rank(struct ddp__shm *s, int i, const struct ddp__call *call,
			struct err *e);
/* Waits for rank i, whose step or cell is not there yet. */
int ddp__shm_wait_for(struct ddp__shm *s, int i, struct err *e);
/* Sets the error of two ranks with different calls: this rank and rank i make
 * different calls now, or made them some calls ago. */
int ddp__shm_differ(struct ddp__shm *s, const struct ddp__call *call, int i,
		    const struct ddp__call *other, struct err *e);
/* In shm_agree.c. All ranks have posted the first step of their call: 0 if it
 * is the same call, after the same calls; else the error, which names the first
 * calls that differ as far as they are still known. */
int ddp__shm_agree(struct ddp__shm *s, struct err *e);
/* As ddp__shm_agree, for a cell: rank root's cell is there, at the place of
 * this rank's call. */
int ddp__shm_agree_on_cell(struct ddp__shm *s, const struct ddp__call *call,
			   int root, struct err *e);
/* Writes the call that rank i entered last, as text. */
char *ddp__shm_last(const struct ddp__shm *s, int i, char *out);
/* The start time in /proc/PID/stat; 0: no such process, or a zombie. */
uint64_t ddp__process_start(int64_t pid);

static inline void ddp__shm_relax(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#endif
}

/* Makes every rank's present and next wait fail with *e. */
void ddp__shm_abort(struct ddp__shm *s, const struct err *e);
int ddp__shm_aborted(const struct ddp__shm *s);

static inline struct ddp__shm_control *
ddp__shm_control(const struct ddp__shm *s, int i)
{
	const size_t stride = DDP__SHM_HEAD +
			      2 * (size_t)(DDP__SHM_IN + DDP__SHM_OUT);

	return (struct ddp__shm_control *)(void *)(s->slots +
						   (size_t)i * stride);
}

/* Records the call that this rank entered. A rank that sees any part of it also
 * sees everything posted before. */
static inline void ddp__shm_entered(struct ddp__shm *s, uint64_t word,
				    uint64_t number)
{
	struct ddp__shm_control *mine = ddp__shm_control(s, s->me);

	atomic_store_explicit(&mine->last_number, 0, memory_order_release);
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&mine->last, word, memory_order_relaxed);
	atomic_store_explicit(&mine->last_number, number,
			      memory_order_release);
}
/* The number and *word of the call that rank i entered last; 0: it is entering
 * one right now. */
static inline uint64_t ddp__shm_seen(const struct ddp__shm *s, int i,
				     uint64_t *word)
{
	struct ddp__shm_control *peer = ddp__shm_control(s, i);
	uint64_t number = atomic_load_explicit(&peer->last_number,
					       memory_order_acquire);

	*word = atomic_load_explicit(&peer->last, memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&peer->last_number,
				    memory_order_relaxed) == number
		       ? number
		       : 0;
}

/* Writes the call of this rank's next step. */
static inline void ddp__shm_say(struct ddp__shm *s,
				const struct ddp__call *call, uint64_t word)
{
	struct ddp__shm_control *mine = ddp__shm_control(s, s->me);
	int half = (s->step + 1) & 1;

	s->mark = ddp__call_mark(call, word, s->before);
	mine->call[half] = s->mark;
	mine->full[half] = (struct ddp__shm_full_call){word, call->number,
						  s->before};
}

/* Rank i's cell for the small broadcast that comes `on` places after the last
 * one begun. */
static inline struct ddp__shm_cell *
ddp__shm_cell_on(const struct ddp__shm *s, int i, unsigned on)
{
	char *cells = (char *)ddp__shm_control(s, i) + DDP__SHM_CONTROL;

	return (struct ddp__shm_cell *)(void *)cells +
	       (s->cells + on) % DDP__SHM_CELLS;
}

static inline struct ddp__shm_cell *ddp__shm_cell(const struct ddp__shm *s,
						   int i)
{
	return ddp__shm_cell_on(s, i, 0);
}

/* The stamp of the cell at a place, for the call with this number, after calls
 * with that digest. */
static inline uint64_t ddp__shm_stamp(uint64_t place, uint64_t number,
				      uint64_t before)
{
	return place << 32 | (uint32_t)(number ^ before >> 32);
}

/* 1 if the awaited cell has arrived. */
static inline int ddp__shm_cell_there(const struct ddp__shm *s)
{
	return atomic_load_explicit(&s->cell->stamp, memory_order_acquire) >>
		       32 ==
	       (uint32_t)s->cells;
}

/* Rank i's input and output for a step. */
static inline char *ddp__shm_in(const struct ddp__shm *s, int i, uint32_t step)
{
	return (char *)ddp__shm_control(s, i) + DDP__SHM_HEAD +
	       (step & 1) * (size_t)DDP__SHM_IN;
}

static inline char *ddp__shm_out(const struct ddp__shm *s, int i, uint32_t step)
{
	return (char *)ddp__shm_control(s, i) + DDP__SHM_HEAD +
	       2 * (size_t)DDP__SHM_IN + (step & 1) * (size_t)DDP__SHM_OUT;
}

#endif
