/* held_exec.h: a process that is held in execve: it has lost its environment
 * and has no other yet, nor ever will. Its file passes for a program until its
 * only segment is mapped, which is larger in the file than in memory: the
 * kernel ends it, and the tracer stops it on its way out, with the memory that
 * it was given. No privilege is needed. */
#ifndef TESTS_HELD_EXEC_H
#define TESTS_HELD_EXEC_H

#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/* A descriptor of that file, for this machine; -1 if it cannot be made. */
static inline int held_exec_file(void)
{
	struct {
		Elf64_Ehdr head;
		Elf64_Phdr segment;
	} file;
	int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int fd = memfd_create("held", MFD_CLOEXEC), ok;

	ok = read(self, &file.head, sizeof(file.head)) == sizeof(file.head);
	close(self);
	file.head.e_type = ET_EXEC;
	file.head.e_phoff = sizeof(file.head);
	file.head.e_phnum = 1;
	file.segment = (Elf64_Phdr){
		.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = 1 << 22,
		.p_filesz = sizeof(file), .p_memsz = 1, .p_align = 1 << 16};
	ok = ok && write(fd, &file, sizeof(file)) == sizeof(file);
	if (!ok && fd >= 0)
		close(fd);
	return ok ? fd : -1;
}

/* The process that shall be held, once its tracer has closed the other end of
 * this pipe. */
static inline _Noreturn void held_exec_enter(int held, int traced)
{
	char *none[] = {NULL}, *argv[] = {(char *)"held", NULL}, byte;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	if (read(traced, &byte, 1) == 0)
		fexecve(held, argv, none);
	_exit(1);
}

/* This process is the tracer of pid from here on, which is in execve when this
 * returns and ends no later than the tracer. 0, or -1 if that is not to be. */
static inline int held_exec_trace(pid_t pid, int traced)
{
	const long options = PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL;
	int status = 0;
	long rc = ptrace(PTRACE_SEIZE, pid, NULL, options);

	close(traced);
	while (rc == 0 && waitpid(pid, &status, __WALL) == pid) {
		if (!WIFSTOPPED(status))
			return -1;
		if (status >> 16 == PTRACE_EVENT_EXIT)
			return 0;
		rc = ptrace(PTRACE_CONT, pid, NULL, (long)WSTOPSIG(status));
	}
	return -1;
}

/* A child of this process, which is its tracer, that is held so; or -1. */
static inline pid_t held_exec_start(void)
{
	int ends[2], held = held_exec_file();
	pid_t pid;

	if (held < 0 || pipe(ends) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[1]);
		held_exec_enter(held, ends[0]);
	}
	close(held);
	close(ends[0]);
	return held_exec_trace(pid, ends[1]) == 0 ? pid : -1;
}

/* Lets it end, which SIGKILL does not, and reaps it: 0, or -1 if it had ended
 * before. */
static inline int held_exec_end(pid_t pid)
{
	int status;

	return ptrace(PTRACE_CONT, pid, NULL, NULL) == 0 &&
	       waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) &&
	       WTERMSIG(status) == SIGSEGV ? 0 : -1;
}

#endif
