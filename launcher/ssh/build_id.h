/* build_id.h: identifies this build of ddprun, and reads its files, which are
 * copied to a host without the same build. */
#ifndef LAUNCHER_BUILD_ID_H
#define LAUNCHER_BUILD_ID_H

#include <limits.h>

#include "base/buf.h"
#include "base/error.h"

enum { BUILD_ID_MAX = 80 };

struct build_id {
	char id[BUILD_ID_MAX]; /* the linker's, or version and size */
	char machine[66];      /* as uname -m */
	char self[PATH_MAX];
	char server[PATH_MAX]; /* the ddprdzv beside it; "": none */
	unsigned long long self_size, server_size;
};

void build_id_init(struct build_id *b);

/* Appends all of a file to out. -errno; the text names the file. */
int build_id_read(const char *path, struct buf *out, struct err *e);

#endif
