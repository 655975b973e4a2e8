/* crash_outer.c: finds the fault behind a signal that a handler has raised. */
#include "launcher/crash/crash_internal.h"
#include "launcher/crash/crash_kernel.h"

#if defined(__x86_64__) || defined(__aarch64__)

const struct kernel_frame *crash_outer_find(const ucontext_t *u)
{
	const stack_t *s = &u->uc_stack;
	uint64_t from = (uint64_t)s->ss_sp, end = from + s->ss_size;
	uint64_t at = (crash_sp(u) + 7) & ~UINT64_C(7);

	if (at < from)
		return NULL;
	for (; at < end && end - at >= sizeof(struct kernel_frame); at += 8) {
		const struct kernel_frame *f = (const void *)at;
		const ucontext_t *outer = (const void *)&f->context;

		if (outer->uc_link == NULL &&
		    outer->uc_stack.ss_sp == s->ss_sp &&
		    outer->uc_stack.ss_size == s->ss_size &&
		    (crash_sp(outer) < from || crash_sp(outer) >= end))
			return f;
	}
	return NULL;
}

/* The kernel wrote no siginfo for a handler without SA_SIGINFO. */
siginfo_t crash_outer_info(const struct kernel_frame *f, int number)
{
	siginfo_t info = {.si_signo = number};

	if (f->info.si_signo == number)
		return f->info;
	info.si_code = number == SIGABRT   ? SI_TKILL
		       : number == SIGSEGV ? SEGV_MAPERR
		       : number == SIGFPE  ? FPE_INTDIV
					   : SI_KERNEL;
	if (number == SIGABRT)
		info.si_pid = (pid_t)CALL(SYS_getpid, 0);
	else
		info.si_addr = (void *)crash_address(
			(const void *)&f->context);
	return info;
}

#if defined(__x86_64__)
enum { TRAP_PROTECTION = 13, TRAP_PAGE = 14, ERROR_PRESENT = 1 };

int crash_outer_repeats(int number, const siginfo_t *info, const ucontext_t *u,
			siginfo_t *fault)
{
	const greg_t *regs = u->uc_mcontext.gregs;

	if ((number != SIGSEGV && number != SIGBUS) || info->si_code > 0 ||
	    info->si_pid != (pid_t)CALL(SYS_getpid, 0))
		return 0;
	if (regs[REG_TRAPNO] != TRAP_PAGE &&
	    (regs[REG_TRAPNO] != TRAP_PROTECTION || number != SIGSEGV))
		return 0;
	*fault = (siginfo_t){.si_signo = number, .si_code = SI_KERNEL};
	if (regs[REG_TRAPNO] == TRAP_PROTECTION)
		return 1;
	fault->si_addr = (void *)regs[REG_CR2];
	fault->si_code = number == SIGBUS		 ? BUS_ADRERR
			 : regs[REG_ERR] & ERROR_PRESENT ? SEGV_ACCERR
							 : SEGV_MAPERR;
	return 1;
}
#else
int crash_outer_repeats(int number, const siginfo_t *info, const ucontext_t *u,
			siginfo_t *fault)
{
	return 0;
}
#endif

#endif
