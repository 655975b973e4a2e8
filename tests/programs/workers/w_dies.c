/* w_dies.c: a worker that the kernel kills. w_dies memory: allocates memory
 * until it is killed. w_dies shm: fills /dev/shm, through mapped memory, until
 * there is no room; its file stays. w_dies stack: recurses until the stack
 * overflows; w_dies deep: that of a thread. w_dies null: writes to address 0.
 * w_dies truncated: reads a mapped
 * file after it was truncated. w_dies heap: frees memory twice. w_dies thread:
 * calls abort in a thread. w_dies divide: divides by zero. w_dies spin:
 * computes for ever. w_dies seccomp: calls sysinfo, which its filter forbids.
 * w_dies child: a child writes to address 0; exits with 3.
 * w_dies caught: handles its own SIGSEGV and exits with 5. w_dies narrow:
 * aborts with an alternate stack that has little more room than one signal
 * needs. w_dies looks: exits with 0 if the signals of a crash have their
 * default action, and keep what it sets. */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHUNK = 1 << 20 };

/* Each has a frame of its own, which tests look for. */
#define NOINLINE __attribute__((noinline))

NOINLINE static int die_of_memory(void)
{
	for (;;) {
		char *p = malloc(CHUNK);

		if (!p)
			return 3;
		memset(p, 1, CHUNK);
	}
}

NOINLINE static int die_of_shm(void)
{
	const size_t size = (size_t)64 * CHUNK;
	int fd = open("/dev/shm/w_dies", O_RDWR | O_CREAT, 0600);
	volatile char *p;

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		return 3;
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return 3;
	for (size_t i = 0; i < size; i++)
		p[i] = 1;
	return 4;
}

/* Never returns: the stack ends first. */
NOINLINE static int die_of_stack(volatile int depth)
{
	volatile char frame[4096];

	frame[0] = (char)depth;
	return depth < 0 ? 0 : die_of_stack(depth + 1) + frame[0];
}

static void *leave_here(void *arg)
{
	pthread_exit(arg);
}

NOINLINE static void *overflow_here(void *arg)
{
	return die_of_stack(1) ? arg : NULL;
}

/* Threads that ended before leave nothing behind. */
static int die_in_deep_thread(void)
{
	pthread_t thread;

	for (int i = 0; i < 3; i++)
		if (pthread_create(&thread, NULL, leave_here, NULL) ||
		    pthread_join(thread, NULL))
			return 3;
	if (pthread_create(&thread, NULL, overflow_here, NULL))
		return 3;
	return pthread_join(thread, NULL) ? 3 : 4;
}

NOINLINE static int die_of_null(void)
{
	volatile int *volatile nowhere = NULL;

	*nowhere = 1;
	return 4;
}

NOINLINE static int die_of_truncation(void)
{
	const char name[] = "w_dies.truncated";
	int fd = open(name, O_RDWR | O_CREAT, 0600);
	volatile char *p;

	if (fd < 0 || ftruncate(fd, CHUNK) < 0)
		return 3;
	p = mmap(NULL, CHUNK, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED || ftruncate(fd, 7) < 0)
		return 3;
	return p[CHUNK / 2];
}

NOINLINE static int die_of_heap(void)
{
	char *volatile p = malloc(64);
	char *volatile q = p;

	free(p);
	free(q);
	return 4;
}

NOINLINE static void *abort_here(void *arg)
{
	abort();
	return arg;
}

static int die_in_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, abort_here, NULL))
		return 3;
	return pthread_join(thread, NULL) ? 3 : 4;
}

NOINLINE static int die_of_filter(void)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), /* its number */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sysinfo, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {4, f};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0)
		return 3;
	return (int)syscall(SYS_sysinfo, NULL);
}

NOINLINE static int die_of_division(void)
{
	volatile int zero = 0;

	return 7 / zero;
}

NOINLINE static int die_of_time(void)
{
	for (volatile unsigned i = 0;; i++)
		;
	return 4;
}

/* The page below the stack cannot be written. */
NOINLINE static int die_on_narrow_stack(void)
{
	const size_t page = 4096, room = 2048;
	size_t size = (size_t)sysconf(_SC_MINSIGSTKSZ) + room;
	stack_t narrow;
	char *p;

	size = (size + page - 1) / page * page;
	p = mmap(NULL, page + size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED || mprotect(p, page, PROT_NONE) < 0)
		return 3;
	narrow = (stack_t){.ss_sp = p + page, .ss_size = size};
	if (sigaltstack(&narrow, NULL) < 0)
		return 3;
	abort();
}

static int fail_after_child(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(die_of_null());
	if (pid < 0 || waitpid(pid, NULL, 0) < 0)
		return 4;
	return 3;
}

static void on_fault(int number)
{
	_exit(5);
}

static int catch_fault(void)
{
	signal(SIGSEGV, on_fault);
	return die_of_null();
}

static int look_at_signals(void)
{
	static const int numbers[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL,
				      SIGXCPU, SIGXFSZ};
	struct sigaction a, set = {.sa_handler = on_fault};
	struct sigaction *volatile same = &a;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		int n = numbers[i];

		if (sigaction(n, NULL, &a) < 0 || a.sa_handler != SIG_DFL ||
		    a.sa_flags || sigismember(&a.sa_mask, SIGTERM))
			return 4;
		if (sigaction(n, &set, &a) < 0 || a.sa_handler != SIG_DFL ||
		    signal(n, SIG_DFL) != on_fault ||
		    signal(n, SIG_IGN) != SIG_DFL ||
		    signal(n, SIG_DFL) != SIG_IGN ||
		    signal(n, SIG_DFL) != SIG_DFL)
			return 5;
		a = set; /* one struct for both, which libc allows */
		if (sigaction(n, &a, same) < 0 || a.sa_handler != SIG_DFL ||
		    signal(n, SIG_DFL) != on_fault)
			return 6;
	}
	return 0;
}

static const struct {
	const char *name;
	int (*run)(void);
} ways[] = {
	{"memory", die_of_memory}, {"shm", die_of_shm}, {"null", die_of_null},
	{"truncated", die_of_truncation}, {"heap", die_of_heap},
	{"thread", die_in_thread}, {"deep", die_in_deep_thread},
	{"divide", die_of_division}, {"seccomp", die_of_filter},
	{"spin", die_of_time}, {"child", fail_after_child},
	{"caught", catch_fault}, {"narrow", die_on_narrow_stack},
	{"looks", look_at_signals},
};

int main(int argc, char **argv)
{
	volatile int rc; /* main calls, and has a frame */

	if (argc == 2 && strcmp(argv[1], "stack") == 0)
		return die_of_stack(0);
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++)
		if (argc == 2 && strcmp(argv[1], ways[i].name) == 0) {
			rc = ways[i].run();
			return rc;
		}
	fprintf(stderr, "usage: w_dies WAY: see tests/programs/w_dies.c\n");
	return 2;
}
