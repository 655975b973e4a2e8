/* shm.c: the segment, and waiting in it. */
#include "worker-sdk/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

enum {
	CPU_WORDS = DDP__SHM_CPUS / 64,
	/* asleep: how often to see whether peers live, at first and later */
	LOOK_FIRST_MS = 4,
	LOOK_MS = 100,
	LOOKS_MAX = 32 /* peers looked at each time */
};

/* A waiter first spins: waking a sleeper costs 2 us on the same CPU and 60 to
 * 80 us on an idle one (facts of the test machine). With a CPU for each rank
 * it pauses for PAUSE_NS, then also yields, in case something else wants the
 * CPU, until SPIN_NS. With fewer CPUs the rank waited for may need mine: yield
 * almost at once. And where it last ran on mine, at once. */
#define PAUSE_NS 50000u
#define SPIN_NS 1000000u
#define CROWD_PAUSE_NS 500u
#define CROWD_SPIN_NS 100000u

static const char magic[8] = {'d', 'd', 'p', ' ', 's', 'h', 'm', '\n'};

static size_t slot_size(void)
{
	return DDP__SHM_CONTROL + 2 * (size_t)(DDP__SHM_IN + DDP__SHM_OUT);
}

static long futex(_Atomic uint32_t *word, int op, uint32_t value,
		  const struct timespec *timeout)
{
	return syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

static inline void relax(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#endif
}

int ddp__shm_create(size_t ranks, const unsigned char cookie[DDP__COOKIE],
		    struct err *e)
{
	struct ddp__shm_header h;
	int fd = memfd_create("ddp", MFD_CLOEXEC);

	if (fd < 0)
		return err_set(e, -errno,
			       "cannot make shared memory (memfd_create): %s",
			       strerror(errno));
	memset(&h, 0, sizeof(h));
	memcpy(h.magic, magic, sizeof(magic));
	h.version = DDP__SHM_VERSION;
	h.slot_size = (uint32_t)slot_size();
	memcpy(h.cookie, cookie, DDP__COOKIE);
	if (ftruncate(fd, (off_t)(DDP__SHM_CONTROL + ranks * slot_size())) ||
	    pwrite(fd, &h, sizeof(h), 0) != (ssize_t)sizeof(h)) {
		int rc = err_set(e, -errno,
				 "cannot make shared memory for %zu ranks: %s",
				 ranks, strerror(errno));
		close(fd);
		return rc;
	}
	return fd;
}

/* Field 3 (state) and 22 (start time) of /proc/PID/stat; 0 if there is no such
 * process or it is a zombie. */
static uint64_t process_born(int64_t pid)
{
	char path[64], text[1024], *p, state = 'Z';
	unsigned long long born = 0;
	int fd;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = 0;
	/* The name, field 2, may hold anything: go from its last bracket. */
	p = strrchr(text, ')');
	if (!p ||
	    sscanf(p + 1,
		   " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
		   "%*s %*s %*s %*s %*s %llu",
		   &state, &born) != 2 ||
	    state == 'Z' || state == 'X')
		return 0;
	return born;
}

static void publish_cpus(struct ddp__shm_header *h)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		return;
	for (int i = 0; i < CPU_SETSIZE && i < DDP__SHM_CPUS; i++)
		if (CPU_ISSET(i, &set))
			atomic_fetch_or(&h->cpus[i / 64],
					(uint64_t)1 << i % 64);
}

