/* journal_etcd.h: a journal in etcd, which only the server that a candidate
 * became may write: each write holds only while that candidate's key is there.
 * Offers what journal_file.h does, but what is appended is kept only later.
 * Keys, below /ddprun/JOB/: `head`, the number of the generation that counts;
 * `journal/GENERATION/NUMBER`, pieces of a stream of batches, each with its
 * length before it; `ended` while a job that is over has not been removed. A
 * snapshot begins a generation. What is written goes with a lease of its own,
 * for jobs that nobody comes back to. */
#ifndef RENDEZVOUS_JOURNAL_ETCD_H
#define RENDEZVOUS_JOURNAL_ETCD_H

#include "etcd/etcd.h"

struct journal_etcd;

struct journal_etcd_options {
	const char *job;
	struct slice guard; /* the candidate's key, and its revision */
	int64_t guard_revision;
	uint64_t within_ms; /* for etcd to answer */
	/* Of what is written: the same for each process of one agent, and not
	 * the candidate's. It lasts so long without a server. */
	int64_t lease;
	uint32_t keep_s;
};

struct journal_etcd_events {
	/* What is there has been read: replay comes next. */
	void (*on_loaded)(void *owner);
	/* All that was appended so far is kept. */
	void (*on_kept)(void *owner);
	/* It cannot be read or written any more, and why. The last call. */
	void (*on_lost)(void *owner, const struct err *why);
};

/* Strings are copied, etcd is borrowed. -ENOMEM. */
int journal_etcd_open(struct journal_etcd **out, struct etcd *etcd,
		      uv_loop_t *loop,
		      const struct journal_etcd_options *options,
		      const struct journal_etcd_events *events, void *owner,
		      struct err *e);
/* At once: what is not kept may or may not be. NULL is fine. The memory goes
 * from the loop. */
void journal_etcd_close(struct journal_etcd *j);

/* After on_loaded, once: hands on each whole batch, in order. Returns how many
 * there were, or what take said when it was < 0. */
int journal_etcd_replay(struct journal_etcd *j,
			int (*take)(void *arg, struct slice batch), void *arg);

/* on_kept follows, or on_lost. */
void journal_etcd_append(struct journal_etcd *j, struct slice batch);
/* All that was appended before says no more than these n batches. */
void journal_etcd_snapshot(struct journal_etcd *j, const struct slice *parts,
			   size_t n);
/* Whether the job is over, once the next batch is kept: the key `ended` says so
 * to who leaves it (remains.h). */
void journal_etcd_say_ended(struct journal_etcd *j, int ended);
int journal_etcd_is_long(const struct journal_etcd *j);
/* The same of any: of a snapshot, and what was appended since, in bytes. Each
 * journal that is compacted as this says can be read, whatever batch comes
 * next: one of BATCH_MAX, as a server takes no more in while another is kept.
 * */
enum {
	JOURNAL_ETCD_READ_MAX = 512 << 20,
	JOURNAL_ETCD_WRITTEN_MAX = 192 << 20,
	JOURNAL_ETCD_BATCH_MAX = 256 << 20,
};
int journal_etcd_is_too_long(uint64_t snapshot, uint64_t since);
/* All that was appended is. */
int journal_etcd_is_kept(const struct journal_etcd *j);
/* The job is over: nothing of it is left in etcd, but the candidate's key.
 * on_kept follows, or on_lost. */
void journal_etcd_remove(struct journal_etcd *j);

/* Appends "/ddprun/JOB/", the prefix of all keys of a job. No job's prefix is
 * within another's. */
void journal_etcd_put_folder(struct buf *out, const char *job);

#endif
