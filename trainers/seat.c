/* seat.c: the choice, and asking the other ranks of the host. */
#include "trainers/seat.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int seat_of(int local_rank, int count, const char *visible,
	    char name[SEAT_NAME_MAX])
{
	int index = count > 0 ? local_rank % count : 0;

	snprintf(name, SEAT_NAME_MAX, "%d", index);
	for (int i = 0; visible && *visible; i++) {
		size_t n = strcspn(visible, ",");

		if (i == index)
			snprintf(name, SEAT_NAME_MAX, "%.*s", (int)n, visible);
		visible += n + (visible[n] == ',');
	}
	return index;
}

struct taken {
	char leader[16]; /* the host's: ranks with the same one share a host */
	char name[SEAT_NAME_MAX];
};

int seat_take(ddp_comm *world, const struct trainer_options *o, int count,
	      int *index, struct err *e)
{
	int n = ddp_world_size(world), rank = ddp_rank(world), r;
	struct taken *all = calloc((size_t)n, sizeof *all);
	struct taken *mine = all + rank;

	if (!all)
		return err_set(e, -ENOMEM, "no memory to choose a GPU");
	snprintf(mine->leader, sizeof mine->leader, "%d",
		 ddp_host_leader(world));
	*index = seat_of(ddp_local_rank(world), count,
			 getenv("CUDA_VISIBLE_DEVICES"), mine->name);
	r = ddp_all_gather(world, mine, all, sizeof *mine, DDP_U8);
	if (r < 0)
		err_set(e, r, "%s", ddp_last_error());
	for (int i = 0; r == 0 && i < rank && !o->oversubscribe_gpu; i++)
		if (!memcmp(&all[i], mine, sizeof *mine))
			r = err_set(e, ERR_USAGE, "ranks %d and %d of a host "
				    "would share GPU %s: it has %d for its "
				    "ranks; start fewer workers a node, or "
				    "give --oversubscribe-gpu", i, rank,
				    mine->name, count);
	free(all);
	return r;
}
