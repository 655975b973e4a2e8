/* recorder.c: opens the agent's file, or makes one like it. */
#include "worker-sdk/core/recorder.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

/* Opens "/proc/4711/fd/9:3", which is part 3 of that file. Returns the
 * descriptor, or -1. In a container with its own /proc the number may belong to
 * another process, so the file must be a regular file and its contents must
 * name our agent. */
static int recorder_open_file(struct flight_file *head, long *part)
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
	if (flight_file_read(head, fd) == 0 &&
	    strcmp(head->agent_id, agent) == 0 && *part < head->parts &&
	    fstat(fd, &st) == 0 &&
	    (uint64_t)st.st_size >=
		    flight_part_at(head, (uint32_t)*part) + head->part_size)
		return fd;
	close(fd);
	return -1;
}

static void *recorder_map(int fd, uint64_t at)
{
	/* map the pages now, not during the first 256 calls */
	int flags = MAP_POPULATE |
		    (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
	void *p = mmap(NULL, sizeof(struct flight), PROT_READ | PROT_WRITE,
		       flags, fd, (off_t)at);

	return p == MAP_FAILED ? NULL : p;
}

/* ---- without an agent ---- */

/* A name, for people, that all ranks started together share. */
static void recorder_name_job(const struct ddp__env *env, char *out,
			      size_t size)
{
	const char *who = ddp__env_starter(env);
	const char *space = getenv("PMIX_NAMESPACE");
	const char *job = getenv("SLURM_JOB_ID");
	const char *step = getenv("SLURM_STEP_ID");

	/* longer names are cut */
	if (env->starter == DDP__NOBODY)
		snprintf(out, size, "pid %d", (int)getpid());
	else if (env->starter == DDP__TORCHRUN) /* most run ids are "none" */
		snprintf(out, size, "%s %.200s:%u", who, env->server.host,
			 (unsigned)env->server.port);
	else if (env->job)
		snprintf(out, size, "%s", env->job);
	else if (space)
		snprintf(out, size, "%s %s", who, space);
	else if (job && step)
		snprintf(out, size, "%s %s.%s", who, job, step);
	else
		snprintf(out, size, "%s, pid %d", who, (int)getppid());
}

/* Makes the file as if this process were its own agent, and as if that agent
 * had started the lower ranks of this host elsewhere. */
static int recorder_make_file(const struct flight_file *head, uint32_t local)
{
	const struct flight_worker me = {.pid = getpid()};
	int fd = memfd_create(FLIGHT_FILE_NAME,
			      MFD_CLOEXEC | MFD_ALLOW_SEALING);
	off_t at = (off_t)(sizeof(*head) + local * sizeof(me));
	size_t size = flight_part_at(head, head->parts);

	if (fd < 0)
		return -1;
	/* ftruncate beyond the file size limit raises a signal */
	if (file_check_limit(fd, size) == 0 &&
	    ftruncate(fd, (off_t)size) == 0 &&
	    pwrite(fd, head, sizeof(*head), 0) == (ssize_t)sizeof(*head) &&
	    pwrite(fd, &me, sizeof(me), at) == (ssize_t)sizeof(me) &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
		return fd;
	close(fd);
	return -1;
}

static struct flight *recorder_open_own(const struct ddp__env *env,
					const char *host, int *fd)
{
	struct flight_file head = {.agent_pid = getpid(), .nodes = 1};
	uint32_t rank = (uint32_t)env->rank, local = 0;
	struct flight *f = NULL;

	if (env->local_rank > 0 && env->local_rank <= env->rank)
		local = (uint32_t)env->local_rank;
	head.base_rank = rank - local;
	head.world_size = (uint32_t)env->world_size;
	head.attempt = (uint32_t)env->attempt;
	flight_file_layout(&head, local + 1);
	recorder_name_job(env, head.job, sizeof(head.job));
	snprintf(head.host, sizeof(head.host), "%s", host);
	*fd = recorder_make_file(&head, local);
	if (*fd >= 0)
		f = recorder_map(*fd, flight_part_at(&head, local));
	if (!f && *fd >= 0) {
		close(*fd);
		*fd = -1;
	}
	return f ? f : recorder_map(-1, 0);
}

struct flight *ddp__recorder_open(const struct ddp__env *env, const char *host,
				  int *fd)
{
	const char *value = getenv("DDP_RECORDER");
	struct flight_file head;
	struct flight *f = NULL;
	long part = 0;
	int agents;

	*fd = -1;
	if (value && strcmp(value, "off") == 0)
		return NULL;
	agents = recorder_open_file(&head, &part);
	if (agents >= 0) {
		f = recorder_map(agents, flight_part_at(&head, (uint32_t)part));
		close(agents);
	}
	if (!f)
		f = recorder_open_own(env, host, fd);
	if (f)
		flight_start(f, (uint32_t)env->rank,
			     (uint32_t)env->world_size);
	return f;
}

void ddp__recorder_close(struct flight *f, int fd)
{
	if (f)
		munmap(f, sizeof(*f));
	if (fd >= 0)
		close(fd);
}

char *ddp__recorder_seen(uint32_t rank, char *out)
{
	struct flight_file head;
	struct flight_view *v;
	long part;
	int fd = recorder_open_file(&head, &part);

	out[0] = '\0';
	if (fd < 0)
		return out;
	v = malloc(sizeof(*v));
	/* a part may belong to an earlier process of that worker */
	if (v && rank >= head.base_rank && rank - head.base_rank < head.parts &&
	    flight_read_at(v, fd,
			   flight_part_at(&head, rank - head.base_rank)) == 0 &&
	    v->rank == rank)
		flight_seen_text(v, out);
	free(v);
	close(fd);
	return out;
}
