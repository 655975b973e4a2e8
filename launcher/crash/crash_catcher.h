/* crash_catcher.h: the agent's side of catching a worker's crash while its
 * memory is still there: a library that workers preload, and a file in which
 * they leave a struct crash_record. Starts nothing, unwinds nothing.
 *
 * Why a preloaded handler that copies, of all ways to see a stack at death:
 * - A core that the kernel pipes to a program (core_pattern) needs root, and
 *   a core in a file takes gigabytes.
 * - ptrace (PTRACE_SEIZE with PTRACE_O_TRACEEXIT) works for static programs,
 *   but stops every worker for each of its signals and new threads, and shuts
 *   out gdb, strace, py-spy and `ddprun dump`: there is one tracer.
 * - A handler that waits for the agent to unwind the process would let the
 *   other threads run on, perhaps to exit(0), and needs yama's permission.
 * So the handler copies the registers, 256 KiB of the stack and the memory map,
 * which takes about a millisecond, and the agent unwinds the copy. It then sets
 * the default action and queues the same signal again, so that exit status and
 * core file are as they were.
 *
 * A healthy program notices nothing: the library catches only signals whose
 * action is the default, and reports the default where it catches. A program
 * that installs its own handler (a JVM, Go, AddressSanitizer) replaces ours. A
 * static or a setuid program, a program of another word size, and one whose
 * /proc is another pid namespace's do not load it; the loader says so on stderr
 * in the last two cases. --no-crash-stacks turns it off. crash_internal.h
 * says which programs hand the library on to those that they start. */
#ifndef LAUNCHER_CRASH_CATCHER_H
#define LAUNCHER_CRASH_CATCHER_H

#include <stddef.h>

#include "base/buf.h"
#include "launcher/crash/crash_record.h"

struct crash_catcher {
	int library, records; /* memory files; -1: none */
	uint32_t n;
	/* as workers open them; "": none */
	char library_path[32], records_path[32];
};

void crash_catcher_init(struct crash_catcher *c);
void crash_catcher_release(struct crash_catcher *c);

/* Makes the library, which does not depend on the round. */
void crash_catcher_prepare(struct crash_catcher *c);

/* A round of n workers is about to start: drops the last round's records. If
 * that fails, its workers run without the library. */
void crash_catcher_begin(struct crash_catcher *c, uint32_t n);

/* 1 and the record, if a process left one there. */
int crash_catcher_read(const struct crash_catcher *c, uint32_t local_rank,
		       uint32_t slot, struct crash_record *r);
/* Copies a part of that slot, from CRASH_..._AT on: as much as there is, as a
 * string. */
void crash_catcher_read_part(const struct crash_catcher *c, uint32_t local_rank,
			     uint32_t slot, uint32_t at, char *out,
			     size_t size);
/* 1 and the last child of that worker that was killed, if there is one. */
int crash_catcher_read_child(const struct crash_catcher *c, uint32_t local_rank,
			     struct crash_child *child);
/* 1 and the sender of the signal that killed that process of it, if a process
 * sent it and the killed one has recorded that. */
int crash_catcher_read_sent(const struct crash_catcher *c, uint32_t local_rank,
			    int32_t pid, int32_t number,
			    struct crash_sent *sent);
/* Pure: "sent by process 812 (scancel) of uid 0". */
void crash_catcher_put_sender(const struct crash_sent *sent, struct buf *out);

#endif
