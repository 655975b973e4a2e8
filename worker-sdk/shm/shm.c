/* shm.c: the segment, and posting steps in it. */
#include "worker-sdk/shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker-sdk/shm/shm_p2p.h"

enum { CPU_WORDS = DDP__SHM_CPUS / 64 };

static const char magic[8] = {'d', 'd', 'p', ' ', 's', 'h', 'm', '\n'};

static size_t shm_slot_size(void)
{
	return DDP__SHM_HEAD + 2 * (size_t)(DDP__SHM_IN + DDP__SHM_OUT);
}

/* Bytes of each ring. There are n * n rings, so fewer ranks have larger
 * ones. */
static size_t shm_ring_size(size_t n)
{
	return n <= 8 ? 1 << 20 : n <= 32 ? 256 << 10 : 64 << 10;
}

static size_t shm_segment_size(size_t n)
{
	return DDP__SHM_CONTROL + n * shm_slot_size() +
	       n * n * (DDP__SHM_CONTROL + shm_ring_size(n));
}

/* Checks the file size limit, because exceeding it would raise a signal instead
 * of an error. */
static int shm_check_limit(size_t size)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_FSIZE, &limit) &&
			       limit.rlim_cur != RLIM_INFINITY &&
			       size > limit.rlim_cur
		       ? EFBIG
		       : 0;
}

int ddp__shm_create(size_t ranks, const unsigned char cookie[DDP__COOKIE],
		    struct err *e)
{
	struct ddp__shm_header h;
	size_t size = 0;
	int fd = memfd_create("ddp", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return err_set(e, -errno,
			       "cannot create shared memory (memfd_create): %s",
			       strerror(errno));
	memset(&h, 0, sizeof(h));
	memcpy(h.magic, magic, sizeof(magic));
	h.version = DDP__SHM_VERSION;
	h.slot_size = (uint32_t)shm_slot_size();
	memcpy(h.cookie, cookie, DDP__COOKIE);
	/* any number of the ranks may turn out to be on this host */
	for (size_t n = 1; n <= ranks; n++)
		if (shm_segment_size(n) > size)
			size = shm_segment_size(n);
	errno = shm_check_limit(size);
	/* sealed: if the file shrank, a rank that touches it would die of
	 * SIGBUS */
	if (errno || ftruncate(fd, (off_t)size) ||
	    pwrite(fd, &h, sizeof(h), 0) != (ssize_t)sizeof(h) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL)) {
		int rc = err_set(e, -errno,
				 "cannot create shared memory of %zu bytes for "
				 "%zu ranks: %s",
				 size, ranks, strerror(errno));
		close(fd);
		return rc;
	}
	return fd;
}

/* 1 if the kernel refuses to promise more memory than it has. */
static int shm_is_strict(void)
{
	int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
	char mode = 0;
	ssize_t n;

	if (fd < 0)
		return 0;
	n = read(fd, &mode, 1);
	close(fd);
	return n == 1 && mode == '2';
}

static int shm_take_pages(int fd, size_t at, size_t size)
{
	int rc;

	do
		rc = fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)at,
			       (off_t)size);
	while (rc && errno == EINTR);
	return rc;
}

static void shm_name_bells(struct ddp__shm *s)
{
	unsigned char key[DDP__KEY];

	ddp__key_for(key, s->header->cookie, "doorbells");
	memcpy(s->bell_name, key, sizeof(s->bell_name));
}

/* A lack of pages must be an error now, not a SIGBUS later. Only with strict
 * accounting can it come as late as the first touch of a page: there a rank
 * takes all pages that it writes to, slot and rings. Elsewhere they stay
 * sparse: no tmpfs limits a memfd, and a full memory cgroup calls its OOM
 * killer, for fallocate as for a touch (seen with 6.18, cgroups v1). */
