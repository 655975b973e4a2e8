/* auth.h: how the processes of a job authenticate: by munge or by a secret,
 * chosen from the user's options and what this host has. The rules are in
 * docs/man/ddprun.1, "Who can join". */
#ifndef RENDEZVOUS_AUTH_H
#define RENDEZVOUS_AUTH_H

#include "rendezvous/auth/proof.h"

enum { AUTH_FROM_MAX = 800, AUTH_BYTES = 1 + PROOF_SIZE };

struct auth {
	unsigned methods;    /* enum wire_method: one; a server may have more */
	int is_key;          /* secret is already the key of the one job */
	int handed;	   /* secret is from the job's starter, not the user */
	int without_munge; /* munge cannot be used here: from has the reason */
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

/* Chooses by the user's options: method none, secret, munge, auto or NULL
 * (DDP_AUTH, else auto); token_file or NULL. auto takes the token file or
 * DDP_TOKEN; else the secret that Kubernetes mounts (secret.h); else munge if
 * this host has it; else the user's key file, made at its first use. A munge
 * socket that DDP_MUNGE_SOCKET does not name is ignored if libmunge is missing
 * (an image with its host's /run) or, outside Slurm, if no munged listens
 * there. That sets without_munge, which programs report. An error names what is
 * wrong on this host and the remedies. */
int auth_choose(struct auth *a, const char *method, const char *token_file,
		struct err *e);
/* After auth_choose has failed with e, for a job that no other host joins:
 * chooses a random secret if the options allow it and DDP_TOKEN is not set;
 * else e stays as it is. */
int auth_alone(struct auth *a, const char *method, const char *token_file,
	       struct err *e);
/* Whether the options leave the choice to us, so that a job that one process
 * starts may have a secret of its own. */
int auth_is_free(const char *method, const char *token_file);
/* The method, or $DDP_AUTH, is "none". */
int auth_is_none(const char *method);

/* Whether a ddprun that starts a job's nodes should generate a secret for it:
 * the options leave the choice to us, DDP_TOKEN is not set, and munge does not
 * answer. */
int auth_wants_secret(const char *method, const char *token_file);

/* Sets the authentication of a server that a client with `a` starts. With munge
 * the server also accepts a random secret, and a is changed to that. */
int auth_for_server(struct auth *server, struct auth *a, struct err *e);

/* A munge server that is restarted with its journal needs the secret that it
 * had: uses this user's own key if there is one. */
void auth_keep(struct auth *server);

/* Converts a server's authentication to AUTH_BYTES bytes for a pipe, and back:
 * methods (bit 7: is_key) and the secret. */
void auth_to_bytes(unsigned char *out, const struct auth *a);
void auth_from_bytes(struct auth *a, const unsigned char *in);

void auth_wipe(struct auth *a);

#endif
