/* history.h: what a server writes down so that the next one goes on as if it
 * had never ended: what happened to its jobs, what changed in their stores,
 * who was answered. history.c puts records into the batch that is committed
 * before any output leaves; history_read.c makes jobs of them again. What only
 * asks, or waits, is not written: who waits asks again. */
#ifndef RENDEZVOUS_HISTORY_H
#define RENDEZVOUS_HISTORY_H

#include "rendezvous/auth/credential.h"
#include "rendezvous/journal/past.h"
#include "rendezvous/torch/torch_wire.h"
#include "rendezvous/wire.h"

struct hosted;
struct job_node;
struct journal_etcd;
struct journal_file;
struct server;

struct history {
	/* One of them, or neither: then nothing is written. */
	struct journal_file *file;
	struct journal_etcd *etcd;
	int writes;
	struct server *server;
	const char *path;  /* NULL: in memory */
	struct buf batch;  /* since the last commit */
	int mute;          /* what is read is not written again */
	struct err why;    /* what is read cannot be: code 0: it can */
	uint64_t unknown;  /* a job that records name and that is not there */
	int complained;    /* of what cannot be kept */
	uint64_t again_ms; /* loop time: then a snapshot is tried */
	uint32_t snapshots; /* that were begun */
	uint64_t jobs;     /* the last number that was given */
	struct table by_number; /* all jobs of the server */
	uint32_t met;      /* the last gather's number */
	char seal[CREDENTIAL_MAX]; /* seal.h's; "": there is none */
};

enum history_type {
	HISTORY_RESET = 1, /* u64 jobs, u32 met: all is what follows */
	HISTORY_ENDED,   /* u32 round, str id, str text: a job that is gone */
	HISTORY_OPENED,  /* u64 job, u32 first round, str id */
	HISTORY_JOB,     /* u64 job, u8 named, str state */
	HISTORY_EVENT,   /* u64 job, str node, u8 type, str message */
	HISTORY_LOST,    /* u64 job, str node, str why */
	HISTORY_CALLED,  /* u64 job: the last call is over */
	HISTORY_STOPPED, /* u64 job, str why */
	HISTORY_TORCH,   /* u64 job, u16 port, u32 addresses, str address...:
			  * where PyTorch's clients find this round's store */
	HISTORY_REQUEST, /* u64 job, u64 session, u32 rank, u32 id, u8 type,
			  * str message: it changed the store */
	HISTORY_KEY,     /* u64 job, str key, str value */
	HISTORY_GATHERED, /* u64 job, u32 number, u32 count, str... */
	HISTORY_PAST,    /* u64 job, u64 session, u32 rank, u32 id, u8 type,
			  * u64 value, u32 number of what was gathered */
	HISTORY_TORCHED, /* u64 job, u8 generation, str request: PyTorch's */
	HISTORY_QUEUED,  /* u64 job, str key, str value */
	HISTORY_SEAL,    /* str credential: the key of the job, by munge */
	HISTORY_LEFT,    /* u64 job, u32 rank: it has, after those before it */
	HISTORY_WAS_LOST, /* u64 job, str node, str why: before all this */
};

/* ---- writing; nothing where there is no journal ---- */

/* The job has its number from now on. */
int history_number(struct history *h, struct hosted *job);
void history_forget(struct history *h, struct hosted *job);

void history_opened(struct hosted *job, uint32_t first_round);
void history_event(struct hosted *job, const struct job_node *node,
		   const struct wire_frame *f);
void history_lost(struct hosted *job, const struct job_node *node,
		  const char *why);
void history_called(struct hosted *job);
void history_stopped(struct hosted *job, const char *why);
void history_torch(struct hosted *job);
void history_torched(struct hosted *job, enum torch_generation g,
		     struct slice request);
void history_changed(struct pasts *round, uint64_t session, uint32_t rank,
		     const struct wire_frame *f);
void history_met(struct pasts *round, struct past *past);
/* It is what h->seal says from now on. */
void history_sealed(struct history *h);

/* Before output leaves: what it says is kept. 0: it is, as a file's always is;
 * else (conn_pool.commit) history_kept is to be called when etcd has it. */
int history_commit(void *history);
/* Etcd has all that was committed, or the server is sure of its place again:
 * what waited for it leaves. */
void history_kept(struct history *h);
/* Nothing is to leave any more: 0: etcd has all that happened; 1: it will. */
int history_settle(struct history *h);

/* ---- from start to end ---- */

/* Opens the journal at path, or in fd, and reads it: the server's jobs are what
 * they were, their nodes and workers have to come back. */
int history_start(struct history *h, struct server *s, const char *path, int fd,
		  struct err *e);
/* The same from etcd, where the journal is loaded. 1: there was something,
 * and a snapshot is under way; 0: there was nothing. */
int history_start_in_etcd(struct history *h, struct journal_etcd *journal,
			  struct err *e);
/* Reads it only. 1: there is a job, and it is over; nobody is told of it. */
int history_is_over_in_etcd(struct history *h, struct journal_etcd *journal);
/* Nodes that are not back in time are lost, from now on. */
void history_serve(struct history *h);
/* Forgets all jobs; nobody is in them. The journal stays as it is. */
void history_forget_all(struct history *h);
/* What follows is not written any more; the journal stays as it is. */
void history_close(struct history *h);

/* history_read.c: a batch happens again. What makes no sense costs the job that
 * it is of, which ends and says why. < 0, and h->why: it costs them all, for
 * want of memory, or because it is no list of records. */
int history_take(void *history, struct slice batch);

/* history_snapshot.c: all that there is, as batches that stand for all batches
 * before them. -errno: there is not the memory, or it is too much. */
enum { SNAPSHOT_PARTS_MAX = 1024 };
struct snapshot {
	uint32_t number;
	size_t n;
	struct buf parts[SNAPSHOT_PARTS_MAX];
	struct slice slices[SNAPSHOT_PARTS_MAX];
};
int history_snapshot(struct history *h, struct snapshot *s);
void history_snapshot_release(struct snapshot *s);
/* The fields of TORCH, and the records that are also written on their own. */
void history_put_torch(struct buf *b, const struct hosted *job);
void history_put_gathered(struct buf *b, struct pasts *round,
			  struct meeting *met);
void history_put_past(struct buf *b, struct pasts *round,
		      const struct past *p);
void history_put_seal(struct buf *b, const struct history *h);

#endif
