/* stage_ring.c: the two mappings. */
#include "launcher/stage/stage_ring.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

int stage_ring_init(struct stage_ring *r)
{
	int fd = memfd_create("stage", MFD_CLOEXEC), rc = 0;
	char *to;

	if (fd < 0 || ftruncate(fd, STAGE_RING_SIZE) < 0)
		rc = -errno;
	to = rc < 0 ? MAP_FAILED
		    : mmap(NULL, 2 * (size_t)STAGE_RING_SIZE, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; to != MAP_FAILED && i < 2; i++) {
		if (mmap(to + i * STAGE_RING_SIZE, STAGE_RING_SIZE,
			 PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
			 0) == MAP_FAILED)
			rc = -errno;
	}
	if (rc == 0 && to == MAP_FAILED)
		rc = -errno;
	if (fd >= 0)
		close(fd);
	*r = (struct stage_ring){.data = rc < 0 ? NULL : to};
	return rc;
}
