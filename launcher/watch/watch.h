/* watch.h: looks once a second at what this node's workers do, and reports it
 * to the owner, which passes it on to the server. Ends nothing. */
#ifndef LAUNCHER_WATCH_H
#define LAUNCHER_WATCH_H

#include <limits.h>
#include <sys/types.h>
#include <time.h>

#include "base/buf.h"
#include "base/loop.h"
#include "launcher/crash/crash_catcher.h"
#include "launcher/python/python.h"
#include "launcher/watch/activity.h"
#include "launcher/watch/mpi_wait.h"
#include "launcher/watch/unanswered.h"
#include "launcher/watch/wait_share.h"
#include "launcher/worker/recorder.h"
#include "launcher/worker/worker_group.h"
#include "rendezvous/wire.h"

/* ---- sampler.c ----
 *
 * Reads what a worker has done: its part of the flight recorder, and /proc.
 * Changes nothing, and never waits. */

/* What the recorder says beyond a sample. */
struct sampler_call {
	uint64_t world;	 /* collectives of the world that it entered */
	uint32_t comm;	 /* the collective's that it is in */
	uint64_t number; /* its number plus 1; 0: it is in none */
	int32_t peer;	 /* in its send or recv in the world, or -1 */
	char text[FLIGHT_CALL_MAX]; /* that call, or the last one; or "" */
};

/* Fills s and c for the worker local_rank, whose process is pid. view is room
 * for the recorder's copy. file_step: the step in its file, or -1. */
void sampler_read(const struct recorder *r, uint32_t local_rank, pid_t pid,
		  int64_t file_step, struct flight_view *view,
		  struct activity_sample *s, struct sampler_call *c);

/* For a process that has computed for a while: sets s->handles if it is in the
 * handler of a fault in one of several looks. It may return from the handler to
 * the fault, a million times a second. */
void sampler_read_handler(struct activity_sample *s);
/* Whether a `ddprun dump` has stopped the worker for the moment in which it
 * copies a stack. */
int sampler_is_dumped(const struct activity_sample *s);

/* The last step that it has reported in the recorder; -1: none. The worker may
 * be gone. */
int64_t sampler_read_recorded_step(const struct recorder *r,
				   uint32_t local_rank,
				   struct flight_view *view);

/* For a worker that has failed: sets c to the first of its failed calls after
 * the last that did not fail, and returns when it began. 0: there is none. */
uint64_t sampler_read_missed(const struct recorder *r, uint32_t local_rank,
			     struct flight_view *view, struct sampler_call *c);

/* The last line of that file that is a number, in its last bytes; -1: none.
 * Waits for the file's server. */
int64_t sampler_read_step(const char *path);
/* Pure: the same of a text. */
int64_t sampler_last_step(const char *text, size_t n);

/* ---- step_files.c ----
 *
 * The files in which workers report their steps, read in a thread. */

/* The file of that worker, into out[PATH_MAX]; "": none. Returns out. */
typedef const char *step_file_path(void *owner, uint32_t local_rank, char *out);

struct step_files {
	uint32_t n;
	int64_t *steps; /* [n]: at the last look; -1: none */
	struct step_look *look; /* that has begun; NULL: none */
};

/* -1: no memory. */
int step_files_init(struct step_files *f, uint32_t n);
/* A look whose file server does not answer stays behind, with its thread. */
void step_files_release(struct step_files *f);
/* Takes what the last look has found, and begins the next. Returns for how many
 * ms the last one has waited for a file server; 0: it is over. */
uint64_t step_files_look(struct step_files *f, step_file_path *path,
			 void *owner);

/* ---- stderr_file.c ----
 *
 * The file to which a program has redirected its stderr, so that we see none
 * of it: found while the program lives, read once it is dead. */

enum {
	STDERR_FILE_TAIL = 8 << 10,
	STDERR_FILE_LINK = 256,
	STDERR_FILE_WAIT_MS = 1000, /* for the file server */
};

/* Zeroed: none. */
struct stderr_file {
	int is_open, fd; /* with O_PATH: nothing waits for its server */
	uint64_t device, inode;
	/* when it was found */
	uint64_t size;
	int64_t written;
	char link[STDERR_FILE_LINK]; /* at the last look; "": none */
};

/* Looks which file that process has as its stderr, and keeps it if it is a
 * regular file; a process that has gone changes nothing. Touches the file only
 * if the process has another than at the last look: its file server may have
 * stopped meanwhile. */
void stderr_file_look(struct stderr_file *f, pid_t pid);
/* Whether two processes write to the same file. */
int stderr_file_same(const struct stderr_file *f, const struct stderr_file *g);
/* Appends its last bytes, from the beginning of a line on, without bytes that
 * were in it before that time. 0, or -ETIMEDOUT: the file server has not
 * answered; a thread keeps waiting for it. */
int stderr_file_put(const struct stderr_file *f, time_t since, struct buf *out);
void stderr_file_close(struct stderr_file *f);

/* ---- file_reads.c ----
 *
 * Which file a process reads or writes: its offset has changed since the last
 * look. */

