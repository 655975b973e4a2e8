/* credential.h: munge credentials: makes them, and reads their user and
 * payload. libmunge is loaded on first use. Calls block until munged answers,
 * and may run in any thread.
 *
 * munged's socket is $DDP_MUNGE_SOCKET, else the one in slurm.conf's AuthInfo,
 * else libmunge's default. */
#ifndef RENDEZVOUS_CREDENTIAL_H
#define RENDEZVOUS_CREDENTIAL_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/loop.h"

enum { CREDENTIAL_MAX = 1024 }; /* bytes, with a NUL */
#define CREDENTIAL_FOR_ALL ((uid_t)-1)

/* 1 if munged's socket exists. 0 if slurm.conf has another AuthType than munge
 * (auth/slurm). */
int credential_is_offered(void);
/* 1 if munge has a key or its socket was named, even if munged is down; 0 if
 * slurm.conf has another AuthType. */
int credential_is_expected(void);
/* 1 if DDP_MUNGE_SOCKET names the socket. */
int credential_is_named(void);
/* 0, or ERR_PROOF: libmunge is missing. */
int credential_load(struct err *e);

/* 0, or ERR_PROOF: munged does not answer; the text names this host and the
 * socket. */
int credential_try(struct err *e);
/* The same if munge is required: the text also gives the remedy. */
int credential_check(struct err *e);

/* Makes a credential of this process's user with that payload (at most 128
 * bytes), which only processes of uid can read, in out[CREDENTIAL_MAX].
 * ERR_PROOF. */
int credential_make(char *out, struct slice payload, uid_t uid, struct err *e);

/* Reads a credential's user, and its payload into payload[128]. Returns the
 * payload's size, or ERR_PROOF: it is invalid, expired, replayed, or not for
 * us. */
int credential_read(struct slice text, uid_t *uid, void *payload,
		    struct err *e);
/* The same for a stored credential: it may be old and may be read again. */
int credential_open(struct slice text, uid_t *uid, void *payload,
		    struct err *e);

/* A question to munge and its answer, without pointers, so that it can be
 * copied to another thread. */
struct credential_question {
	int reads; /* 1: read text; 0: make a credential with payload */
	unsigned char payload[128];
	int size; /* the payload's */
	char text[CREDENTIAL_MAX];
	uid_t uid; /* the maker's, or the only reader's */
	int rc;    /* credential_read's or credential_make's result */
	struct err why;
};

void credential_to_make(struct credential_question *q, struct slice payload,
			uid_t uid);
/* ERR_PROOF: that text is too long to be a credential. */
int credential_to_read(struct credential_question *q, struct slice text,
		       struct err *e);
/* Asks munge; blocks. */
void credential_ask(struct credential_question *q);
/* Sets ERR_PROOF: munged has not answered in time. */
int credential_is_late(struct err *e);

/* ---- whether the site's slurm.conf uses munge, and at which socket ---- */

enum { SLURM_CONF_SOCKET_MAX = 108 }; /* the size of sun_path */

struct slurm_conf {
	int without_munge; /* AuthType is another plugin */
	char munge_socket[SLURM_CONF_SOCKET_MAX]; /* AuthInfo's; "": none */
};

/* Pure. Does not read included files. */
void slurm_conf_parse(struct slurm_conf *c, struct slice text);

/* Reads $SLURM_CONF, else the first readable one of Slurm's usual paths, once;
 * all zeroes if there is none. Thread-safe. */
const struct slurm_conf *slurm_conf_load(void);

/* ---- credential_thread.c ----
 *
 * Asks munge in a separate thread and delivers the answer on the loop. libuv's
 * pool is unsuitable: libmunge retries for 10 s, and a program that ends
 * meanwhile would have to wait for the pool. */

struct credential_thread;

typedef void (*credential_answer_cb)(void *owner,
				     const struct credential_question *q);

/* Asks a copy of q, then calls on_answer once, from the loop; *out is invalid
 * from then on. Fails for lack of memory, descriptors or threads. */
int credential_thread_start(struct credential_thread **out, uv_loop_t *loop,
			    const struct credential_question *q,
			    credential_answer_cb on_answer, void *owner,
			    struct err *e);
/* The answer is not wanted any more: the loop and the program can end. */
void credential_thread_forget(struct credential_thread *t);

#endif
