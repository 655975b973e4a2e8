/* shm_cell.c: small broadcasts within a host. A root that waited for all ranks
 * would be as slow as a barrier; instead it writes the bytes into its next cell
 * and continues. All ranks count the cells of all ranks in the same way. */
#include <sched.h>
#include <string.h>

#include "worker-sdk/shm/shm.h"

/* A cell is reused after DDP__SHM_CELLS others. Two of the broadcasts in
 * between go by steps. By the second of these its root has seen that all ranks
 * reached the first, so every cell written before the first has been read. */
enum { AHEAD = 16 };

int ddp__shm_cell_begin(struct ddp__shm *s, const struct ddp__call *call)
{
	int is_next = ddp__shm_cell_is_next(s);

	s->cells++;
	if (!is_next)
		return 0;
	ddp__shm_entered(s, ddp__call_pack(call), call->number);
	return 1;
}

/* Counts the cell's call as made. */
static void cell_count(struct ddp__shm *s, const struct ddp__call *call,
		       uint64_t word)
{
	s->numbers[s->cells % DDP__SHM_CELLS] = (uint32_t)call->number;
	s->before = ddp__digest(s->before, word);
}

void ddp__shm_cell_give(struct ddp__shm *s, const struct ddp__call *call,
			const void *from, size_t size)
{
	struct ddp__shm_control *mine = ddp__shm_control(s, s->me);
	struct ddp__shm_cell *cell = ddp__shm_cell(s, s->me);
	uint32_t cpu = (uint32_t)sched_getcpu();
	uint64_t word = ddp__call_pack(call);

	/* the readers hold the line: fetching it back takes longer than all the
	 * rest */
	__builtin_prefetch(ddp__shm_cell_on(s, s->me, AHEAD), 1);

	if (atomic_load_explicit(&mine->cpu, memory_order_relaxed) != cpu)
		atomic_store_explicit(&mine->cpu, cpu, memory_order_relaxed);
	cell->call = word;
	if (size)
		memcpy(cell->data, from, size);
	atomic_store_explicit(&cell->stamp,
			      ddp__shm_stamp(s->cells, call->number, s->before),
			      memory_order_release);
	cell_count(s, call, word);
	/* Sequentially consistent, as in ddp__shm_post. */
	atomic_store(&mine->given, (uint32_t)s->cells);
	if (atomic_load(&mine->sleepers))
		ddp__shm_wake(&mine->given);
	if (atomic_load(&s->header->armed))
		ddp__shm_ring(s);
}

/* The cell is there: checks that it belongs to this call. 0 or the error. */
static int cell_accept(struct ddp__shm *s, const struct ddp__call *call,
		       int root, struct err *e)
{
	const struct ddp__shm_cell *cell = s->cell;
	uint64_t stamp = atomic_load_explicit(&cell->stamp,
					      memory_order_relaxed);
	uint64_t word = ddp__call_pack(call);

	s->cell = NULL;
	if (stamp != ddp__shm_stamp(s->cells, call->number, s->before) ||
	    cell->call != word)
		return ddp__shm_agree_on_cell(s, call, root, e);
	cell_count(s, call, word);
	return 0;
}

static void cell_await(struct ddp__shm *s, const struct ddp__call *call,
		       int root)
{
	s->cell = ddp__shm_cell(s, root);
	s->cell_call = call;
	s->cell_from = root;
}

int ddp__shm_cell_wait(struct ddp__shm *s, const struct ddp__call *call,
		       int root, struct err *e)
{
	int rc = 0;

	cell_await(s, call, root);
	if (!ddp__shm_cell_there(s))
		rc = ddp__shm_wait_for(s, root, e);
	if (!rc)
		return cell_accept(s, call, root, e);
	s->cell = NULL;
	return rc;
}

int ddp__shm_cell_arrived(struct ddp__shm *s, const struct ddp__call *call,
			  int root, struct err *e)
{
	int rc;

	cell_await(s, call, root);
	if (!ddp__shm_cell_there(s))
		return ddp__shm_aborted(s) ? ddp__shm_fail(s, e) : 0;
	rc = cell_accept(s, call, root, e);
	return rc ? rc : 1;
}
