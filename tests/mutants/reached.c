/* reached.c: linked into programs that are compiled with
 * -fsanitize-coverage=trace-pc; marks each basic block that runs, in a file of
 * $DDP_TEST_REACHED named after the program or library. The file is mapped:
 * marks outlive the SIGKILL of their process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SPAN = 16 << 20 }; /* a byte for each address; the file is sparse */

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
__attribute__((visibility("hidden"))) void __sanitizer_cov_trace_pc(void);
static unsigned char *marks;

__attribute__((constructor)) static void reached_open(void)
{
	/* what sshd or env -i started has no variable */
	const char *said = getenv("DDP_TEST_REACHED"), *name;
	const char *folder = said ? said : "/tmp/reached";
	char path[4096];
	Dl_info info;
	void *map;
	int fd;

	if (!dladdr(__ehdr_start, &info))
		return;
	name = strrchr(info.dli_fname, '/');
	snprintf(path, sizeof(path), "%s/%s", folder,
		 name ? name + 1 : info.dli_fname);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		return;
	fchmod(fd, 0666); /* for processes of other users */
	map = MAP_FAILED;
	if (ftruncate(fd, SPAN) == 0)
		map = mmap(NULL, SPAN, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			   0);
	close(fd);
	if (map != MAP_FAILED)
		marks = map;
}

void __sanitizer_cov_trace_pc(void)
{
	size_t at = (size_t)((const char *)__builtin_return_address(0) -
			     __ehdr_start);

	if (marks && at < SPAN)
		marks[at] = 1;
}
