/* activity.h: what a worker does, from counters that are read once a tick: its
 * calls and steps, its CPU time, bytes and page faults. Pure: the caller has
 * the clock. */
#ifndef LAUNCHER_ACTIVITY_H
#define LAUNCHER_ACTIVITY_H

#include <stddef.h>
#include <stdint.h>

#include "rendezvous/wire.h"

enum {
	ACTIVITY_TICKS = 5, /* samples that are compared */
	ACTIVITY_WORDS_MAX = 120,
};

/* One reading. Counters only grow. */
struct activity_sample {
	uint64_t ns;	    /* clock_ns */
	uint64_t calls;	    /* libddp's; 0: it records none */
	uint64_t call_ns;   /* when the last one began */
	int in_call;	    /* one has not returned */
	int has_left;	    /* with ddp_finalize: others would wait for ever */
	int64_t step;	    /* that it reported; -1: none */
	uint64_t waited_ns; /* blocked in collectives of all ranks */
	int64_t pid;	    /* the program's own; 0: not known */
	uint64_t cpu_ms;    /* it and its descendants */
	uint64_t memory;    /* their resident bytes; 0: not known */
	uint64_t io_bytes;  /* read and written */
	uint64_t written;   /* the second part */
	uint64_t faults;    /* page faults */
	uint64_t reaped;    /* those of children that have ended */
	uint64_t processes; /* a sum that changes with the descendants */
	char state;	    /* as in /proc/PID/stat; 0: not known */
	char sleeps_in[48]; /* the kernel's function, or "" */
	int syncs;	    /* in fsync or the like, to a local disk */
	/* a child that was killed and is not reaped; 0: none */
	int64_t dead_pid;
	int dead_signal;
	char dead_name[16];
	/* a child that exited with an error and is not reaped; 0: none */
	int64_t failed_pid;
	int failed_code;
	char failed_name[16];
	int handles; /* the fault (SIGSEGV, ...) in whose handler its main
		      * thread seems to be; 0: none */
};

struct activity {
	uint64_t tick_ns; /* set by activity_init */
	struct activity_sample past[ACTIVITY_TICKS]; /* a ring */
	unsigned n;				     /* samples so far */
	uint64_t progress_ns; /* when it last made progress */
	uint64_t step_ns;     /* when its last step came */
	uint64_t step_us;     /* the mean time of its steps; 0: not known */
	uint64_t wrote_ns; /* when it last wrote fast since then; 0: never */
	uint64_t io_before;	/* the io_bytes at its last progress */
	/* The fault in whose handler it is, or was last seen; and how often
	 * that was, less the readings since. */
	int handles;
	unsigned handled;
	int cpu; /* thousandths of a CPU that it uses; -1: not known yet */
	enum wire_doing doing;
	uint64_t since_ns;		/* it began to do this */
	char words[ACTIVITY_WORDS_MAX]; /* "sleeps (nanosleep)" */
};

void activity_init(struct activity *a, uint64_t tick_ns, uint64_t now_ns);
void activity_add(struct activity *a, const struct activity_sample *s);
/* Since it last made progress. */
uint64_t activity_quiet_ms(const struct activity *a, uint64_t now_ns);

#endif
