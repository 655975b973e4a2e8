/* attendance.h: which ranks of this node have called MPI_Init, wait for all
 * ranks of the world, have called MPI_Finalize, or have ended; and what a node
 * tells the others about it in an exchange, so that no rank waits for ever.
 * Pure; the same for PMI-1 and PMIx.
 *
 * A node takes part in an exchange when each of its ranks waits or has ended.
 * A rank that ended after MPI_Finalize has met the others there. */
#ifndef LAUNCHER_ATTENDANCE_H
#define LAUNCHER_ATTENDANCE_H

#include "base/buf.h"

enum attendance_state {
	ATTENDANCE_NEW, /* it has not called MPI_Init */
	ATTENDANCE_IN,
	ATTENDANCE_WAITS, /* for all ranks */
	ATTENDANCE_LEFT,  /* it has called MPI_Finalize */
};

enum { ATTENDANCE_TEXT_MAX = 256 };

struct attendance_rank {
	uint8_t state;
	uint8_t has_ended; /* its process, without a failure */
	uint8_t has_aborted;
	int abort_code;
	char abort_text[ATTENDANCE_TEXT_MAX];
};

struct attendance {
	struct attendance_rank *ranks; /* n: this node's */
	uint32_t base_rank, n;
};

/* What the nodes have told: the first rank that ended, and how many did. */
struct attendance_ended {
	uint32_t rank, n;
	uint8_t state;
};

/* 0 or -ENOMEM; then a needs no release. */
int attendance_init(struct attendance *a, uint32_t base_rank, uint32_t n,
		    struct err *e);
void attendance_release(struct attendance *a);

/* 1: this node takes part in an exchange now. */
int attendance_is_ready(const struct attendance *a);
/* 1: a rank ended that has not called MPI_Finalize. */
int attendance_is_broken(const struct attendance *a);
/* Marks each rank between MPI_Init and MPI_Finalize as waiting. */
void attendance_all_wait(struct attendance *a);
/* The exchange is over: nobody waits any more. */
void attendance_resume(struct attendance *a);

/* The rank has called MPI_Abort. */
void attendance_abort(struct attendance_rank *r, int code, struct slice text);
/* 1 if it has: its exit code, 1 to 255, and in text what it called. */
int attendance_aborted(const struct attendance_rank *r, int *code, char *text,
		       size_t size);

/* This node's part of an exchange begins with it. */
void attendance_put(const struct attendance *a, struct buf *part);
/* Reads what a node has put; a torn part sets r->bad. ended: all zeroes before
 * the first node's part. */
void attendance_read(struct reader *r, struct attendance_ended *ended);
/* The parts of all nodes were read. 1 if a rank of this node waits; 0: none.
 * ERR_REMOTE: one would wait for ever, and e names ranks that ended. */
int attendance_check(const struct attendance *a,
		     const struct attendance_ended *ended, struct err *e);

#endif