enum { FILE_READS_MAX = 32, FILE_READS_NAME = 96 };

struct file_read {
	int fd;
	uint64_t inode;
	int64_t at;
};

/* Zeroed: no look yet. */
struct file_reads {
	int n;
	struct file_read seen[FILE_READS_MAX];
	char name[FILE_READS_NAME]; /* "data/shard_7 (8.4 MB)"; "": none */
};

void file_reads_look(struct file_reads *f, pid_t pid);

/* ---- watch.c ---- */

struct watched {
	struct activity activity;
	struct sampler_call call;
	struct wait_share share;
	struct group_waits groups;
	struct mpi_wait mpi;
	uint64_t wakes; /* when the last look at its stack began */
	int has_return, return_fd; /* call_return_open, for its call of MPI */
	/* the program's, once it has been quiet; no runtime: not Python */
	struct python_process python;
	struct file_reads *reads; /* NULL: it has not been loading */
	enum wire_doing reported; /* in the last report */
	struct stderr_file said;
	uint64_t began_ns; /* it was started again alone; 0: it was not */
};

struct watch {
	void *owner;
	void (*on_report)(void *owner, const struct wire_progress *m);
	step_file_path *step_file;
	/* Appends the error with which a worker's stderr ends, if it does. */
	void (*put_said)(void *owner, uint32_t local_rank, struct buf *out);
	/* Looks at the stacks of these processes; watch_take_mpi gets the
	 * answer. May be NULL. */
	void (*look_mpi)(void *owner, const pid_t *pids, uint32_t n);
	const struct worker_group *group;
	const struct recorder *recorder;
	const struct crash_catcher *catcher;
	uv_timer_t timer;
	uint32_t patience_ms, round;
	unsigned ticks;
	uint64_t steps; /* see watch_steps; of the calls so far */
	int has_begun;	/* a round */
	struct watched *workers; /* [group->n]; NULL: no round is watched */
	struct flight_view *view;
	int is_file_server_gone; /* a worker's stderr was there */
	struct step_files step_files;
	int are_steps_late; /* a line has said so */
	int is_failure;	    /* the report is about a worker that has failed */
	struct mpi_schedule mpi;
};

/* The caller has set owner, the callbacks, group, recorder and catcher. */
void watch_init(struct watch *w, uv_loop_t *loop);
/* A round's workers have been started. Without memory it is not watched. */
void watch_begin(struct watch *w, uint32_t round);
/* A worker was started again alone. */
void watch_again(struct watch *w, uint32_t local_rank);
/* A worker has failed: looks at all others, and reports at once. If its last
 * calls failed, or those of another worker that has just ended, that worker is
 * reported as in the first of them. */
void watch_report_failure(struct watch *w, uint32_t local_rank);
/* A worker of another node has failed: the same for all workers. */
void watch_report_now(struct watch *w);
/* Appends the end of the file to which that worker has redirected its stderr,
 * if it has and wrote to it since then. It may be dead. Nothing if another
 * worker writes to the same file: the lines may be that one's. 0, or
 * -ETIMEDOUT: the file's server does not answer; it is not asked again in this
 * round. */
int watch_put_stderr(struct watch *w, uint32_t local_rank, time_t since,
		     struct buf *out);
/* They are about to be stopped. */
void watch_end(struct watch *w);
/* The highest step that a worker has reported in the last round, plus 1; 0:
 * none. Looks at all of them once more; they may be gone. */
uint64_t watch_steps(struct watch *w);
/* The loop must run once more. */
void watch_close(struct watch *w);

/* ---- watch_words.c ----
 *
 * What a worker does, in words. */

enum { WATCH_WORDS_MAX = 800 };

/* Sets s->dead_pid and what belongs to it if a child of the worker was killed
 * and reaped. A child that died long before the worker's last progress did not
 * stop it. */
void watch_note_dead(const struct watch *w, uint32_t local_rank,
		     struct activity_sample *s);
/* Appends which child of it was killed in the minute before it last made
 * progress, or since then: "its process 812 (python3) was killed by signal 9
 * (SIGKILL)". */
void watch_put_dead_child(const struct watch *w, uint32_t local_rank,
			  struct buf *out);
/* does: what it does, by its last samples; if it has been quiet, its line of
 * Python and a connection without an answer follow; then what has died in it,
 * and with which error its stderr ends. Into out[WATCH_WORDS_MAX]; returns
 * out. */
char *watch_words(struct watch *w, uint32_t local_rank, const char *does,
		  int waits_in_mpi, struct unanswered *u, char *out);

/* ---- watch_mpi.c ----
 *
 * The workers' calls of MPI. */

uint64_t watch_tick_ms(const struct watch *w);
/* Forgets the call. */
void watch_close_mpi(struct watched *x);
/* A tick: looks at the stacks if that is due. */
void watch_look_mpi(struct watch *w);
/* What a look has found, as lines, and the CPU time that it took. */
void watch_take_mpi(struct watch *w, struct slice text, uint64_t cpu_ms);
/* Whether a worker is surely in the same call of MPI as at the last look. */
int watch_waits_in_mpi(const struct watch *w);

#endif
