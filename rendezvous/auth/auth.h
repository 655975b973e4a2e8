/* auth.h: how the processes of a job authenticate: by munge, or by which
 * secret, chosen from the user's options and what this host has. The rules are
 * in docs/ddprun.1, "Who can join". */
#ifndef RENDEZVOUS_AUTH_H
#define RENDEZVOUS_AUTH_H

#include "rendezvous/auth/proof.h"

enum { AUTH_FROM_MAX = 800, AUTH_BYTES = 1 + PROOF_SIZE };

struct auth {
	unsigned methods;    /* enum wire_method: one; a server may have more */
	int is_key;          /* secret is already the key of the one job */
	int handed;	   /* secret is from the job's starter, not the user */
	int without_munge; /* munge cannot be asked here: from has the reason */
	struct proof secret; /* unused by a client with munge */
	char from[AUTH_FROM_MAX]; /* "DDP_TOKEN on h2", for messages */
};

/* No authentication. */
void auth_none(struct auth *a);
/* A random secret for one job. */
int auth_random(struct auth *a, const char *from, struct err *e);
void auth_of_secret(struct auth *a, const struct proof *secret,
		    const char *from);
/* A job's key from DDP_JOB_KEY; "" or NULL: no authentication. ERR_USAGE: it is
 * not a key. */
int auth_of_key(struct auth *a, const char *hex, struct err *e);

/* What the user's words mean on this host: method none, secret, munge, auto or
 * NULL (DDP_AUTH, else auto); token_file or NULL. auto: DDP_TOKEN, the file;
 * else munge where it is; else the user's key file, made at its first use. A
 * socket of munge's that nobody has named is no munge where there is no
 * libmunge (in an image that has /run of its host) or, outside of Slurm, where
 * no munged listens at it: without_munge, and a program says so. An error names
 * what is wrong on this host and the ways out of it. */
int auth_choose(struct auth *a, const char *method, const char *token_file,
		struct err *e);
/* Where that failed with e, for a job that no other host joins: a random
 * secret, if the words leave it to us and there is no DDP_TOKEN; else e stays
 * as it is. */
int auth_alone(struct auth *a, const char *method, const char *token_file,
	       struct err *e);
/* Whether those words leave it to us, so that a job which one process starts
 * may have a secret of its own. */
int auth_is_free(const char *method, const char *token_file);
/* Those words, or $DDP_AUTH, are "none". */
int auth_is_none(const char *method);

/* Whether a ddprun that starts a job's nodes is to draw a secret for it: the
 * words leave it to us, there is no DDP_TOKEN, and munge does not answer. */
int auth_wants_secret(const char *method, const char *token_file);

/* From a client's way to that of a server which it starts: with munge the
 * server gets a random secret, too, that a is changed to. */
int auth_for_server(struct auth *server, struct auth *a, struct err *e);

/* A server of munge's that comes back after its end, with its journal, needs
 * the secret that it had: this user's own, where there is one. */
void auth_keep(struct auth *server);

/* A server's as AUTH_BYTES bytes for a pipe, and back: methods (bit 7: is_key)
 * and the secret. */
void auth_to_bytes(unsigned char *out, const struct auth *a);
void auth_from_bytes(struct auth *a, const unsigned char *in);

void auth_wipe(struct auth *a);

#endif
