/* fuzz.h: the differential fuzzer of libddp. All ranks of a world draw one
 * sequence of operations from one seed; how each takes part (in place or not,
 * blocking or not, in which order it waits) is its own choice, drawn from the
 * seed and its rank. It knows libddp by ddp.h alone. Each file says what it
 * draws; rank.c is the loop, fuzz_sdk.c starts the worlds. */
#ifndef FUZZ_SDK_H
#define FUZZ_SDK_H

#include <stddef.h>
#include <stdint.h>

#include "worker-sdk/ddp.h"

enum { RANKS_MAX = 8, GROUPS_MAX = 12 };

/* ---- chance.c: numbers drawn from the seed ---- */

struct rng {
	uint64_t state;
};

uint64_t mix(uint64_t x);
/* A stream of its own for each pair of numbers. */
struct rng rng_at(uint64_t seed, uint64_t a, uint64_t b);
uint64_t rng_next(struct rng *r);
unsigned rng_below(struct rng *r, unsigned n);
int rng_chance(struct rng *r, unsigned percent);

/* What a seed says of the world before it starts. */
enum mode { ORDINARY, MISTAKE, KILL };
struct setup {
	enum mode mode;
	int ranks;
	int hosts;	 /* DDP_TEST_HOSTS; 0: not set */
	int interleaved; /* the hosts' ranks take turns */
	int no_shm;	 /* DDP_TEST_SHM=fail */
	int sockets;	 /* DDP_TCP_SOCKETS; 0: not set */
	int encrypts;	 /* DDP_ENCRYPT_DATA=1 */
	unsigned operations;
};
struct setup setup_draw(uint64_t seed);
/* The host that a rank of the world is on, as libddp shall see it. */
int setup_host(const struct setup *s, int rank);

/* ---- groups.c: communicators, the world being number 0 ---- */

struct group {
	int live;
	ddp_comm *comm; /* NULL: this rank is not in it */
	int n, rank;	/* this rank's; -1: it is not in it */
	int members[RANKS_MAX];
	int hosts; /* that its members are on */
};

/* A live group, the world half the time. */
struct group *group_draw(struct rng *common);
void groups_begin(ddp_comm *world);
void groups_split(struct rng *common);
void groups_free_one(struct rng *common);
void groups_free_all(void);
void group_text(const struct group *g, char *out, size_t size);

/* ---- values.c: what ranks send, and what they are to receive ---- */

enum kind {
	ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, GATHER, SCATTER,
	REDUCE_SCATTER, ALL_TO_ALL, ALL_GATHER_V, REDUCE_SCATTER_V,
	ALL_TO_ALL_V, BARRIER, MESSAGE, KINDS
};

/* One call as all of its ranks draw it. */
struct call {
	enum kind kind;
	enum ddp_type type;
	enum ddp_op op;
	size_t count;
	int root, to;	 /* ranks of the group; of a message: from root */
	int special;	 /* NaNs, infinities, zeros with signs, denormals */
	int large;	 /* sums that f16 cannot hold, averages that it can */
	uint64_t key;	 /* seeds its values */
	unsigned number; /* the operation's, and the call's in it */
	unsigned part;
	struct group group; /* as it was */
	/* A mistake of this rank: its count for rank wrong - 1 is one more than
	 * it should be; 0: none. */
	int wrong;
};

int is_float(enum ddp_type type);
/* Elements first..first+n of what rank r of the group sends. */
void values_fill(const struct call *c, int r, size_t first, size_t n,
		 char *to);
/* Compares `got` with the reference for elements first.. of a reduction, or of
 * what rank r sent; fails the run where it differs. */
void values_check_reduced(const struct call *c, size_t first, size_t n,
			  const char *got);
void values_check_copied(const struct call *c, int r, size_t first, size_t n,
			 const char *got, size_t position);
uint64_t values_hash(const void *data, size_t size);
/* The float that a bf16 or f16 is, and the nearest one of a float. */
float half_widen(enum ddp_type type, uint16_t half);
uint16_t half_narrow(enum ddp_type type, float f);
enum { VALUES_BLOCK = 256 };
/* What each rank sends of a reduction of n elements, at most VALUES_BLOCK:
 * NULL, or how the first that differs from the reference does, and which that
 * is. */
const char *values_differ(const struct call *c,
			  char sent[RANKS_MAX][VALUES_BLOCK * 8], size_t n,
			  const char *got, size_t *where);

/* ---- calls.c: calls in all their forms ---- */

enum { CALL_ONLY_SMALL = 1, CALL_REDUCES = 2 };
struct call call_draw(struct rng *common, const struct group *g, int limits);
void call_text(const struct call *c, char *out, size_t size);
/* Makes the call: in one of its forms, of this rank's own choice; checks what
 * came of it, now or when it ends. */
void call_make(const struct call *c);
/* As call_make, but never waits; of a message one side of it. */
void call_begin(const struct call *c, int receives);
/* Makes it on buffers that nobody looks at: its code, or that of waiting. */
int call_try(const struct call *c);
/* Waits until at most `most` calls are under way; which, is own choice. */
void calls_wait(unsigned most);
/* Until none of this communicator is. */
void calls_wait_group(const ddp_comm *comm);
/* The results of a call that must be the same bits on all of its ranks. */
void digest_add(const struct call *c, uint64_t hash);
/* Compares them, over the world. */
void digests_compare(void);

/* Room around buffers that must stay as it is. */
struct buffer {
	char *raw, *data;
	size_t size;
};
struct buffer buffer_new(size_t size); /* at an odd address, as chance wants */
void buffer_free(struct buffer *b, const struct call *c);

/* ---- counts.c: the calls with a count for each rank ---- */

int has_counts(enum kind kind);
/* What calls.c does for calls with one count. The buffers are new; *in and *out
 * point into them. */
void counts_prepare(const struct call *c, struct buffer *send,
		    struct buffer *recv, char **in, char **out);
/* The elements that this rank sends; receives. */
size_t counts_sent(const struct call *c);
size_t counts_received(const struct call *c);
int counts_issue(const struct call *c, const void *in, void *out,
		 ddp_request **request);
void counts_check(const struct call *c, const char *out);

/* ---- operations of more than one call ---- */

void messages_one(struct rng *common);	 /* messages.c */
void messages_burst(struct rng *common);
void reducer_steps(struct rng *common);	 /* reducers.c */
void checks_replicas(struct rng *common);  /* checks.c */
void checks_gradients(struct rng *common);
void broadcasts_storm(struct rng *common); /* others.c */
void others_spans(struct rng *common);
void others_batch_norm(struct rng *common);
void others_once(struct rng *common);
void others_stop(struct rng *common);
void mistake_make(struct rng *common);	 /* mistakes.c */

/* ---- rank.c: a rank's run ---- */

extern struct fuzz {
	uint64_t seed;
	struct setup setup;
	struct group groups[GROUPS_MAX];
	int rank, size;
	unsigned number;  /* the operation's */
	struct rng own;	  /* this rank's choices in it */
	unsigned compared; /* the first operation not compared yet */
	int stop_asked;	  /* ddp_should_stop is 1 from now on */
} fuzz;

int rank_main(uint64_t seed, unsigned operations);
/* rc is 0; else the run has failed, or, where a rank was killed, ends well with
 * the errors that this is to have. */
void must(int rc, const struct call *c, const char *what);
/* Ends the run: what was wrong, in which call; c may be NULL. */
void fail(const struct call *c, const char *format, ...)
	__attribute__((format(printf, 2, 3), noreturn));
/* FUZZ_WITHOUT="name name" leaves out what has one of these names. */
int is_left_out(const char *name);

#endif
