/* freeze.h: one thread of another process as it was at a moment: its registers
 * and the top of its stack, copied while it was stopped with ptrace. */
#ifndef LAUNCHER_FREEZE_H
#define LAUNCHER_FREEZE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum { FREEZE_STACK_MAX = 256 << 10, FREEZE_REGISTERS = 32 };

struct freeze {
	pid_t tid;
	uint64_t registers[FREEZE_REGISTERS]; /* as DWARF numbers them */
	int nregisters;
	uint64_t pc, sp;
	size_t size;
	unsigned char stack[FREEZE_STACK_MAX]; /* from sp on */
};

/* It runs on when this returns, or when we are killed; one that was stopped
 * before stays so. -EPERM, -ESRCH; -ETIMEDOUT: it is inside the kernel. The
 * text says what to do. */
int freeze_thread(struct freeze *f, pid_t pid, pid_t tid, struct err *e);

/* A word of its memory: of the copy, else as it is now. 0 or -1. */
int freeze_read(const struct freeze *f, uint64_t at, uint64_t *word);

#endif
