/* remote_frame.h: what the ddprun that was typed (the head) and those that it
 * starts over ssh say to each other on ssh's stdin and stdout. Pure.
 *
 * A host's stdout begins with whatever its shell's start-up files print, then
 * records "\2ddprun WORD REST\3"; after the record "far" all is frames:
 * u32 length of the body, u8 type, u32 host's number, body. */
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
	REMOTE_JOB = 1, /* struct remote_job: look whether it can run */
	REMOTE_BRANCH,  /* struct remote_branch: hosts behind this one */
	REMOTE_SERVE,   /* list of the others' addresses: start the server */
	REMOTE_START,   /* u32: its place among those that start; text, the
			 * endpoint; "": alone */
	REMOTE_SIGNAL,  /* u32: to the agent */
	REMOTE_STDIN,   /* bytes; none: its end. Answered by TOOK */
	/* from a host */
	REMOTE_OPEN,    /* u8 copied: it waits for its JOB */
	REMOTE_READY,   /* struct remote_ready: the answer to JOB */
	REMOTE_SERVING, /* text, the endpoint; the answer to SERVE */
	REMOTE_TOOK,    /* u8: STDIN is passed on; 0: nobody reads it */
	REMOTE_OUT,     /* whole lines of its stdout; */
	REMOTE_ERR,     /* of its stderr */
	REMOTE_PAGE,    /* its failure page */
	REMOTE_WORDS,   /* a line of ssh's, or of others beside the job */
	REMOTE_NOISE,   /* what a start-up file printed */
	REMOTE_FAILED,  /* u32 code, text: it cannot start */
	REMOTE_EXIT,    /* u32: its agent's exit code */
	REMOTE_STOPPED, /* u32: its agent's pid, which a signal stopped; 0: it
			 * goes on */
	REMOTE_UNSERVED, /* its server has died, and is not started again */
	REMOTE_LOST,    /* text: nothing more comes of it */
	/* both, every now and then */
	REMOTE_PING,
	REMOTE_TYPES
};

struct remote_frame {
	uint8_t type;
	uint32_t host;
	struct slice body;
	struct slice bytes; /* all of it, to be passed on */
};

/* The first frame of in: its size; 0: more bytes are needed; ERR_PROTOCOL. */
MUST_CHECK long remote_frame_cut(struct slice in, struct remote_frame *f,
				 struct err *e);
void remote_frame_put(struct buf *b, uint8_t type, uint32_t host,
		      struct slice body);

/* ---- before the frames ---- */

enum remote_word {
	REMOTE_MORE,    /* no whole record yet; skip is noise all the same */
	REMOTE_FAR,     /* frames follow */
	REMOTE_COPIED,  /* ddprun was copied there; more follows */
	REMOTE_NEED,    /* rest: the file that it wants */
	REMOTE_MACHINE, /* rest: its own kind, which is not ours */
	REMOTE_FAIL,    /* rest: why it cannot be copied there */
};

struct remote_record {
	enum remote_word word;
	struct slice rest;
	size_t noise; /* so many bytes before it are none of ours */
	size_t size;  /* noise and record */
};

/* Never fails: what is no record is noise. */
void remote_record_find(struct slice in, struct remote_record *r);

/* ---- bodies; slices are borrowed from the frame ---- */

/* A list of texts, each NUL-ended, in one slice. */
struct remote_list {
	struct slice texts;
};

void remote_list_add(struct buf *texts, const char *text);
/* The next of them, NULL at the end; *at begins as 0. */
const char *remote_list_next(const struct remote_list *l, size_t *at);

struct remote_job {
	uint8_t check;      /* count what it has, run nothing */
	uint32_t silent_ms; /* so long without a word is a lost connection */
	uint32_t grace_ms;
	struct slice dir;
	struct slice secret; /* of the job, 32 bytes; or none */
	struct remote_list options, words, environment;
};

struct remote_branch {
	uint32_t width, timeout_ms, silent_ms;
	struct slice ssh;
	struct remote_list args;
	struct remote_list hosts; /* "NUMBER NAME" */
};

struct remote_ready {
	uint32_t code; /* what ddprun exits with; 0: it can run */
	struct slice text;
	struct slice host, addr; /* its name; where ssh came to */
	uint32_t nproc, cpus, gpus;
	uint64_t unix_ms;
};

void remote_job_put(struct buf *b, const struct remote_job *j);
MUST_CHECK int remote_job_get(struct slice body, struct remote_job *j);
void remote_branch_put(struct buf *b, const struct remote_branch *m);
MUST_CHECK int remote_branch_get(struct slice body, struct remote_branch *m);
void remote_ready_put(struct buf *b, const struct remote_ready *r);
MUST_CHECK int remote_ready_get(struct slice body, struct remote_ready *r);
/* The others are one of these, and nothing. -1: it is not. */
MUST_CHECK int remote_u32_get(struct slice body, uint32_t *n);

#endif
