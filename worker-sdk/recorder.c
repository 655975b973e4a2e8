/* recorder.c: opening the agent's file, of which this is one part. */
#include "worker-sdk/recorder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* "/proc/4711/fd/9:3" is part 3 of that file. Returns the descriptor, or -1.
 * The number may be another process's here (a container with a /proc of its
 * own): so what is opened must be a file, and say that it is our agent's. */
static int open_file(struct flight_file *head, long *part)
{
	const char *value = getenv("DDP_RECORDER");
	const char *agent = getenv("DDP_AGENT_ID");
	const char *colon = value ? strrchr(value, ':') : NULL;
	char path[64], *end;
	struct stat st;
	int fd;

	if (!colon || !agent || colon[1] < '0' || colon[1] > '9' ||
	    (size_t)(colon - value) >= sizeof(path))
		return -1;
	*part = strtol(colon + 1, &end, 10);
	memcpy(path, value, (size_t)(colon - value));
	path[colon - value] = '\0';
	if (*end || stat(path, &st) || !S_ISREG(st.st_mode))
		return -1;
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return -1;
	if (flight_file_take(head, fd) == 0 &&
	    strcmp(head->agent_id, agent) == 0 && *part < head->parts &&
	    fstat(fd, &st) == 0 &&
	    (uint64_t)st.st_size >=
		    flight_part_at(head, (uint32_t)*part) + head->part_size)
		return fd;
	close(fd);
	return -1;
}

static void *map(int fd, uint64_t at)
{
	/* touched now: not in the first 256 calls */
	int flags = MAP_POPULATE |
		    (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
	void *p = mmap(NULL, sizeof(struct flight), PROT_READ | PROT_WRITE,
		       flags, fd, (off_t)at);

	return p == MAP_FAILED ? NULL : p;
}

struct flight *ddp__recorder_open(uint32_t rank, uint32_t world_size)
{
	const char *value = getenv("DDP_RECORDER");
	struct flight_file head;
	struct flight *f = NULL;
	long part = 0;
	int fd;

	if (value && strcmp(value, "off") == 0)
		return NULL;
	fd = open_file(&head, &part);
	if (fd >= 0) {
		f = map(fd, flight_part_at(&head, (uint32_t)part));
		close(fd);
	}
	if (!f)
		f = map(-1, 0);
	if (f)
		flight_start(f, rank, world_size);
	return f;
}

void ddp__recorder_close(struct flight *f)
{
	if (f)
		munmap(f, sizeof(*f));
}

char *ddp__recorder_seen(uint32_t rank, char *out)
{
	struct flight_file head;
	struct flight_view *v;
	long part;
	int fd = open_file(&head, &part);

	out[0] = '\0';
	if (fd < 0)
		return out;
	v = malloc(sizeof(*v));
	/* a part may be an earlier program's of that worker */
	if (v && rank >= head.base_rank && rank - head.base_rank < head.parts &&
	    flight_take(v, fd, flight_part_at(&head, rank - head.base_rank)) ==
		    0 && v->rank == rank)
		flight_seen_text(v, out);
	free(v);
	close(fd);
	return out;
}
