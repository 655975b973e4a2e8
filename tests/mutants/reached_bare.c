/* reached_bare.c: what reached.c does, for the library that ddprun preloads
 * into workers to catch their crashes. As that library, it needs no other, not
 * even libc. It is compiled without marks of its own. */
#define _GNU_SOURCE
#include "launcher/crash/crash_kernel.h"

enum {
	SPAN = 1 << 20, /* a byte for each address; the file is sparse */
	OPEN_RW = 2, CREATE = 0100, CLOEXEC = 02000000, CWD = -100,
	MAP_RW = 3, MAP_IS_SHARED = 1,
};

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
WEAK char *getenv(const char *name); /* the process has it if it has a libc */
__attribute__((visibility("hidden"))) void __sanitizer_cov_trace_pc(void);
static unsigned char *marks;

static size_t reached_append(char *to, size_t at, size_t size,
			     const char *text)
{
	while (*text && at < size - 1)
		to[at++] = *text++;
	to[at] = '\0';
	return at;
}

__attribute__((constructor(101))) static void reached_open(void)
{
	const char *said = getenv ? getenv("DDP_TEST_REACHED") : NULL;
	char path[4096];
	long fd, map;
	size_t n;

	n = reached_append(path, 0, sizeof(path),
			   said ? said : "/tmp/reached");
	reached_append(path, n, sizeof(path), "/crash_handler.so");
	fd = CALL(SYS_openat, CWD, path, OPEN_RW | CREATE | CLOEXEC, 0666);
	if (fd < 0)
		return;
	CALL(SYS_fchmod, fd, 0666); /* for processes of other users */
	if (CALL(SYS_ftruncate, fd, SPAN) == 0) {
		map = crash_call(SYS_mmap, 0, SPAN, MAP_RW, MAP_IS_SHARED, fd,
				 0);
		if (map > 0 || map < -4095)
			marks = (unsigned char *)map;
	}
	CALL(SYS_close, fd);
}

void __sanitizer_cov_trace_pc(void)
{
	size_t at = (size_t)((const char *)__builtin_return_address(0) -
			     __ehdr_start);

	if (marks && at < SPAN)
		marks[at] = 1;
}
