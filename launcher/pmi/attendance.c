/* attendance.c: a state for each rank. */
#include "launcher/pmi/attendance.h"

#include <stdio.h>
#include <stdlib.h>

int attendance_init(struct attendance *a, uint32_t base_rank, uint32_t n,
		    struct err *e)
{
	*a = (struct attendance){.base_rank = base_rank, .n = n};
	a->ranks = calloc(n, sizeof(*a->ranks));
	return a->ranks ? 0 : err_no_memory(e, "MPI's start-up for %u workers",
					    n);
}

void attendance_release(struct attendance *a)
{
	free(a->ranks);
	a->ranks = NULL;
}

/* Whether the others wait for this rank, which has ended: not if it has called
 * MPI_Finalize, where it has met them. */
static int attendance_is_missing(const struct attendance_rank *r)
{
	return r->has_ended && r->state != ATTENDANCE_LEFT;
}

int attendance_is_ready(const struct attendance *a)
{
	int is_needed = 0;

	for (uint32_t i = 0; i < a->n; i++) {
		const struct attendance_rank *r = &a->ranks[i];

		if (r->state != ATTENDANCE_WAITS && !r->has_ended)
			return 0;
		is_needed |= attendance_is_missing(r) ||
			     r->state == ATTENDANCE_WAITS;
	}
	return is_needed;
}

int attendance_is_broken(const struct attendance *a)
{
	for (uint32_t i = 0; i < a->n; i++)
		if (attendance_is_missing(&a->ranks[i]))
			return 1;
	return 0;
}

void attendance_all_wait(struct attendance *a)
{
	for (uint32_t i = 0; i < a->n; i++)
		if (a->ranks[i].state == ATTENDANCE_IN)
			a->ranks[i].state = ATTENDANCE_WAITS;
}

void attendance_resume(struct attendance *a)
{
	for (uint32_t i = 0; i < a->n; i++)
		if (a->ranks[i].state == ATTENDANCE_WAITS)
			a->ranks[i].state = ATTENDANCE_IN;
}

void attendance_abort(struct attendance_rank *r, int code, struct slice text)
{
	r->has_aborted = 1;
	r->abort_code = code;
	snprintf(r->abort_text, sizeof(r->abort_text), "%.*s",
		 SLICE_FMT(text));
}

int attendance_aborted(const struct attendance_rank *r, int *code, char *text,
		       size_t size)
{
	if (!r->has_aborted)
		return 0;
	/* an exit code has 8 bits, and that of an aborted job is not 0 */
	*code = r->abort_code & 0xff ? r->abort_code & 0xff : 1;
	snprintf(text, size, "it called MPI_Abort with %d%s%s", r->abort_code,
		 r->abort_text[0] ? ": " : "", r->abort_text);
	return 1;
}

void attendance_put(const struct attendance *a, struct buf *part)
{
	uint32_t ended = 0;

	for (uint32_t i = 0; i < a->n; i++)
		ended += a->ranks[i].has_ended;
	buf_put_u32(part, ended);
	for (uint32_t i = 0; i < a->n; i++) {
		if (!a->ranks[i].has_ended)
			continue;
		buf_put_u32(part, a->base_rank + i);
		buf_put_u8(part, a->ranks[i].state);
	}
}

void attendance_read(struct reader *r, struct attendance_ended *ended)
{
	uint32_t here = reader_u32(r);

	for (uint32_t i = 0; i < here && !r->bad; i++) {
		uint32_t rank = reader_u32(r);
		uint8_t state = reader_u8(r);

		if (r->bad || ended->n++)
			continue;
		ended->rank = rank;
		ended->state = state;
	}
}

static const char *attendance_how(uint8_t state)
{
	if (state == ATTENDANCE_NEW)
		return "ended without MPI_Init";
	return state == ATTENDANCE_LEFT ? "ended after MPI_Finalize"
					: "ended without MPI_Finalize";
}

int attendance_check(const struct attendance *a,
		     const struct attendance_ended *ended, struct err *e)
{
	char more[48] = "";
	uint32_t i = 0;

	while (i < a->n && (a->ranks[i].state != ATTENDANCE_WAITS ||
			    a->ranks[i].has_ended))
		i++;
	if (i == a->n)
		return 0;
	if (!ended->n)
		return 1;
	if (ended->n > 1)
		snprintf(more, sizeof(more), " (and %u more)", ended->n - 1);
	return err_set(e, ERR_REMOTE,
		       "rank %u%s %s, but rank %u waits for all ranks in an "
		       "MPI call (MPI_Init, for example); in a program in "
		       "which only some ranks use MPI, start ddprun with "
		       "--mpi none", ended->rank, more,
		       attendance_how(ended->state), a->base_rank + i);
}