int ddp__shm_attach(struct ddp__shm *s, int fd, int me, int n,
		    const unsigned char cookie[DDP__COOKIE], struct err *e)
{
	size_t size = DDP__SHM_CONTROL + (size_t)n * slot_size();
	struct ddp__shm_control *mine;
	struct stat st;
	void *map;

	memset(s, 0, sizeof(*s));
	if (fstat(fd, &st))
		return err_set(e, -errno, "shared memory: %s", strerror(errno));
	if ((uint64_t)st.st_size < size)
		return err_set(e, ERR_PROTOCOL,
			       "shared memory has %lld bytes, %zu are needed",
			       (long long)st.st_size, size);
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return err_set(e, -errno,
			       "cannot map %zu bytes of shared memory: %s",
			       size, strerror(errno));
	s->header = map;
	if (memcmp(s->header->magic, magic, sizeof(magic)) ||
	    s->header->version != DDP__SHM_VERSION ||
	    s->header->slot_size != slot_size() ||
	    memcmp(s->header->cookie, cookie, DDP__COOKIE)) {
		munmap(map, size);
		s->header = NULL;
		return err_set(e, ERR_PROTOCOL,
			       "the shared memory found is not this job's");
	}
	s->sources = calloc((size_t)n, sizeof(*s->sources));
	if (!s->sources) {
		munmap(map, size);
		s->header = NULL;
		return err_set(e, -ENOMEM, "shared memory: no memory");
	}
	s->slots = (char *)map + DDP__SHM_CONTROL;
	s->mapped = size;
	s->me = me;
	s->n = n;
	s->timeout_ms = -1;
	s->bell = -1;
	mine = ddp__shm_control(s, me);
	mine->pid = getpid();
	mine->born = process_born(getpid());
	publish_cpus(s->header);
	return 0;
}

static void wake(_Atomic uint32_t *word)
{
	futex(word, FUTEX_WAKE, INT_MAX, NULL);
}

void ddp__shm_detach(struct ddp__shm *s)
{
	struct ddp__shm_control *mine;

	if (!s->header)
		return;
	mine = ddp__shm_control(s, s->me);
	atomic_store(&mine->left, 1);
	if (atomic_load(&mine->sleepers))
		wake(&mine->step);
	if (atomic_load(&s->header->armed))
		ddp__shm_ring(s);
	if (s->bell >= 0)
		close(s->bell);
	free(s->sources);
	munmap(s->header, s->mapped);
	memset(s, 0, sizeof(*s));
}

int ddp__shm_meet(struct ddp__shm *s, const struct ddp__call *call,
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
	return 0;
}

void ddp__shm_abort(struct ddp__shm *s, const struct err *e)
{
	struct ddp__shm_header *h = s->header;
	uint32_t none = DDP__SHM_ALIVE;

	if (!h || !atomic_compare_exchange_strong(&h->aborted, &none,
						  DDP__SHM_ABORTING))
		return;
	h->abort_code = e->code;
	memcpy(h->abort_text, e->text, sizeof(h->abort_text));
	atomic_store(&h->aborted, DDP__SHM_ABORTED);
	for (int i = 0; i < s->n; i++)
		wake(&ddp__shm_control(s, i)->step);
	ddp__shm_ring(s);
}

int ddp__shm_aborted(const struct ddp__shm *s)
{
	return atomic_load(&s->header->aborted) != DDP__SHM_ALIVE;
}

void ddp__shm_begin(struct ddp__shm *s, const struct ddp__call *call)
{
	struct ddp__shm_control *mine = ddp__shm_control(s, s->me);

	s->call = call;
	mine->call[(s->step + 1) & 1] = ddp__call_pack(call);
	atomic_store_explicit(&mine->last, ddp__call_pack(call),
			      memory_order_relaxed);
	atomic_store_explicit(&mine->last_number, call->number,
			      memory_order_relaxed);
}

void ddp__shm_post(struct ddp__shm *s)
{
	struct ddp__shm_control *mine = ddp__shm_control(s, s->me);

	atomic_store_explicit(&mine->cpu, (uint32_t)sched_getcpu(),
			      memory_order_relaxed);
	/* Sequentially consistent: either I see the sleeper, or it sees the
	 * step when it looks again before it sleeps. */
	atomic_store(&mine->step, ++s->step);
	if (atomic_load(&mine->sleepers))
		wake(&mine->step);
	if (atomic_load(&s->header->armed))
		ddp__shm_ring(s);
}

