/* remote_frame.h: the protocol between the head (`ddprun -H`) and the proxies
 * that it starts over ssh, on ssh's stdin and stdout. Pure.
 *
 * A host's stdout begins with whatever its shell's start-up files print, then
 * records "\2ddprun WORD REST\3". After the record "far" come frames: u32
 * length of the body, u8 type, u32 number of the host, body. */
#ifndef LAUNCHER_REMOTE_FRAME_H
#define LAUNCHER_REMOTE_FRAME_H

#include "base/buf.h"
#include "base/error.h"

enum {
	REMOTE_BODY_MAX = 8 << 20,
	REMOTE_HEAD = 9,
	REMOTE_RECORD_MAX = 4096,
};

enum remote_type {
	/* to a host */
	REMOTE_JOB = 1, /* struct remote_job: check whether it can run */
	REMOTE_BRANCH,  /* struct remote_branch: hosts behind this one */
	REMOTE_SERVE,   /* list of the others' addresses: start the server */
	REMOTE_START,   /* u32: its place among those that start; text: the
			 * endpoint, "" if it is alone */
	REMOTE_SIGNAL,  /* u32: for the agent */
	REMOTE_STDIN,   /* bytes; none: end of file. Answered by STDIN_ACK */
	REMOTE_WINDOW,  /* u32 rows, u32 columns: the terminal's new size */
	/* from a host */
	REMOTE_OPEN,    /* u8: ddprun was copied; it waits for its JOB */
	REMOTE_READY,   /* struct remote_ready: the answer to JOB */
	REMOTE_SERVING, /* text: the endpoint; the answer to SERVE */
	REMOTE_STDIN_ACK, /* u8: STDIN is passed on; 0: nothing reads it */
	REMOTE_OUT,     /* whole lines of its stdout */
	REMOTE_ERR,     /* whole lines of its stderr */
	REMOTE_TTY,     /* its stdout, as it comes, while a worker has the
			 * terminal */
	REMOTE_LENT,    /* '1': a worker has the terminal; '0': none has */
	REMOTE_PAGE,    /* its failure page */
	REMOTE_SSH_LINE, /* a line of ssh's stderr */
	REMOTE_NOISE,   /* output of a start-up file */
	REMOTE_FAILED,  /* u32 code, text: it cannot start */
	REMOTE_EXIT,    /* u32: its agent's exit code */
	REMOTE_STOPPED, /* u32: pid of its agent, which a signal stopped; 0: it
			 * continues */
	REMOTE_SERVER_LOST, /* its server died and is not restarted */
	REMOTE_LOST,    /* text: nothing more comes from it */
	/* in both directions, regularly */
	REMOTE_PING,
	REMOTE_TYPES
};

struct remote_frame {
	uint8_t type;
	uint32_t host;
	struct slice body;
	struct slice bytes; /* the whole frame, to forward it */
};

/* Parses the first frame of in: its size; 0: more bytes are needed;
 * ERR_PROTOCOL. */
MUST_CHECK long remote_frame_cut(struct slice in, struct remote_frame *f,
				 struct err *e);
void remote_frame_put(struct buf *b, uint8_t type, uint32_t host,
		      struct slice body);

/* ---- before the frames ---- */

enum remote_word {
	REMOTE_MORE,    /* no complete record yet; noise is set all the same */
	REMOTE_FAR,     /* frames follow */
	REMOTE_COPIED,  /* ddprun was copied there; more records follow */
	REMOTE_NEED,    /* rest: the file that it needs */
	REMOTE_MACHINE, /* rest: its uname -m, which is not ours */
	REMOTE_FAIL,    /* rest: why ddprun cannot be copied there */
};

struct remote_record {
	enum remote_word word;
	struct slice rest;
	size_t noise; /* bytes before it that belong to no record */
	size_t size;  /* noise's and record's */
};

/* Never fails: bytes outside records are noise. */
void remote_record_find(struct slice in, struct remote_record *r);

/* ---- bodies; slices point into the frame ---- */

/* A list of NUL-terminated texts in one slice. */
struct remote_list {
	struct slice texts;
};

void remote_list_add(struct buf *texts, const char *text);
/* The next text, NULL at the end; *at begins as 0. */
const char *remote_list_next(const struct remote_list *l, size_t *at);

struct remote_window {
	uint32_t rows, columns; /* 0: not known */
};

struct remote_job {
	uint8_t check;      /* count its CPUs and GPUs, run nothing */
	uint8_t lends_terminal; /* --tty, in a window of this size: */
	struct remote_window window;
	uint32_t silent_ms; /* silence after which the connection is lost */
	uint32_t grace_ms;
	struct slice dir;
	struct slice secret; /* the job's: 32 bytes, or none */
	struct remote_list options, words, environment;
};

struct remote_branch {
	uint32_t width, timeout_ms, silent_ms;
	struct slice ssh;
	struct remote_list args;
	struct remote_list hosts; /* "NUMBER NAME" */
};

struct remote_ready {
	uint32_t code; /* exit code; 0: it can run */
	struct slice text;
	struct slice host, addr; /* its name; the address ssh connected to */
	uint32_t nproc, cpus, gpus;
	uint64_t unix_ms;
};

void remote_job_put(struct buf *b, const struct remote_job *j);
MUST_CHECK int remote_job_get(struct slice body, struct remote_job *j);
void remote_branch_put(struct buf *b, const struct remote_branch *m);
MUST_CHECK int remote_branch_get(struct slice body, struct remote_branch *m);
void remote_ready_put(struct buf *b, const struct remote_ready *r);
MUST_CHECK int remote_ready_get(struct slice body, struct remote_ready *r);
void remote_window_put(struct buf *b, const struct remote_window *w);
MUST_CHECK int remote_window_get(struct slice body, struct remote_window *w);
/* For a body that is one u32. -1: it is not. */
MUST_CHECK int remote_u32_get(struct slice body, uint32_t *n);

#endif
