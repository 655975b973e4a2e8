/* etcd_options.h: the etcd that a job meets at (--rdzv-backend etcd): its
 * members, and how to speak to them. Checks the user's settings. Each node's
 * ddprdzv is etcd's client. docs/etcd.md has the whole story. */
#ifndef LAUNCHER_ETCD_OPTIONS_H
#define LAUNCHER_ETCD_OPTIONS_H

#include "base/sock.h"

enum {
	ETCD_OPTIONS_FILE_MAX = 256,
	ETCD_OPTIONS_PORT = 2379,
	ETCD_OPTIONS_MEMBERS_MAX = 16,
	ETCD_OPTIONS_TTL_S = 10,
	ETCD_OPTIONS_TTL_MAX_S = 3600,
};

struct etcd_options {
	const char *members; /* "h1:2379,h2"; NULL: the job has no etcd */
	int https;
	/* files; "": the system's certificates, none of our own */
	char cacert[ETCD_OPTIONS_FILE_MAX];
	char cert[ETCD_OPTIONS_FILE_MAX], key[ETCD_OPTIONS_FILE_MAX];
	long ttl_s; /* a server that is gone without a word is replaced then */
};

/* 1 for torchrun's names of it, "etcd" and "etcd-v2". */
int etcd_options_is_backend(const char *name);

/* The members into out[ETCD_OPTIONS_MEMBERS_MAX]: how many, or ERR_USAGE
 * naming the member that cannot be read. */
int etcd_options_members(const char *text, struct endpoint *out, struct err *e);

/* The options that go together do. */
int etcd_options_check(const struct etcd_options *p, struct err *e);

/* "etcd (h1:2379, h2:2379)", for people; cut where it is too long. */
char *etcd_options_text(const struct etcd_options *p, char text[SOCK_TEXT_MAX]);

/* --rdzv-conf: 1: the key is one of ours, and taken; 0: it is another; or
 * ERR_USAGE, *why says what the value should be. */
int etcd_options_take(struct etcd_options *p, const char *key,
		      const char *value,
		    const char **why);

#endif
