/* build_id.h: which ddprun this is, and the files that it consists of: another
 * host's must be the same build, or gets these. Reads files, starts nothing. */
#ifndef LAUNCHER_BUILD_ID_H
#define LAUNCHER_BUILD_ID_H

#include <limits.h>

#include "base/buf.h"
#include "base/error.h"

enum { BUILD_ID_MAX = 80 };

struct build_id {
	char id[BUILD_ID_MAX]; /* the linker's; where it made none, the version
				* and the size */
	char machine[66];      /* as uname -m */
	char self[PATH_MAX];
	char server[PATH_MAX]; /* the ddprdzv beside it; "": there is none */
	unsigned long long self_size, server_size;
};

void build_id_init(struct build_id *b);

/* All of a file, into out; -errno, naming it. */
int build_id_read(const char *path, struct buf *out, struct err *e);

#endif
