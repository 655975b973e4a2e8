/* crash_kernel.h: what crash_handler.c needs of Linux without a libc: system
 * calls, the signal's registers, and the structs of the kernel. */
#ifndef LAUNCHER_CRASH_KERNEL_H
#define LAUNCHER_CRASH_KERNEL_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "launcher/crash/crash_record.h"

#if defined(__x86_64__) || defined(__aarch64__)

/* The kernel's struct sigaction. */
struct kernel_action {
	void *handler;
	unsigned long flags;
	void *restorer;
	uint64_t mask;
};

#if defined(__x86_64__)
static inline long crash_call(long number, long a, long b, long c, long d,
			      long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long rc;

	__asm__ volatile("syscall"
			 : "=a"(rc)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10),
			   "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return rc;
}

/* The kernel's handlers return through this. */
__asm__(".text\n"
	".type crash_restorer,@function\n"
	"crash_restorer:\n"
	"	mov $15, %eax\n"
	"	syscall\n");
extern char crash_restorer[] __attribute__((visibility("hidden")));
enum { RESTORER_FLAG = 0x04000000 };
#else
static inline long crash_call(long number, long a, long b, long c, long d,
			      long e, long f)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}

#define crash_restorer NULL
enum { RESTORER_FLAG = 0 };
#endif

#define CALL(number, ...) CALL_6(number, __VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define CALL_6(number, a, b, c, d, e, f, ...)                            \
	crash_call(number, (long)(a), (long)(b), (long)(c), (long)(d),   \
		   (long)(e), (long)(f))

enum {
	CRASH_WAIT_MS = 2000, /* for another thread that dies */
	CRASH_MS_NS = 1000000,
};

/* Found in the process, if it has it. */
#define WEAK __attribute__((weak))

static inline void crash_set_action(int number, void *handler,
				    unsigned long flags)
{
	struct kernel_action action = {
		.handler = handler, .flags = flags | RESTORER_FLAG,
		.restorer = crash_restorer, .mask = ~UINT64_C(0),
	};

	CALL(SYS_rt_sigaction, number, &action, NULL, sizeof(action.mask));
}

static inline void crash_await_the_other(void)
{
	const long ms[2] = {0, CRASH_MS_NS};

	for (int i = 0; i < CRASH_WAIT_MS; i++)
		CALL(SYS_nanosleep, ms, NULL);
}

#if defined(__x86_64__)
static inline void crash_put_registers(struct crash_record *r,
				       const ucontext_t *u)
{
	static const uint8_t order[] = {
		REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
		REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
		REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP,
	};

	for (size_t i = 0; i < sizeof(order); i++)
		r->registers[i] = (uint64_t)u->uc_mcontext.gregs[order[i]];
	r->nregisters = sizeof(order);
	r->pc = (uint64_t)u->uc_mcontext.gregs[REG_RIP];
	r->sp = (uint64_t)u->uc_mcontext.gregs[REG_RSP];
}
#else
static inline void crash_put_registers(struct crash_record *r,
				       const ucontext_t *u)
{
	for (int i = 0; i < 31; i++)
		r->registers[i] = u->uc_mcontext.regs[i];
	r->registers[31] = u->uc_mcontext.sp;
	r->nregisters = 32;
	r->pc = u->uc_mcontext.pc;
	r->sp = u->uc_mcontext.sp;
}
#endif

/* What the kernel leaves on the stack for a handler. */
#if defined(__x86_64__)
struct kernel_context {
	uint64_t flags, link;
	stack_t stack;
	char machine[256];
	uint64_t mask;
};
struct kernel_frame {
	struct kernel_context context;
	siginfo_t info;
};

static inline uint64_t crash_sp(const ucontext_t *u)
{
	return (uint64_t)u->uc_mcontext.gregs[REG_RSP];
}

static inline uint64_t crash_address(const ucontext_t *u)
{
	return (uint64_t)u->uc_mcontext.gregs[REG_CR2];
}
#else
struct kernel_frame {
	siginfo_t info;
	ucontext_t context;
};

static inline uint64_t crash_sp(const ucontext_t *u)
{
	return u->uc_mcontext.sp;
}

static inline uint64_t crash_address(const ucontext_t *u)
{
	return u->uc_mcontext.fault_address;
}
#endif

#endif
#endif
