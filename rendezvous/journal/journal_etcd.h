/* journal_etcd.h: a journal in etcd that only the leader may write: each write
 * succeeds only while the leader's key exists. As journal_file.h, but a batch
 * is kept only when on_kept is called. Keys, below /ddprun/JOB/: `head`, the
 * number of the generation that counts; `journal/GENERATION/NUMBER`, pieces of
 * a stream of batches, each after its length; `ended` while a job that is over
 * has not been removed. A snapshot begins a generation. The keys have a lease
 * of their own, so that abandoned jobs are removed. */
#ifndef RENDEZVOUS_JOURNAL_ETCD_H
#define RENDEZVOUS_JOURNAL_ETCD_H

#include "etcd/etcd.h"

struct journal_etcd;

struct journal_etcd_options {
	const char *job;
	struct slice guard; /* the leader's key, and its revision */
	int64_t guard_revision;
	uint64_t within_ms; /* etcd's time to reply */
	/* The keys' lease: the same for each process of an agent, and different
	 * from the leader's. It lasts keep_s without a server. */
	int64_t lease;
	uint32_t keep_s;
};

struct journal_etcd_events {
	/* The journal has been read: call replay next. */
	void (*on_loaded)(void *owner);
	/* Everything appended so far is kept. */
	void (*on_kept)(void *owner);
	/* It cannot be read or written any more, and why. The last callback. */
	void (*on_lost)(void *owner, const struct err *why);
};

/* Strings are copied, etcd is borrowed. -ENOMEM. */
int journal_etcd_open(struct journal_etcd **out, struct etcd *etcd,
		      uv_loop_t *loop,
		      const struct journal_etcd_options *options,
		      const struct journal_etcd_events *events, void *owner,
		      struct err *e);
/* Closes at once: batches that are not kept may or may not be written. NULL is
 * fine. The memory is freed from the loop. */
void journal_etcd_close(struct journal_etcd *j);

/* Once, after on_loaded: calls take for each complete batch, in order. Returns
 * the number of batches, or take's result if that is < 0. */
int journal_etcd_replay(struct journal_etcd *j,
			int (*take)(void *arg, struct slice batch), void *arg);

/* on_kept follows, or on_lost. */
void journal_etcd_append(struct journal_etcd *j, struct slice batch);
/* Replaces everything appended so far with these n batches. */
void journal_etcd_snapshot(struct journal_etcd *j, const struct slice *parts,
			   size_t n);
/* Whether the job is over when the next batch is kept: sets the key `ended`,
 * for processes that leave (etcd_cleanup.c). */
void journal_etcd_set_ended(struct journal_etcd *j, int ended);
int journal_etcd_is_long(const struct journal_etcd *j);
/* The same rule for a snapshot and the bytes appended since. A journal
 * compacted by it can always be read, even if a batch of BATCH_MAX follows (a
 * server accepts no more while it writes another batch). */
enum {
	JOURNAL_ETCD_READ_MAX = 512 << 20,
	JOURNAL_ETCD_WRITTEN_MAX = 192 << 20,
	JOURNAL_ETCD_BATCH_MAX = 256 << 20,
};
int journal_etcd_is_too_long(uint64_t snapshot, uint64_t since);
/* Everything appended is kept. */
int journal_etcd_is_kept(const struct journal_etcd *j);
/* The job is over: removes all its keys from etcd except the leader's. on_kept
 * or on_lost follows. */
void journal_etcd_remove(struct journal_etcd *j);

/* Appends "/ddprun/JOB/", the prefix of all keys of a job. No job's prefix is
 * within another's. */
void journal_etcd_put_folder(struct buf *out, const char *job);

#endif
