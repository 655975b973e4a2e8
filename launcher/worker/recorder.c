/* recorder.c: a memfd, which is freed when the last descriptor closes. */
#include "launcher/worker/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"

void recorder_init(struct recorder *r)
{
	*r = (struct recorder){.fd = -1};
}

void recorder_release(struct recorder *r)
{
	if (r->head)
		munmap(r->head, r->size);
	if (r->fd >= 0)
		close(r->fd);
	recorder_init(r);
}

/* Only written pages take memory: a part does when its worker opens it. */
static int recorder_make_file(struct recorder *r, struct flight_file *head)
{
	r->fd = memfd_create(FLIGHT_FILE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (r->fd < 0 ||
	    ftruncate(r->fd, (off_t)flight_part_at(head, head->parts)) < 0)
		return -errno;
	/* truncation would kill processes that have it mapped */
	if (fcntl(r->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
		return -errno;
	r->head = mmap(NULL, r->size, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd,
		       0);
	if (r->head == MAP_FAILED) {
		r->head = NULL;
		return -errno;
	}
	memcpy(r->head, head, sizeof(*head));
	return 0;
}

void recorder_begin(struct recorder *r, const struct recorder_round *round)
{
	struct flight_file head = {
		.agent_pid = getpid(), .round = round->round,
		.attempt = round->attempt, .base_rank = round->base_rank,
		.world_size = round->world_size,
		.node_rank = round->node_rank, .nodes = round->nodes,
	};
	int rc;

	recorder_release(r);
	r->size = flight_file_layout(&head, round->nproc);
	snprintf(head.agent_id, sizeof(head.agent_id), "%s", round->agent_id);
	snprintf(head.job, sizeof(head.job), "%s", round->job);
	snprintf(head.host, sizeof(head.host), "%s", round->host);
	snprintf(head.server, sizeof(head.server), "%s", round->server);
	snprintf(head.job_key, sizeof(head.job_key), "%s", round->job_key);
	rc = recorder_make_file(r, &head);
	if (rc == 0) {
		snprintf(r->path, sizeof(r->path), "/proc/%d/fd/%d",
			 (int)getpid(), r->fd);
		return;
	}
	log_debug("no flight recorder: %s", strerror(-rc));
	recorder_release(r);
}

void recorder_started(struct recorder *r, uint32_t local_rank, pid_t pid)
{
	if (r->head)
		r->head->workers[local_rank].pid = pid;
}

/* The parts are not mapped here: workers that mapped them see file writes. */
static off_t recorder_offset(const struct recorder *r, uint32_t part,
			     size_t offset)
{
	return (off_t)(flight_part_at(r->head, part) + offset);
}

void recorder_stop(struct recorder *r)
{
	const uint32_t stop = 1;

	for (uint32_t i = 0; r->head && i < r->head->parts; i++)
		if (pwrite(r->fd, &stop, sizeof(stop),
			   recorder_offset(r, i,
					   offsetof(struct flight, stop))) < 0)
			log_debug("cannot ask a worker to stop: %s",
				  strerror(errno));
}

int recorder_asks(const struct recorder *r, uint32_t local_rank)
{
	uint32_t asks = 0;

	if (r->head &&
	    pread(r->fd, &asks, sizeof(asks),
		  recorder_offset(r, local_rank,
				  offsetof(struct flight, polls))) < 0)
		asks = 0;
	return asks == FLIGHT_POLLS || asks == FLIGHT_NOTIFIED ? (int)asks : 0;
}

/* Calls write with the head and then with each rank's part. */
static int recorder_each_part(const struct recorder *r,
			      int (*write)(void *arg, const void *p, size_t n),
			      void *arg)
{
	struct flight_file *head;
	size_t size;
	char *part;
	int rc;

	if (!r->head || !r->head->parts)
		return 0;
	size = r->head->part_size;
	head = malloc(r->size);
	part = malloc(size);
	rc = head && part ? 0 : -ENOMEM;
	if (rc == 0) {
		memcpy(head, r->head, r->size);
		memset(head->job_key, 0, sizeof(head->job_key));
		head->saved_s = (uint32_t)(clock_ns() / 1000000000);
		rc = write(arg, head, r->size);
	}
	for (uint32_t i = 0; rc == 0 && i < r->head->parts; i++) {
		if (pread(r->fd, part, size, recorder_offset(r, i, 0)) !=
		    (ssize_t)size)
			rc = -EIO;
		else
			rc = write(arg, part, size);
	}
	free(part);
	free(head);
	return rc;
}

static int recorder_put_part(void *arg, const void *p, size_t n)
{
	struct buf *out = arg;

	buf_put(out, p, n);
	return out->failed;
}

int recorder_put(const struct recorder *r, struct buf *out)
{
	return recorder_each_part(r, recorder_put_part, out);
}

static int recorder_write_part(void *arg, const void *p, size_t n)
{
	return file_write_all(*(const int *)arg, p, n);
}

int recorder_save(const struct recorder *r, const char *path)
{
	int fd, rc;

	if (!r->head || !r->head->parts)
		return 0;
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	rc = fd < 0 ? -errno
		    : recorder_each_part(r, recorder_write_part, &fd);
	return file_close(fd, rc);
}

int recorder_has_begun(const struct recorder *r, uint32_t local_rank)
{
	uint64_t magic = 0;

	return r->head &&
	       pread(r->fd, &magic, sizeof(magic),
		     recorder_offset(r, local_rank,
				     offsetof(struct flight, magic))) > 0 &&
	       magic == FLIGHT_MAGIC;
}

int recorder_is_in_world(const struct recorder *r, uint32_t local_rank)
{
	uint64_t magic = 0;
	uint32_t size = 0;

	/* the world is the first communicator; ddp_finalize removes it */
	if (!r->head ||
	    pread(r->fd, &magic, sizeof(magic),
		  recorder_offset(r, local_rank,
				  offsetof(struct flight, magic))) < 0 ||
	    pread(r->fd, &size, sizeof(size),
		  recorder_offset(r, local_rank,
				  offsetof(struct flight, comms[0].size))) <
		  0)
		return 0;
	return magic == FLIGHT_MAGIC && size > 1;
}

char *recorder_missed(const struct recorder *r, uint32_t local_rank, char *out)
{
	struct flight_view *v = r->head ? malloc(sizeof(*v)) : NULL;
	int i = 0;

	out[0] = '\0';
	if (v &&
	    flight_read_at(v, r->fd, flight_part_at(r->head, local_rank)) == 0)
		i = v->n;
	while (i > 0 && v->ops[i - 1].state == FLIGHT_FAILED)
		i--;
	if (v && i < v->n)
		flight_op_text(v, &v->ops[i], out);
	free(v);
	return out;
}

char *recorder_last(const struct recorder *r, uint32_t local_rank,
		    uint64_t now_ns, char *out)
{
	struct flight_view *v = r->head ? malloc(sizeof(*v)) : NULL;

	out[0] = '\0';
	if (v &&
	    flight_read_at(v, r->fd, flight_part_at(r->head, local_rank)) == 0)
		flight_last_text(v, now_ns, out);
	free(v);
	return out;
}