static inline int posted(struct ddp__shm *s, int i)
{
	uint32_t step = atomic_load_explicit(&ddp__shm_control(s, i)->step,
					     memory_order_acquire);

	return (int32_t)(step - s->step) >= 0;
}

/* ---- the slow path of waiting */

static int spin(struct ddp__shm *s, int i, uint64_t start)
{
	uint64_t pause = s->spins ? PAUSE_NS : CROWD_PAUSE_NS;
	uint64_t limit = s->spins ? SPIN_NS : CROWD_SPIN_NS;
	_Atomic uint32_t *cpu = &ddp__shm_control(s, i)->cpu;

	for (;;) {
		uint64_t waited;

		for (int k = 0; k < 32; k++) {
			if (posted(s, i))
				return 1;
			relax();
		}
		waited = clock_ns() - start;
		if (waited > limit)
			return 0;
		if (waited > pause ||
		    atomic_load_explicit(cpu, memory_order_relaxed) ==
			    (uint32_t)sched_getcpu())
			sched_yield();
	}
}

static void sleep_on(struct ddp__shm *s, int i, int ms)
{
	struct ddp__shm_control *peer = ddp__shm_control(s, i);
	struct timespec timeout = {0, ms * 1000000};
	uint32_t seen;

	atomic_fetch_add(&peer->sleepers, 1);
	seen = atomic_load(&peer->step);
	if ((int32_t)(seen - s->step) < 0 && !atomic_load(&peer->left) &&
	    atomic_load(&s->header->aborted) != DDP__SHM_ABORTED)
		futex(&peer->step, FUTEX_WAIT, seen, &timeout);
	atomic_fetch_sub(&peer->sleepers, 1);
}

/* Sets *e and makes it everybody's, unless another rank was first: then that
 * one's error is ours. */
static int fail(struct ddp__shm *s, struct err *e)
{
	struct ddp__shm_header *h = s->header;

	ddp__shm_abort(s, e);
	while (atomic_load(&h->aborted) != DDP__SHM_ABORTED)
		relax();
	return err_set(e, h->abort_code, "%.*s", ERR_TEXT_MAX - 1,
		       h->abort_text);
}

static int fail_timeout(struct ddp__shm *s, uint64_t waited, struct err *e)
{
	char call[DDP__CALL_TEXT], name[DDP__NAME_MAX], list[512];
	size_t len = 0;
	int missing = 0;

	for (int i = 0; i < s->n; i++) {
		if (posted(s, i))
			continue;
		if (missing++ < 4)
			len += (size_t)snprintf(
				list + len, sizeof(list) - len, "%s%s",
				missing > 1 ? ", " : "",
				s->peers->name(s->peers->owner, s->ranks[i],
					       name));
	}
	if (missing > 4)
		snprintf(list + len, sizeof(list) - len, " and %d more",
			 missing - 4);
	err_set(e, ERR_TIMEOUT, "%s: %s %s not arrived for %.1f s",
		ddp__call_text(s->call, call), list,
		missing > 1 ? "have" : "has", (double)waited / 1e9);
	return fail(s, e);
}

static int fail_gone(struct ddp__shm *s, int i, const char *how, struct err *e)
{
	char call[DDP__CALL_TEXT], name[DDP__NAME_MAX], seen[256];

	s->peers->name(s->peers->owner, s->ranks[i], name);
	snprintf(seen, sizeof(seen), "%s: %s %s",
		 ddp__call_text(s->call, call), name, how);
	s->peers->fate(s->peers->owner, s->ranks[i], seen, e);
	return fail(s, e);
}

