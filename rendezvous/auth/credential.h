/* credential.h: munge's credentials: who made one, on which host of the
 * cluster, and what is in it. libmunge is loaded when it is needed. What is
 * here blocks for as long as munged takes to answer, and may run in any thread.
 *
 * munged is looked for at $DDP_MUNGE_SOCKET, else where slurm.conf's AuthInfo
 * says that it is, else where libmunge does. */
#ifndef RENDEZVOUS_CREDENTIAL_H
#define RENDEZVOUS_CREDENTIAL_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"

enum { CREDENTIAL_MAX = 1024 }; /* bytes, with a NUL */
#define CREDENTIAL_FOR_ALL ((uid_t)-1)

/* 1 where munged's socket is: munge is how this host knows its users. 0 where
 * slurm.conf says that Slurm has another way (AuthType=auth/slurm). */
int credential_is_offered(void);
/* 1 where munge has a key or its socket was named, running or not; 0 where
 * slurm.conf says otherwise, as above. */
int credential_is_expected(void);
/* 1 where the user says by DDP_MUNGE_SOCKET that it is to be asked there. */
int credential_is_named(void);
/* 0, or ERR_PROOF: there is no libmunge here by which it could be asked. */
int credential_load(struct err *e);

/* 0, or ERR_PROOF at once: munged does not answer, or cannot be asked; the text
 * names this host and the socket. */
int credential_try(struct err *e);
/* The same where nothing else will do: the text says what to do, too. */
int credential_check(struct err *e);

/* One of this process's user, with that payload (at most 128 bytes), which only
 * processes of uid can read; into out[CREDENTIAL_MAX]. ERR_PROOF. */
int credential_make(char *out, struct slice payload, uid_t uid, struct err *e);

/* Whose it is, and its payload into payload[128]: the payload's size, or
 * ERR_PROOF: it is none, too old, was read before, or is not for us. */
int credential_read(struct slice text, uid_t *uid, void *payload,
		    struct err *e);
/* The same of one that was kept: it may be old, and may be read again. */
int credential_open(struct slice text, uid_t *uid, void *payload,
		    struct err *e);

/* A question to munge and its answer, in one piece that can be given to another
 * thread: nothing in it points anywhere. */
struct credential_question {
	int reads; /* what is in text? Else: a credential with payload */
	unsigned char payload[128];
	int size; /* of the payload */
	char text[CREDENTIAL_MAX];
	uid_t uid; /* who made it, or alone can read it */
	int rc;    /* of credential_read or credential_make, and: */
	struct err why;
};

void credential_to_make(struct credential_question *q, struct slice payload,
			uid_t uid);
/* ERR_PROOF: that text is too long to be a credential. */
int credential_to_read(struct credential_question *q, struct slice text,
		       struct err *e);
/* Asks it; blocks. */
void credential_ask(struct credential_question *q);
/* munged has not answered within the time that somebody had: ERR_PROOF. */
int credential_is_late(struct err *e);

#endif
