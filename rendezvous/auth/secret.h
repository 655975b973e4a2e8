/* secret.h: the secret of a user whose nodes have no munge: given as a token,
 * in a file, or made once and kept in the user's own key file. */
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
	char from[SECRET_FROM_MAX]; /* where it is from, for people */
};

/* from: what is to be said of it. ERR_USAGE: too short, or too long. */
int secret_of_text(struct secret *s, struct slice text, const char *from,
		   struct err *e);

/* The file's text without the white space at its end. A file that is another
 * user's, or that others may read, is refused with ERR_PROOF. */
int secret_of_file(struct secret *s, const char *path, const char *what,
		   struct err *e);

/* The key file, ${XDG_CONFIG_HOME:-~/.config}/ddprun/key, which is made where
 * there is none: two hosts that do so at once in a home directory that they
 * share end with the same. Refused as secret_of_file does; an error that it
 * cannot be made names the other ways. */
int secret_of_user(struct secret *s, struct err *e);

#endif
