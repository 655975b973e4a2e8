/* crash_catcher.c: the library's bytes, and the two memory files. */
#include "launcher/crash/crash_catcher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"

/* CRASH_LIBRARY is the Makefile's path of crash_handler.c's library. It is in
 * ddprun itself, so that a worker in a container finds it as well. */
__asm__(".pushsection .rodata\n"
	"crash_library_bytes:\n"
	".incbin \"" CRASH_LIBRARY "\"\n"
	"crash_library_end:\n"
	".byte 0\n"
	".popsection\n");
extern const char crash_library_bytes[] __attribute__((visibility("hidden")));
extern const char crash_library_end[] __attribute__((visibility("hidden")));

/* Linux 6.3: without it, vm.memfd_noexec decides. */
#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

void crash_catcher_init(struct crash_catcher *c)
{
	*c = (struct crash_catcher){.library = -1, .records = -1};
}

static void crash_catcher_drop(int *fd, char *path)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	path[0] = '\0';
}

void crash_catcher_release(struct crash_catcher *c)
{
	crash_catcher_drop(&c->library, c->library_path);
	crash_catcher_drop(&c->records, c->records_path);
}

static void crash_catcher_set_path(char *path, size_t size, int fd)
{
	snprintf(path, size, "/proc/%d/fd/%d", (int)getpid(), fd);
}

static int crash_catcher_make_library(struct crash_catcher *c)
{
	size_t n = (size_t)(crash_library_end - crash_library_bytes);
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;

	if (c->library >= 0)
		return 0;
	c->library = memfd_create("ddprun-crash-library", flags | MFD_EXEC);
	if (c->library < 0 && errno == EINVAL)
		c->library = memfd_create("ddprun-crash-library", flags);
	if (c->library < 0 ||
	    file_write_all(c->library, crash_library_bytes, n) < 0 ||
	    fcntl(c->library, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW |
		  F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		return -errno;
	crash_catcher_set_path(c->library_path, sizeof(c->library_path),
			       c->library);
	return 0;
}

/* Only the pages that a crash writes take memory. */
static int crash_catcher_make_records(struct crash_catcher *c, uint32_t n)
{
	c->n = n;
	c->records = memfd_create("ddprun-crash-records",
				  MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (c->records < 0 ||
	    ftruncate(c->records, (off_t)crash_slot_at(n, 0)) < 0 ||
	    fcntl(c->records, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
		return -errno;
	crash_catcher_set_path(c->records_path, sizeof(c->records_path),
			       c->records);
	return 0;
}

static void crash_catcher_give_up(struct crash_catcher *c, int rc)
{
	log_debug("no stacks of workers that crash: %s", strerror(-rc));
	crash_catcher_release(c);
}

void crash_catcher_prepare(struct crash_catcher *c)
{
	int rc = crash_catcher_make_library(c);

	if (rc < 0)
		crash_catcher_give_up(c, rc);
}

void crash_catcher_begin(struct crash_catcher *c, uint32_t n)
{
	int rc;

	crash_catcher_drop(&c->records, c->records_path);
	rc = crash_catcher_make_library(c);
	if (rc == 0)
		rc = crash_catcher_make_records(c, n);
	if (rc < 0)
		crash_catcher_give_up(c, rc);
}

int crash_catcher_read(const struct crash_catcher *c, uint32_t local_rank,
		       uint32_t slot, struct crash_record *r)
{
	off_t at = (off_t)crash_slot_at(local_rank, slot);

	if (c->records < 0 || local_rank >= c->n ||
	    pread(c->records, r, sizeof(*r), at) != (ssize_t)sizeof(*r) ||
	    r->magic != CRASH_MAGIC)
		return 0;
	/* a worker wrote it: trust nothing */
	r->thread[sizeof(r->thread) - 1] = '\0';
	r->program[sizeof(r->program) - 1] = '\0';
	r->file.path[CRASH_PATH - 1] = r->file.mount[CRASH_PATH - 1] = '\0';
	if (r->nregisters < 0 || r->nregisters > CRASH_REGISTERS)
		r->nregisters = 0;
	if (r->stack_size > CRASH_STACK_MAX)
		r->stack_size = CRASH_STACK_MAX;
	if (r->maps_size > CRASH_MAPS_MAX)
		r->maps_size = CRASH_MAPS_MAX;
	if (r->python_size > CRASH_PYTHON_MAX)
		r->python_size = CRASH_PYTHON_MAX;
	return 1;
}

void crash_catcher_read_part(const struct crash_catcher *c, uint32_t local_rank,
			     uint32_t slot, uint32_t at, char *out, size_t size)
{
	off_t from = (off_t)crash_slot_at(local_rank, slot) + at;
	ssize_t n = pread(c->records, out, size - 1, from);

	out[n > 0 ? n : 0] = '\0';
}

/* 1 if n bytes are there. A worker wrote them: trust nothing. */
static int crash_catcher_read_bytes(const struct crash_catcher *c,
				    uint32_t local_rank, uint32_t at, void *out,
				    size_t n)
{
	off_t from = (off_t)crash_slot_at(local_rank, CRASH_OWN) + at;

	return c->records >= 0 && local_rank < c->n &&
	       pread(c->records, out, n, from) == (ssize_t)n;
}

int crash_catcher_read_child(const struct crash_catcher *c, uint32_t local_rank,
			     struct crash_child *child)
{
	if (!crash_catcher_read_bytes(c, local_rank, CRASH_CHILD_AT, child,
				      sizeof(*child)) ||
	    child->magic != CRASH_MAGIC || child->pid <= 0 ||
	    child->signal <= 0)
		return 0;
	child->name[sizeof(child->name) - 1] = '\0';
	return 1;
}

int crash_catcher_read_sent(const struct crash_catcher *c, uint32_t local_rank,
			    int32_t pid, int32_t number,
			    struct crash_sent *sent)
{
	if (pid <= 0 ||
	    !crash_catcher_read_bytes(c, local_rank, crash_sent_at(pid), sent,
				      sizeof(*sent)) ||
	    sent->magic != CRASH_MAGIC || sent->pid != pid ||
	    sent->signal != number)
		return 0;
	sent->name[sizeof(sent->name) - 1] = '\0';
	return 1;
}

void crash_catcher_put_sender(const struct crash_sent *sent, struct buf *out)
{
	if (sent->sender <= 0) {
		buf_printf(out, "sent by a process outside its PID namespace");
		return;
	}
	if (sent->sender == sent->pid) {
		buf_printf(out, "sent by the process itself");
		return;
	}
	buf_printf(out, "sent by process %d", (int)sent->sender);
	if (sent->name[0])
		buf_printf(out, " (%s)", sent->name);
	buf_printf(out, " of uid %u", (unsigned)sent->uid);
}
