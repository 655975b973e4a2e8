/* device_assign.c: chooses a GPU and compares it with those of the host's other
 * ranks. */
#include "trainers/train/device_assign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int device_assign_gpu(int local_rank, int count, const char *visible,
		      char name[DEVICE_CLAIM_NAME_MAX])
{
	int index = count > 0 ? local_rank % count : 0;

	snprintf(name, DEVICE_CLAIM_NAME_MAX, "%d", index);
	for (int i = 0; visible && *visible; i++) {
		size_t n = strcspn(visible, ",");

		if (i == index)
			snprintf(name, DEVICE_CLAIM_NAME_MAX, "%.*s", (int)n,
				 visible);
		visible += n + (visible[n] == ',');
	}
	return index;
}

int device_assign_conflict(const struct device_claim *all, int rank)
{
	for (int i = 0; i < rank; i++)
		if (!strcmp(all[i].leader, all[rank].leader) &&
		    !strcmp(all[i].name, all[rank].name))
			return i;
	return -1;
}

const char *device_assign_cores(const cpu_set_t *set, char *out, size_t size)
{
	int cores = CPU_COUNT(set), last;
	size_t n = (size_t)snprintf(out, size, "core%s", cores == 1 ? "" : "s");
	const char *before = " ";

	for (int i = 0; i < CPU_SETSIZE && n < size; i = last + 1) {
		last = i;
		if (!CPU_ISSET((size_t)i, set))
			continue;
		while (last + 1 < CPU_SETSIZE && CPU_ISSET((size_t)last + 1,
							   set))
			last++;
		n += (size_t)snprintf(out + n, size - n, "%s%d", before, i);
		before = ",";
		if (last > i && n < size)
			n += (size_t)snprintf(out + n, size - n, "-%d", last);
	}
	return out;
}

int device_assign(ddp_comm *world, const struct trainer_options *o, int count,
		  int *index, struct err *e)
{
	int n = ddp_world_size(world), rank = ddp_rank(world), r;
	struct device_claim *all = calloc((size_t)n, sizeof(*all));
	struct device_claim *mine = all + rank;
	int other;

	if (!all)
		return err_no_memory(e, "a choice among %d GPUs", count);
	snprintf(mine->leader, sizeof(mine->leader), "%d",
		 ddp_host_leader(world));
	*index = device_assign_gpu(ddp_local_rank(world), count,
				   getenv("CUDA_VISIBLE_DEVICES"), mine->name);
	r = ddp_all_gather(world, mine, all, sizeof(*mine), DDP_U8);
	if (r < 0)
		err_set(e, r, "%s", ddp_last_error());
	other = r == 0 && !o->oversubscribe_gpu
			? device_assign_conflict(all, rank)
			: -1;
	if (other >= 0)
		r = err_set(e, ERR_USAGE,
			    "ranks %d and %d of a host would share GPU %s: it "
			    "has %d for its ranks; start fewer workers per "
			    "node, or give --oversubscribe-gpu",
			    other, rank, mine->name, count);
	free(all);
	return r;
}
