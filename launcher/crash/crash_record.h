/* crash_record.h: what a worker that dies by a signal leaves for its agent: a
 * slot in a file that both have open. crash_handler.c writes it in the dying
 * process; crash_catcher.h reads it. */
#ifndef LAUNCHER_CRASH_RECORD_H
#define LAUNCHER_CRASH_RECORD_H

#include <stdint.h>

/* In a worker's environment: /proc/AGENT_PID/fd/N:LOCAL_RANK. */
#define CRASH_VARIABLE "DDP_CRASH_RECORD"

#define CRASH_MAGIC UINT64_C(0x3168736172637064) /* "dpcrash1" */
#define CRASH_UNLIMITED UINT64_MAX

enum {
	CRASH_REGISTERS = 32, CRASH_PATH = 512,
	/* a slot: the record, then these parts; the first two only of a
	 * worker's own slot */
	CRASH_CHILD_AT = 2 << 10,
	CRASH_SENT_AT = 3 << 10, CRASH_SENT_MAX = 16, CRASH_SENT_BYTES = 64,
	CRASH_STACK_AT = 4 << 10, CRASH_STACK_MAX = 256 << 10,
	CRASH_MAPS_AT = 320 << 10, CRASH_MAPS_MAX = 1 << 20,
	CRASH_PYTHON_AT = 1600 << 10, CRASH_PYTHON_MAX = 64 << 10,
	CRASH_SLOT_BYTES = 2 << 20,
	/* each worker has one slot for itself, one for the first of its
	 * descendants that dies */
	CRASH_OWN = 0, CRASH_DESCENDANT, CRASH_SLOTS,
};

/* The file that is mapped at the address of a SIGBUS, as that process sees
 * it. */
struct crash_file {
	char path[CRASH_PATH]; /* "": none, or its name is too long */
	uint64_t at;	       /* the address, from the file's beginning */
	uint64_t size;	       /* CRASH_UNLIMITED: not known */
	int32_t is_deleted;
	/* where its file system is mounted, and that file system's blocks; no
	 * blocks: not known */
	char mount[CRASH_PATH];
	uint64_t fs_blocks, fs_free, fs_available, fs_block;
};

struct crash_record {
	uint64_t magic; /* CRASH_MAGIC once all but python_size is there */
	uint32_t claimed; /* 1: a process writes, or has written */
	int32_t pid, tid;
	int32_t signal, code; /* siginfo's si_signo, si_code */
	int32_t sender; /* the pid that sent it, if code is 0 or less */
	uint64_t address; /* the fault's */
	uint64_t limit; /* that the signal is about; of SIGSEGV: the stack's;
			 * of SIGSYS: the number of the system call */
	uint64_t root_device, root_inode; /* its root folder's */
	uint64_t registers[CRASH_REGISTERS]; /* in DWARF's order */
	uint64_t pc, sp;
	int32_t nregisters;
	/* the stack from stack_from on, /proc/PID/maps, Python's frames as
	 * faulthandler prints them */
	uint64_t stack_from;
	uint32_t stack_size, maps_size, python_size;
	char thread[16];   /* its name */
	char program[256]; /* its executable's path */
	struct crash_file file;
};

/* The last child of the worker, or of a process below it, that a signal killed
 * and that was waited for, unless its parent has sent the signal. */
struct crash_child {
	uint64_t magic; /* CRASH_MAGIC */
	uint64_t ns;	/* CLOCK_MONOTONIC */
	int32_t pid, signal;
	int32_t parent; /* the process that waited for it */
	char name[16];	/* "": not known */
};

/* A process of the worker that was killed by a signal that asks it to end, such
 * as SIGTERM; one of CRASH_SENT_MAX, by its pid. */
struct crash_sent {
	uint64_t magic; /* CRASH_MAGIC */
	int32_t pid, signal;
	int32_t sender; /* 0: in another PID namespace */
	uint32_t uid;	/* the sender's */
	char name[16];	/* the sender's; "": not known */
};
_Static_assert(sizeof(struct crash_record) <= CRASH_CHILD_AT, "overlap");
_Static_assert(CRASH_CHILD_AT + sizeof(struct crash_child) <= CRASH_SENT_AT &&
		       sizeof(struct crash_sent) <= CRASH_SENT_BYTES,
	       "overlap");

static inline uint32_t crash_sent_at(int32_t pid)
{
	return CRASH_SENT_AT +
	       (uint32_t)pid % CRASH_SENT_MAX * CRASH_SENT_BYTES;
}

static inline uint64_t crash_slot_at(uint32_t local_rank, uint32_t slot)
{
	return ((uint64_t)local_rank * CRASH_SLOTS + slot) * CRASH_SLOT_BYTES;
}

#endif
