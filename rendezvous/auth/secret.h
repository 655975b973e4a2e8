/* secret.h: a user's secret on hosts without munge: a token, a token file, or
 * the user's key file, which is made once. */
#ifndef RENDEZVOUS_SECRET_H
#define RENDEZVOUS_SECRET_H

#include "rendezvous/auth/proof.h"

enum {
	SECRET_MIN = 16,       /* a token's length */
	SECRET_MAX = 4096,
	SECRET_FROM_MAX = 400, /* "the key file PATH", cut */
};

struct secret {
	struct proof value;
	char from[SECRET_FROM_MAX]; /* its source, for messages */
};

/* from: its source. ERR_USAGE: too short, or too long. */
int secret_of_text(struct secret *s, struct slice text, const char *from,
		   struct err *e);

/* The file's text without trailing white space. ERR_PROOF if the file belongs
 * to another user, can be read or changed by others, or if another user can
 * replace it (base/owner.h). The last does not apply to the mounts of
 * Kubernetes and systemd. What /dev and /proc name may be any pipe. */
int secret_of_file(struct secret *s, const char *path, const char *what,
		   struct err *e);

/* The secret that Kubernetes mounts for all pods of a job: its path if there is
 * such a file, else NULL. It belongs to root, and may be readable by the pod's
 * group (fsGroup). */
const char *secret_mounted(void);

/* The key file, ${XDG_CONFIG_HOME:-~/.config}/ddprun/key, made if it is
 * missing. Two hosts that make it at once in a shared home directory get the
 * same one. ERR_PROOF as secret_of_file; if it cannot be made, the error names
 * the alternatives. */
int secret_of_user(struct secret *s, struct err *e);

/* ---- tenants of a shared server: the job "alice/run7" belongs to the holder
 * of the token in the file alice of a folder. The file is read on each use, so
 * that tokens can be added, changed or removed while the server runs. */

/* 1 and *secret: the job belongs to a tenant. 0: its name has no tenant part.
 * ERR_PROOF: there is no such tenant, or its file is not a valid secret; the
 * text is for the log only. */
int secret_of_tenant(const char *folder, struct slice job, struct proof *secret,
		     struct err *e);

#endif
