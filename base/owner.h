/* owner.h: which users can change what a path names. */
#ifndef BASE_OWNER_H
#define BASE_OWNER_H

#include <limits.h>
#include <sys/types.h>

/* 1 in a user namespace in which this uid stands for all users that it does not
 * map; outside of all, also the user with that number is one user: 0. */
int owner_is_unmapped(uid_t uid);

/* A folder or a symbolic link on the way to a file. */
struct owner_place {
	char path[PATH_MAX];
	mode_t mode; /* st_mode */
	uid_t uid;
};

/* Follows path, and the symbolic links in it, from / to its last folder. 1 if a
 * user other than this one and root can put another file or link there: *at is
 * the first folder or link that such a user owns, or the first folder that
 * others, or a group other than this user's own, can write to and that is not
 * sticky. 0: there is none, or a part of path does not exist. -ENAMETOOLONG,
 * -ELOOP or another -errno: unknown. Blocks. */
int owner_find_other(const char *path, struct owner_place *at);

#endif
