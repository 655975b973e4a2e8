/* old_glibc.h: calls of Linux that glibc 2.28 has no function for. `make wheel`
 * includes it before each source. */
#ifndef PYTHON_OLD_GLIBC_H
#define PYTHON_OLD_GLIBC_H

/* its headers may be newer than its functions */
#define DDP_OLD_GLIBC 1

#include <sys/syscall.h>
#include <unistd.h>

#if !__GLIBC_PREREQ(2, 34)
static inline int close_range(unsigned first, unsigned last, int flags)
{
	return (int)syscall(SYS_close_range, first, last, flags);
}
#endif

#endif