static int shm_take_slot(int fd, int me, int n)
{
	size_t count = (size_t)n, i = (size_t)me;
	size_t rings = count * (DDP__SHM_CONTROL + shm_ring_size(count));
	size_t slot = DDP__SHM_CONTROL + i * shm_slot_size();
	size_t pairs = DDP__SHM_CONTROL + count * shm_slot_size() + i * rings;
	int strict = shm_is_strict();

	if (shm_take_pages(fd, 0, DDP__SHM_CONTROL) ||
	    shm_take_pages(fd, slot,
			   strict ? shm_slot_size() : DDP__SHM_CONTROL))
		return -1;
	return strict ? shm_take_pages(fd, pairs, rings) : 0;
}

static void shm_publish_cpus(struct ddp__shm_header *h)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		return;
	/* musl's CPU_SETSIZE counts bytes */
	_Static_assert(DDP__SHM_CPUS <= 8 * sizeof(set), "each has a bit");
	for (int i = 0; i < DDP__SHM_CPUS; i++)
		if (CPU_ISSET(i, &set))
			atomic_fetch_or(&h->cpus[i / 64],
					(uint64_t)1 << i % 64);
}

int ddp__shm_attach(struct ddp__shm *s, int fd, int me, int n,
		    const unsigned char cookie[DDP__COOKIE], struct err *e)
{
	size_t size = shm_segment_size((size_t)n);
	struct ddp__shm_control *mine;
	struct stat st;
	void *map;

	memset(s, 0, sizeof(*s));
	if (fstat(fd, &st))
		return err_set(e, -errno, "shared memory: %s", strerror(errno));
	if ((uint64_t)st.st_size < size)
		return err_set(
			e, ERR_PROTOCOL,
			"shared memory has %lld bytes, but %zu are needed",
			(long long)st.st_size, size);
	if (shm_take_slot(fd, me, n))
		return err_set(e, -errno, "shared memory: %s", strerror(errno));
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return err_set(e, -errno,
			       "cannot map %zu bytes of shared memory: %s",
			       size, strerror(errno));
	s->header = map;
	if (memcmp(s->header->magic, magic, sizeof(magic)) ||
	    s->header->version != DDP__SHM_VERSION ||
	    s->header->slot_size != shm_slot_size() ||
	    memcmp(s->header->cookie, cookie, DDP__COOKIE)) {
		munmap(map, size);
		s->header = NULL;
		return err_set(e, ERR_PROTOCOL,
			       "the shared memory found is not this job's");
	}
	s->sources = calloc((size_t)n, sizeof(*s->sources));
	s->lanes = calloc((size_t)n, 2 * sizeof(*s->lanes));
	if (!s->sources || !s->lanes) {
		free(s->sources);
		free(s->lanes);
		munmap(map, size);
		s->header = NULL;
		return err_no_memory(e, "shared memory");
	}
	s->slots = (char *)map + DDP__SHM_CONTROL;
	s->pairs = s->slots + (size_t)n * shm_slot_size();
	s->ring = shm_ring_size((size_t)n);
	memcpy(s->probe, cookie, sizeof(s->probe));
	s->mapped = size;
	s->me = me;
	s->n = n;
	s->timeout_ms = -1;
	s->bell = -1;
	shm_name_bells(s);
	mine = ddp__shm_control(s, me);
	mine->pid = getpid();
	mine->probe_at = (uintptr_t)s->probe;
	mine->start_time = ddp__process_start(getpid());
	shm_publish_cpus(s->header);
	return 0;
}

void ddp__shm_detach(struct ddp__shm *s)
{
	struct ddp__shm_control *mine;

	if (!s->header)
		return;
	mine = ddp__shm_control(s, s->me);
	atomic_store(&mine->left, 1);
	if (atomic_load(&mine->sleepers)) {
		ddp__shm_wake(&mine->step);
		ddp__shm_wake(&mine->given);
	}
	if (atomic_load(&s->header->armed))
		ddp__shm_ring(s);
	if (s->bell >= 0)
		close(s->bell);
	free(s->sources);
	free(s->lanes);
	munmap(s->header, s->mapped);
	memset(s, 0, sizeof(*s));
}

int ddp__shm_start(struct ddp__shm *s, const struct ddp__call *call,
		   struct err *e)
{
	int cpus = 0, rc;

