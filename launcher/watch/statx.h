/* statx.h: what the kernel knows of a file, which need not ask the file's
 * server. musl has statx since 1.2.5, Linux since 4.11. */
#ifndef LAUNCHER_WATCH_STATX_H
#define LAUNCHER_WATCH_STATX_H

#include <sys/stat.h>

#ifndef STATX_TYPE
#include <linux/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline int statx(int dir, const char *path, int flags, unsigned mask,
			struct statx *st)
{
	return (int)syscall(SYS_statx, dir, path, flags, mask, st);
}
#endif

#endif