/* Looks at those who have not posted: 0 if all of them may still come. */
static int look(struct ddp__shm *s, int first, struct err *e)
{
	int looks = 0;

	for (int k = 0; k < s->n && looks < LOOKS_MAX; k++) {
		int i = (first + k) % s->n;
		struct ddp__shm_control *peer = ddp__shm_control(s, i);
		int left;

		if (posted(s, i))
			continue;
		looks++;
		left = (int)atomic_load(&peer->left);
		/* It may have posted, and then left, since. */
		if (left && !posted(s, i))
			return fail_gone(s, i, "left with ddp_finalize", e);
		if (peer->born && process_born(peer->pid) != peer->born &&
		    !posted(s, i))
			return fail_gone(s, i, "is gone", e);
	}
	return 0;
}

static __attribute__((noinline)) int wait_slow(struct ddp__shm *s, int i,
						struct err *e)
{
	uint64_t start = clock_ns();
	int ms = LOOK_FIRST_MS;

	if (spin(s, i, start))
		return 0;
	for (;;) {
		uint64_t waited;
		int rc;

		sleep_on(s, i, ms);
		if (posted(s, i))
			return 0;
		if (ddp__shm_aborted(s))
			return fail(s, e);
		waited = clock_ns() - start;
		if (s->timeout_ms >= 0 &&
		    waited > (uint64_t)s->timeout_ms * 1000000u)
			return fail_timeout(s, waited, e);
		rc = look(s, i, e);
		if (rc)
			return rc;
		ms = ms * 2 < LOOK_MS ? ms * 2 : LOOK_MS;
	}
}

int ddp__shm_wait(struct ddp__shm *s, struct err *e)
{
	/* Each begins with its neighbour, so that not all read one line. */
	for (int k = 1; k < s->n; k++) {
		int i = s->me + k < s->n ? s->me + k : s->me + k - s->n;
		int rc = posted(s, i) ? 0 : wait_slow(s, i, e);

		if (rc)
			return rc;
	}
	return 0;
}

/* All have posted the first step of what each was called for. */
static int agree(struct ddp__shm *s, struct err *e)
{
	uint64_t word = ddp__call_pack(s->call), other;
	char mine[DDP__CALL_TEXT], theirs[DDP__CALL_TEXT];
	char my_name[DDP__NAME_MAX], their_name[DDP__NAME_MAX];
	struct ddp__call call;
	int i;

	for (i = 0; i < s->n; i++)
		if (ddp__shm_control(s, i)->call[s->step & 1] != word)
			break;
	if (i == s->n)
		return 0;
	other = ddp__shm_control(s, i)->call[s->step & 1];
	ddp__call_unpack(&call, other, s->call->number);
	err_set(e, ERR_ARGUMENT,
		"%s called %s, but %s called %s: all ranks must make the same "
		"calls in the same order",
		s->peers->name(s->peers->owner, s->ranks[s->me], my_name),
		ddp__call_text(s->call, mine),
		s->peers->name(s->peers->owner, s->ranks[i], their_name),
		ddp__call_text(&call, theirs));
	return fail(s, e);
}

int ddp__shm_wait_first(struct ddp__shm *s, struct err *e)
{
	int rc = ddp__shm_wait(s, e);

	return rc ? rc : agree(s, e);
}

int ddp__shm_arrived(struct ddp__shm *s, int first, struct err *e)
{
	int rc;

	for (int k = 1; k < s->n; k++) {
		int i = s->me + k < s->n ? s->me + k : s->me + k - s->n;

		if (!posted(s, i))
			return ddp__shm_aborted(s) ? fail(s, e) : 0;
	}
	rc = first ? agree(s, e) : 0;
	return rc ? rc : 1;
}

int ddp__shm_look(struct ddp__shm *s, uint64_t waited_ns, struct err *e)
{
	if (ddp__shm_aborted(s))
		return fail(s, e);
	for (int i = 0; i < s->n; i++)
		if (!posted(s, i)) {
			if (s->timeout_ms >= 0 &&
			    waited_ns > (uint64_t)s->timeout_ms * 1000000u)
				return fail_timeout(s, waited_ns, e);
			return look(s, i, e);
		}
	return 0;
}
