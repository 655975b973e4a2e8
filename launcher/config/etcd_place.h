/* etcd_place.h: the etcd that a job meets at (--rdzv-backend etcd): its
 * members, and how they are spoken with. Checks what the user says of it; who
 * asks etcd is each node's ddprdzv. docs/etcd.md has the whole story. */
#ifndef LAUNCHER_ETCD_PLACE_H
#define LAUNCHER_ETCD_PLACE_H

#include "base/sock.h"

enum {
	ETCD_PLACE_FILE_MAX = 256,
	ETCD_PLACE_PORT = 2379,
	ETCD_PLACE_MEMBERS_MAX = 16,
	ETCD_PLACE_TTL_S = 10,
	ETCD_PLACE_TTL_MAX_S = 3600,
};

struct etcd_place {
	const char *members; /* "h1:2379,h2"; NULL: the job has no etcd */
	int https;
	/* files; "": the system's certificates, none of our own */
	char cacert[ETCD_PLACE_FILE_MAX];
	char cert[ETCD_PLACE_FILE_MAX], key[ETCD_PLACE_FILE_MAX];
	long ttl_s; /* a server that is gone without a word is replaced then */
};

/* 1 for torchrun's names of it, "etcd" and "etcd-v2". */
int etcd_place_is_backend(const char *name);

/* The members into out (room for ETCD_PLACE_MEMBERS_MAX); returns how many, or
 * ERR_USAGE with the text that says which of them cannot be read. */
int etcd_place_members(const char *text, struct endpoint *out, struct err *e);

/* The options that go together do. */
int etcd_place_check(const struct etcd_place *p, struct err *e);

/* "etcd (h1:2379, h2:2379)", for people; cut where it is too long. */
char *etcd_place_text(const struct etcd_place *p, char text[SOCK_TEXT_MAX]);

/* --rdzv-conf: 1: the key is one of ours, and taken; 0: it is another; or
 * ERR_USAGE, *why says what the value should be. */
int etcd_place_take(struct etcd_place *p, const char *key, const char *value,
		    const char **why);

#endif