	ddp__shm_begin(s, call);
	ddp__shm_post(s);
	rc = ddp__shm_wait_first(s, e);
	if (rc)
		return rc;
	for (int i = 0; i < CPU_WORDS; i++)
		cpus += __builtin_popcountll(atomic_load(&s->header->cpus[i]));
	s->spins = s->n <= cpus;
	s->chunk = DDP__SHM_IN;
	ddp__shm_probe_reading(s);
	return 0;
}

void ddp__shm_abort(struct ddp__shm *s, const struct err *e)
{
	struct ddp__shm_header *h = s->header;
	uint32_t none = DDP__SHM_ALIVE;
	uint32_t mine = DDP__SHM_ABORTING + (uint32_t)s->me;

	if (!h || !atomic_compare_exchange_strong(&h->aborted, &none, mine))
		return;
	h->abort_code = e->code;
	memcpy(h->abort_text, e->text, sizeof(h->abort_text));
	atomic_store(&h->aborted, DDP__SHM_ABORTED);
	for (int i = 0; i < s->n; i++) {
		struct ddp__shm_control *peer = ddp__shm_control(s, i);

		ddp__shm_wake(&peer->step);
		ddp__shm_wake(&peer->given);
		atomic_store(&peer->dozing, 0);
		ddp__shm_wake(&peer->dozing);
	}
	ddp__shm_ring(s);
}

int ddp__shm_aborted(const struct ddp__shm *s)
{
	return atomic_load(&s->header->aborted) != DDP__SHM_ALIVE;
}

/* The first word of a board is odd while the other words are being written. */
static _Atomic uint64_t *shm_board(const struct ddp__shm *s, int i)
{
	return (void *)((char *)ddp__shm_control(s, i) + DDP__SHM_BOARD_AT);
}

void ddp__shm_board_put(struct ddp__shm *s, size_t at, const void *from,
			size_t size)
{
	_Atomic uint64_t *board = shm_board(s, s->me), *to = board + 1 + at / 8;
	uint64_t version = atomic_load_explicit(board, memory_order_relaxed);

	atomic_store_explicit(board, version + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	for (size_t i = 0; i < size / 8; i++) {
		uint64_t word;

		memcpy(&word, (const char *)from + 8 * i, 8);
		atomic_store_explicit(&to[i], word, memory_order_relaxed);
	}
	atomic_store_explicit(board, version + 2, memory_order_release);
}

int ddp__shm_board_get(const struct ddp__shm *s, int i, size_t at, void *to,
		       size_t size)
{
	_Atomic uint64_t *board = shm_board(s, i), *from = board + 1 + at / 8;
	uint64_t version = atomic_load_explicit(board, memory_order_acquire);

	for (size_t k = 0; k < size / 8; k++) {
		uint64_t word = atomic_load_explicit(&from[k],
						     memory_order_relaxed);

		memcpy((char *)to + 8 * k, &word, 8);
	}
	atomic_thread_fence(memory_order_acquire);
	return version % 2 == 0 &&
	       atomic_load_explicit(board, memory_order_relaxed) == version;
}

void ddp__shm_begin(struct ddp__shm *s, const struct ddp__call *call)
{
	uint64_t word = ddp__call_pack(call);

	s->call = *call;
	ddp__shm_say(s, call, word);
	ddp__shm_entered(s, word, call->number);
}

void ddp__shm_set_away(void *shm, int is_away)
{
	struct ddp__shm *s = shm;

	if (s->header)
		atomic_store_explicit(&ddp__shm_control(s, s->me)->away,
				      (uint32_t)is_away, memory_order_relaxed);
}

void ddp__shm_post(struct ddp__shm *s)
{
	struct ddp__shm_control *mine = ddp__shm_control(s, s->me);

	atomic_store_explicit(&mine->cpu, (uint32_t)sched_getcpu(),
			      memory_order_relaxed);
	/* Sequentially consistent: either this rank sees the sleeper, or the
	 * sleeper sees the step when it checks once more before it sleeps. */
	s->waits = 1;
	s->was_away = 0;
	atomic_store(&mine->step, ++s->step);
	if (atomic_load(&mine->sleepers))
		ddp__shm_wake(&mine->step);
	if (atomic_load(&s->header->armed))
		ddp__shm_ring(s);
}
