/* shm_faults.h: ranks of one host, one of which, the victim, is killed or
 * stopped (SIGSTOP) at a known point; for test_shm*_faults.c. The victim's
 * actions before that point, and all that the others could do then, do not
 * depend on time. */
#ifndef TESTS_SHM_FAULTS_H
#define TESTS_SHM_FAULTS_H

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include "tests/unit/worker-sdk/shm/shm_ranks.h"

enum { VICTIM = 1 };

struct stage {
	struct group g;
	int sig;		  /* SIGKILL or SIGSTOP */
	pthread_barrier_t *meet;  /* for the survivors */
	int fallen[2], failed[2], over[2];
	int (*survive)(struct stage *st, int me, void *arg);
	int (*fall)(struct stage *st, void *arg);
};

/* The victim ends here, or stops here and continues when the others have
 * failed. */
static inline void fall_here(const struct stage *st)
{
	raise(st->sig);
}

static inline void await_end(int fd)
{
	char c;

	while (read(fd, &c, 1) > 0)
		;
}

/* Survivors: waits until the victim has been killed or stopped. */
static inline void await_fall(struct stage *st)
{
	await_end(st->fallen[0]);
}

/* Survivors: waits until all of them are as far as they get without the
 * victim. */
static inline void meet_survivors(struct stage *st)
{
	pthread_barrier_wait(st->meet);
}

/* Survivors: waits until the victim, if it was stopped, has continued and
 * ended. */
static inline void outlive_victim(struct stage *st)
{
	char c = 0;

	if (write(st->failed[1], &c, 1) == 1)
		await_end(st->over[0]);
}

static inline int take_part(struct stage *st, int me, void *arg)
{
	/* ends a rank that waits for a rank that failed this test */
	alarm(40);
	close(st->fallen[1]);
	close(st->over[1]);
	if (me != VICTIM)
		return st->survive(st, me, arg);
	close(st->failed[1]);
	return st->fall(st, arg);
}

static inline void let_go_on(struct stage *st, pid_t victim, const char *what)
{
	int status, failed = 0;
	char c;

	while (failed < st->g.n - 1 && read(st->failed[0], &c, 1) == 1)
		failed++;
	kill(victim, SIGCONT);
	ck_assert_int_eq(waitpid(victim, &status, 0), victim);
	ck_assert_msg(status == 0,
		      "%s: the victim went on and ended with status 0x%x", what,
		      status);
}

/* Runs survive and fall in n processes; all must return 0, or be killed. */
static inline void play(struct stage *st, int n, void *arg, const char *what)
{
	pthread_barrierattr_t shared;
	siginfo_t info;
	pid_t pid[8];
	int status;

	st->g = make(n);
	st->meet = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(st->meet, MAP_FAILED);
	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(st->meet, &shared, (unsigned)n - 1);
	ck_assert_int_eq(pipe(st->fallen), 0);
	ck_assert_int_eq(pipe(st->failed), 0);
	ck_assert_int_eq(pipe(st->over), 0);
	fflush(NULL);
	for (int i = 0; i < n; i++) {
		pid[i] = fork();
		if (pid[i] == 0)
			_exit(take_part(st, i, arg));
		ck_assert_int_gt(pid[i], 0);
	}
	close(st->failed[1]);
	close(st->over[0]);
	ck_assert_int_eq(waitid(P_PID, (id_t)pid[VICTIM], &info,
				WEXITED | WSTOPPED | WNOWAIT), 0);
	ck_assert_msg(info.si_status == st->sig,
		      "%s: the victim ended with %d and did not fall", what,
		      info.si_status);
	close(st->fallen[1]);
	if (st->sig == SIGSTOP)
		let_go_on(st, pid[VICTIM], what);
	close(st->over[1]);
	for (int i = 0; i < n; i++) {
		if (i == VICTIM)
			continue;
		ck_assert_int_eq(waitpid(pid[i], &status, 0), pid[i]);
		ck_assert_msg(status == 0, "%s: rank %d: status 0x%x", what, i,
			      status);
	}
	/* The victim last: until then it is a zombie, which counts as gone. */
	if (st->sig == SIGKILL)
		ck_assert_int_eq(waitpid(pid[VICTIM], &status, 0), pid[VICTIM]);
	close(st->fallen[0]);
	close(st->failed[0]);
	munmap(st->meet, 4096);
	close(st->g.fd);
}

/* Whether e is the error that all ranks get when the victim does not enter
 * `call`, having entered `last` (NULL: any): compares its code and all but the
 * seconds of its text. */
static inline int names_victim(const struct stage *st, const struct err *e,
			       const struct ddp__call *call, const char *verb,
			       const struct ddp__call *last)
{
	char mine[DDP__CALL_TEXT], its[DDP__CALL_TEXT], begin[512], end[256];
	size_t len = strlen(e->text), tail;

	ddp__call_text(call, mine);
	if (st->sig == SIGKILL) {
		snprintf(begin, sizeof(begin),
			 "%s: rank 10 on h1 is gone: fate of 10", mine);
		end[0] = '\0';
	} else {
		snprintf(begin, sizeof(begin), "%s: rank 10 on h1 has not %s",
			 mine, verb);
		end[0] = '\0';
		if (last)
			snprintf(end, sizeof(end), " s; last seen entering %s",
				 ddp__call_text(last, its));
	}
	tail = strlen(end);
	if (e->code == (st->sig == SIGKILL ? ERR_REMOTE : ERR_TIMEOUT) &&
	    len >= tail && !strncmp(e->text, begin, strlen(begin)) &&
	    !strcmp(e->text + len - tail, end))
		return 1;
	fprintf(stderr, "got %d: %s\nnot %s ...%s\n", e->code, e->text, begin,
		end);
	return 0;
}

#endif
