/* emulated.h: whether an emulator such as qemu's user mode runs this program.
 * It stands in for a kernel, and cannot do everything that one does: a test
 * that needs the rest prints a line, which tests/run counts as a skip. */
#ifndef TESTS_EMULATED_H
#define TESTS_EMULATED_H

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* The machine that a program is for. */
static inline int emulated_machine(const char *path)
{
	Elf64_Ehdr head = {.e_machine = EM_NONE};
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && read(fd, &head, sizeof(head)) != sizeof(head))
		head.e_machine = EM_NONE;
	if (fd >= 0)
		close(fd);
	return head.e_machine;
}

/* An emulator shows our program as /proc/self/exe. The kernel answers for the
 * other name, and runs the emulator, which is for another machine. */
static inline int is_emulated(void)
{
	return emulated_machine("/proc/self/exe") !=
	       emulated_machine("/proc/thread-self/exe");
}

/* At the start of a test: `if (emulator_lacks("ptrace")) return;` */
static inline int emulator_lacks(const char *what)
{
	if (!is_emulated())
		return 0;
	printf("skipped: this machine emulates another, without %s\n", what);
	fflush(stdout);
	return 1;
}

#endif
