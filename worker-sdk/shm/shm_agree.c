/* shm_agree.c: checks that the ranks of a host make the same calls, and finds
 * the first calls that differ. The root of a small broadcast waits for no other
 * rank, so the ranks may have diverged some calls ago: at a call that not all
 * ranks made, or for which two ranks named themselves as root. The cells still
 * show which. */
#include "worker-sdk/shm/shm.h"

/* One rank's call. */
struct made {
	int rank;
	struct ddp__call call;
};

static struct made agree_made(int rank, uint64_t word, uint64_t number)
{
	struct made m = {.rank = rank};

	ddp__call_unpack(&m.call, word, number);
	return m;
}

static int agree_differ(struct ddp__shm *s, const struct made *a,
			const struct made *b, struct err *e)
{
	char a_call[DDP__CALL_TEXT], b_call[DDP__CALL_TEXT];
	char a_name[DDP__NAME_MAX], b_name[DDP__NAME_MAX];

	err_set(e, ERR_ARGUMENT,
		"%s called %s, but %s called %s: all ranks must make the same "
		"calls in the same order",
		s->peers->name(s->peers->owner, s->ranks[a->rank], a_name),
		ddp__call_text(&a->call, a_call),
		s->peers->name(s->peers->owner, s->ranks[b->rank], b_name),
		ddp__call_text(&b->call, b_call));
	return ddp__shm_fail(s, e);
}

/* The cell of rank i at a place, if the cell still holds that place. */
static const struct ddp__shm_cell *agree_cell(const struct ddp__shm *s, int i,
					      uint64_t place, uint64_t *stamp)
{
	const struct ddp__shm_cell *cell =
		ddp__shm_cell_on(s, i, (unsigned)(place - s->cells));

	*stamp = atomic_load_explicit(&cell->stamp, memory_order_acquire);
	return place && *stamp >> 32 == (uint32_t)place ? cell : NULL;
}

/* Finds the ranks that gave a cell at one place: each named itself as root. 1:
 * there are two; the first is the lowest. */
static int agree_find_two_roots(const struct ddp__shm *s, uint64_t place,
				struct made two[2])
{
	uint64_t number = s->numbers[place % DDP__SHM_CELLS], first = 0, stamp;
	int n = 0;

	for (int i = 0; i < s->n && n < 2; i++) {
		const struct ddp__shm_cell *cell =
			agree_cell(s, i, place, &stamp);

		if (!cell)
			continue;
		if (!n)
			first = stamp;
		/* 0: this rank does not know the number */
		two[n++] =
			agree_made(i, cell->call, stamp == first ? number : 0);
	}
	return n == 2;
}

/* Finds the first place with two roots, as far back as this rank's cells
 * reach. */
static int agree_find_roots(const struct ddp__shm *s, struct made two[2])
{
	uint64_t from = s->cells < DDP__SHM_CELLS
				? 1
				: s->cells - DDP__SHM_CELLS + 1;

	for (uint64_t place = from; place <= s->cells; place++)
		if (agree_find_two_roots(s, place, two))
			return 1;
	return 0;
}

/* Finds the small broadcast that this rank made under a number for which others
 * made another call, if there is one. */
static void agree_find_mine(const struct ddp__shm *s, uint64_t number,
			    struct made *out)
{
	for (uint64_t back = 0; back < DDP__SHM_CELLS && back < s->cells;
	     back++) {
		uint64_t place = s->cells - back, stamp;

		if (s->numbers[place % DDP__SHM_CELLS] != (uint32_t)number)
			continue;
		for (int i = 0; i < s->n; i++) {
			const struct ddp__shm_cell *cell =
				agree_cell(s, i, place, &stamp);

			if (!cell)
				continue;
			*out = agree_made(s->me, cell->call, number);
			return;
		}
	}
}

/* Finds the small broadcast that another rank gave when this rank made call. */
static int agree_find_given(const struct ddp__shm *s,
			    const struct ddp__call *call, struct made *out)
{
	uint64_t place = s->cells + 1, stamp;

	for (int i = 0; i < s->n; i++) {
		const struct ddp__shm_cell *cell =
			agree_cell(s, i, place, &stamp);

		if (!cell || stamp != ddp__shm_stamp(place, call->number,
						     s->before))
			continue;
		*out = agree_made(i, cell->call, call->number);
		return 1;
	}
	return 0;
}

/* Another rank made `theirs` when this one made call, or they diverged
 * before. */
static int agree_explain(struct ddp__shm *s, const struct ddp__call *call,
			 struct made theirs, struct err *e)
{
	struct made two[2] = {{s->me, *call}, theirs}, found[2];

	if (agree_find_roots(s, found)) {
		two[0] = found[0];
		two[1] = found[1];
	} else if (theirs.call.number < call->number) {
		agree_find_mine(s, theirs.call.number, &two[0]);
	} else if (theirs.call.number > call->number &&
		   agree_find_given(s, call, &found[0])) {
		two[1] = two[0];
		two[0] = found[0];
	}
	two[0].call.group = two[1].call.group = call->group;
	return agree_differ(s, &two[0], &two[1], e);
}

/* Rank i may be some calls ahead, if those are small broadcasts that it
 * gave. */
int ddp__shm_differ(struct ddp__shm *s, const struct ddp__call *call, int i,
		    const struct ddp__call *other, struct err *e)
{
	/* do not count the awaited cell: this rank does not have it */
	s->cells -= s->cell != NULL;
	return agree_explain(s, call, (struct made){i, *other}, e);
}

int ddp__shm_agree(struct ddp__shm *s, struct err *e)
{
	int half = s->step & 1, i;
	const struct ddp__shm_full_call *full;

	/* Skips this rank's own line: the others read it now, so reading it
	 * would be as slow as reading theirs. */
	for (i = 0; i < s->n; i++)
		if (i != s->me && ddp__shm_control(s, i)->call[half] != s->mark)
			break;
	if (i == s->n)
		return 0;
	full = &ddp__shm_control(s, i)->full[half];
	return agree_explain(s, &s->call,
			     agree_made(i, full->word, full->number), e);
}

/* If the calls before were the same, the root's number follows from its
 * stamp. */
int ddp__shm_agree_on_cell(struct ddp__shm *s, const struct ddp__call *call,
			   int root, struct err *e)
{
	uint64_t stamp, low, number = call->number;
	const struct ddp__shm_cell *cell =
		agree_cell(s, root, s->cells, &stamp);
	uint64_t word = cell ? cell->call : 0;

	low = (uint32_t)(stamp ^ s->before >> 32);
	number += (uint64_t)(int64_t)(int32_t)(low - (uint32_t)number);
	/* this cell does not count yet: it is not a second root */
	s->cells--;
	return agree_explain(s, call, agree_made(root, word, number), e);
}
