/* journal_writer.h: records what happens to a server's jobs and stores, so that
 * the next server can continue as if this one had never died. Records collect
 * in a batch that is committed before any output leaves. Requests that only
 * read or wait are not recorded: their clients repeat them.
 * Knows jobs by their number; recovery/ makes jobs from records again. */
#ifndef RENDEZVOUS_JOURNAL_WRITER_H
#define RENDEZVOUS_JOURNAL_WRITER_H

#include "base/sock.h"
#include "rendezvous/journal/reply_cache.h"
#include "rendezvous/net/conn.h"
#include "rendezvous/torch/torch_wire.h"
#include "rendezvous/wire.h"

struct journal_etcd;
struct journal_file;

enum record_type {
	RECORD_RESET = 1, /* u64 jobs, u32 met: a snapshot follows */
	RECORD_ENDED,	  /* u32 round, str id, str text: a freed job */
	RECORD_OPENED,	  /* u64 job, u32 first round, str id */
	RECORD_JOB,	  /* u64 job, u8 named, str state */
	RECORD_EVENT,	  /* u64 job, str node, u8 type, str message */
	RECORD_LOST,	  /* u64 job, str node, str why */
	RECORD_CALLED,	  /* u64 job: the last call is over */
	RECORD_STOPPED,	  /* u64 job, str why */
	RECORD_TORCH,	  /* u64 job, u16 port, u32 addresses, str address...:
			   * where PyTorch's clients find this round's store */
	RECORD_REQUEST,	  /* u64 job, u64 session, u32 rank, u32 id, u8 type,
			   * str message: it changed the store */
	RECORD_KEY,	  /* u64 job, str key, str value */
	RECORD_GATHERED,  /* u64 job, u32 number, u32 count, str... */
	RECORD_PAST,	  /* u64 job, u64 session, u32 rank, u32 id, u8 type,
			   * u64 value, u32 number of what was gathered */
	RECORD_TORCHED,	  /* u64 job, u8 generation, str request: PyTorch's */
	RECORD_QUEUED,	  /* u64 job, str key, str value */
	RECORD_SEAL,	  /* str credential: the job's key, sealed by munge */
	RECORD_LEFT,	  /* u64 job, u32 rank, in the order of leaving */
	RECORD_WAS_LOST,  /* u64 job, str node, str why: an earlier loss */
};

/* The whole state, as batches that replace all batches before them. */
enum { SNAPSHOT_PARTS_MAX = 1024 };
struct snapshot {
	uint32_t number;
	size_t n;
	struct buf parts[SNAPSHOT_PARTS_MAX];
	struct slice slices[SNAPSHOT_PARTS_MAX];
};
void snapshot_release(struct snapshot *s);

/* Callbacks to the server. The last two: with etcd only. */
struct journal_writer_owner {
	/* Fills s; -errno: no memory, or too large. */
	int (*snapshot)(void *owner, struct snapshot *s);
	/* 1: every job is over; 0: one is not; -1: there is none. */
	int (*jobs_over)(void *owner);
	int (*is_leader)(void *owner);
	void (*on_failure)(void *owner, const struct err *why);
};

struct journal_writer {
	/* At most one is set; with neither, nothing is written. */
	struct journal_file *file;
	struct journal_etcd *etcd;
	int writes;
	const struct journal_writer_owner *calls;
	void *owner;
	struct conn_pool *pool;
	const char *path;   /* NULL: in memory */
	struct buf batch;   /* since the last commit */
	int mute;	    /* during replay */
	int has_complained; /* has logged a batch that it could not write */
	uint64_t again_ms;  /* loop time of the next attempt at a snapshot */
	uint32_t snapshots; /* begun so far */
	uint32_t met;	    /* the last gather's number */
};

/* ---- recording; does nothing without a journal ---- */

void journal_writer_opened(struct journal_writer *w, uint64_t job,
			   uint32_t first_round, const char *id);
void journal_writer_event(struct journal_writer *w, uint64_t job,
			  struct slice node_id, const struct wire_frame *f);
void journal_writer_lost(struct journal_writer *w, uint64_t job,
			 struct slice node_id, const char *why);
void journal_writer_called(struct journal_writer *w, uint64_t job);
void journal_writer_stopped(struct journal_writer *w, uint64_t job,
			    const char *why);
void journal_writer_torch(struct journal_writer *w, uint64_t job, uint16_t port,
			  const struct sock_addr *at, int n);
void journal_writer_torched(struct journal_writer *w, uint64_t job,
			    enum torch_generation g, struct slice request);
void journal_writer_changed(struct reply_cache *round, uint64_t session,
			    uint32_t rank, const struct wire_frame *f);
void journal_writer_met(struct reply_cache *round, struct cached_reply *reply);
void journal_writer_sealed(struct journal_writer *w, const char *sealed_key);

/* The bodies of records that snapshots contain as well. */
void record_put_torch(struct buf *b, uint16_t port, const struct sock_addr *at,
		      int n);
void record_put_gathered(struct buf *b, struct reply_cache *round,
			 struct barrier_gather *met);
void record_put_past(struct buf *b, const struct reply_cache *round,
		     const struct cached_reply *r);
void record_put_seal(struct buf *b, const char *sealed_key);

/* ---- committing ---- */

/* conn_pool.commit: called before output leaves. 0: all records are kept; else
 * etcd will keep them, and journal_writer_kept lets the output go. */
int journal_writer_commit(void *writer);
/* etcd has kept what was committed, or the server is sure again that it leads:
 * releases the output that waited. */
void journal_writer_kept(struct journal_writer *w);
/* At the end: 0: etcd has kept everything; 1: it is about to. */
int journal_writer_settle(struct journal_writer *w);
/* Writes a snapshot, which includes the pending batch. A failure changes
 * neither the journal nor the batch; but with in_place, if only one state fits
 * on the disk, the old one is dropped first, and the journal is lost if the new
 * one still does not fit. */
int journal_writer_snapshot(struct journal_writer *w, int in_place,
			    struct err *e);
/* Logs, once, that the journal cannot be written, and sets the next attempt. */
void journal_writer_complain(struct journal_writer *w, const struct err *e);
/* The journal's place, for messages: its path, "in etcd" or "in memory". */
const char *journal_writer_where(const struct journal_writer *w);
/* Stops writing; the journal stays as it is. */
void journal_writer_close(struct journal_writer *w);

#endif
