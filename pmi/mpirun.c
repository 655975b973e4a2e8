/* mpirun.c: reads MPI launchers' variables. */
#include "pmi/mpirun.h"

#include <string.h>

#include "base/option.h"

enum { SIZE_LIMIT = 1 << 24 };

struct mpirun_names {
	const char *starter, *rank, *size, *local_size;
};

static const struct mpirun_names names[] = {
	[MPIRUN_NONE] = {"nobody", "", "", ""},
	[MPIRUN_OPENMPI] = {"mpirun", "OMPI_COMM_WORLD_RANK",
			    "OMPI_COMM_WORLD_SIZE",
			    "OMPI_COMM_WORLD_LOCAL_SIZE"},
	[MPIRUN_PMIX] = {"prterun", "PMIX_RANK", "PMIX_RANK", ""},
	[MPIRUN_PMI] = {"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
};

static const char *mpirun_value(mpirun_get *get, const char *name)
{
	const char *text = *name ? get(name) : NULL;

	return text && *text ? text : NULL;
}

/* Leaves *out unchanged if the variable is not set. */
static int mpirun_number(mpirun_get *get, const char *name, long min, long *out,
			 struct err *e)
{
	const char *text = mpirun_value(get, name);

	return text ? parse_long(text, min, SIZE_LIMIT, name, out, e) : 0;
}

/* In the same order as libddp. */
static enum mpirun_kind mpirun_find(mpirun_get *get)
{
	if (mpirun_value(get, "OMPI_COMM_WORLD_RANK"))
		return MPIRUN_OPENMPI;
	if (mpirun_value(get, "PMIX_RANK") &&
	    mpirun_value(get, "PMIX_NAMESPACE"))
		return MPIRUN_PMIX;
	return mpirun_value(get, "PMI_RANK") ? MPIRUN_PMI : MPIRUN_NONE;
}

static int mpirun_check_rank(const struct mpirun_names *n, long rank, long size,
			     struct err *e)
{
	if (rank < size)
		return 0;
	return err_set(e, ERR_USAGE,
		       "%s is %ld but %s is %ld: were they changed since %s "
		       "set them?", n->rank, rank, n->size, size, n->starter);
}

int mpirun_read(struct mpirun *m, mpirun_get *get, struct err *e)
{
	const char *bound = mpirun_value(get, "OMPI_MCA_orte_bound_at_launch");
	long rank = 0, size = 0, here = 0, fd = -1;
	const struct mpirun_names *n;
	int rc;

	*m = (struct mpirun){.kind = mpirun_find(get), .fd = -1};
	if (m->kind == MPIRUN_NONE)
		return 0;
	n = &names[m->kind];
	if (m->kind != MPIRUN_PMIX && !mpirun_value(get, n->size))
		return err_set(e, ERR_USAGE,
			       "%s is set but %s is not, so the MPI launcher's "
			       "environment is incomplete: start ddprun with "
			       "%s, or unset %s, or give --standalone",
			       n->rank, n->size, n->starter, n->rank);
	rc = mpirun_number(get, n->rank, 0, &rank, e);
	if (rc == 0 && m->kind != MPIRUN_PMIX)
		rc = mpirun_number(get, n->size, 1, &size, e);
	if (rc == 0 && size)
		rc = mpirun_check_rank(n, rank, size, e);
	if (rc == 0)
		rc = mpirun_number(get, n->local_size, 1, &here, e);
	if (rc == 0 && m->kind == MPIRUN_PMI)
		rc = mpirun_number(get, "PMI_FD", 0, &fd, e);
	m->rank = (uint32_t)rank;
	m->size = (uint32_t)size;
	m->here = (uint32_t)here;
	m->fd = (int)fd;
	m->bound = bound && strcmp(bound, "1") == 0 &&
		   !mpirun_value(get, "OMPI_MCA_hwloc_base_binding_policy");
	return rc;
}

int mpirun_check(const struct mpirun *m, struct err *e)
{
	const char *write = "mpirun --map-by ppr:1:node";

	if (m->here < 2)
		return 0;
	if (m->kind == MPIRUN_PMI)
		write = "mpiexec -ppn 1";
	else if (m->kind == MPIRUN_PMIX)
		write = "prterun --map-by ppr:1:node";
	return err_set(e, ERR_USAGE,
		       "%s starts %u ddpruns on this node, but one per node is "
		       "enough, which starts the workers: write %s ddprun "
		       "--nproc-per-node %u, or %s PROGRAM without ddprun",
		       mpirun_name(m), m->here, write, m->here, mpirun_name(m));
}

const char *mpirun_name(const struct mpirun *m)
{
	return names[m->kind].starter;
}

const char *mpirun_rank_name(const struct mpirun *m)
{
	return names[m->kind].rank;
}

/* ---- variables of a rank ---- */

static int mpirun_begins_with(const char *var, const char *with)
{
	return strncmp(var, with, strlen(with)) == 0;
}

int mpirun_is_rank_variable(const char *var)
{
	static const char *const starting[] = {
		"OMPI_COMM_WORLD_", "OMPI_MCA_orte_", "OMPI_MCA_ess_",
		"PMI_", "PMI2_", "MV2_COMM_WORLD_",
	};
	static const char *const whole[] = {
		"OMPI_APP_CTX_NUM_PROCS", "OMPI_ARGV", "OMPI_COMMAND",
		"OMPI_FILE_LOCATION", "OMPI_FIRST_RANKS", "OMPI_NUM_APP_CTX",
		"OMPI_UNIVERSE_SIZE", "OMPI_MCA_ess", "OMPI_MCA_pmix",
		"HYDI_CONTROL_FD", "MPI_LOCALNRANKS", "MPI_LOCALRANKID",
		"PALS_RANKID", "PALS_LOCAL_RANKID", "PALS_NODEID",
		"HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK",
		"HOROVOD_LOCAL_SIZE", "HOROVOD_CROSS_RANK",
		"HOROVOD_CROSS_SIZE",
	};
	size_t len = strcspn(var, "=");

	if (mpirun_begins_with(var, "PMIX_"))
		return !mpirun_begins_with(var, "PMIX_MCA_");
	for (size_t i = 0; i < sizeof(starting) / sizeof(*starting); i++)
		if (mpirun_begins_with(var, starting[i]))
			return 1;
	for (size_t i = 0; i < sizeof(whole) / sizeof(*whole); i++)
		if (strlen(whole[i]) == len && !strncmp(var, whole[i], len))
			return 1;
	return 0;
}
