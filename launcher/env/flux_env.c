/* flux_env.c: Flux's row. Its tasks get PMI-1, which is MPICH's row; what is
 * left is an instance whose nodes have no ddprun yet, and tasks without PMI. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/option.h"
#include "launcher/env/launch_env_internal.h"
#include "launcher/env/tool.h"
#include "slurm/hostlist.h"

enum { ANSWER_MS = 10000, ANSWER_MAX = 64 << 10 };

/* How many nodes the list, of Slurm's grammar, has; 0: it cannot be read. */
static uint32_t flux_env_count(const char *text)
{
	struct hostlist l;
	uint32_t n = 0;

	hostlist_init(&l);
	if (hostlist_parse(&l, SLICE(text, strcspn(text, "\n")), NULL) == 0)
		n = l.count;
	hostlist_release(&l);
	return n;
}

/* In the script of flux batch, or the shell of flux alloc. */
static int flux_env_check_instance(struct err *e)
{
	static const char *const words[] = {"flux", "getattr", "hostlist",
					    NULL};
	char text[ANSWER_MAX];
	struct err why = ERR_INIT;
	uint32_t n;

	if (tool_run(words, ANSWER_MS, text, sizeof(text), &why)) {
		log_warn("FLUX_URI is set, but flux does not list the nodes "
			 "of its instance (%s): starting on this node alone",
			 why.text);
		return 0;
	}
	n = flux_env_count(text);
	if (n < 2)
		return 0;
	return err_set(e, ERR_USAGE,
		       "this Flux instance has %u nodes (%.*s): write flux run "
		       "-N%u -n%u --exclusive ddprun ..., which starts one "
		       "ddprun on each, or --standalone for a job on this node",
		       n, (int)strcspn(text, "\n"), text, n, n);
}

static int flux_env_check_task(const char *rank, struct err *e)
{
	const char *nodes = getenv("FLUX_JOB_NNODES");
	long n = 1;

	if (nodes && parse_long(nodes, 1, 1 << 20, "FLUX_JOB_NNODES", &n, e))
		return ERR_USAGE;
	if (!nodes && strcmp(rank, "0") != 0)
		return err_set(e, ERR_USAGE, "FLUX_TASK_RANK is %.40s, but "
			       "FLUX_JOB_NNODES is not set: write --nnodes N "
			       "--rdzv-endpoint FIRST_NODE:29400, or "
			       "--standalone for a job on this node", rank);
	if (n == 1)
		return 0;
	return err_set(e, ERR_USAGE,
		       "Flux started this ddprun as task %s on %ld nodes, "
		       "without PMI, so the tasks cannot agree where to meet: "
		       "leave -o pmi=off out, or write --nnodes %ld "
		       "--rdzv-endpoint FIRST_NODE:29400", rank, n, n);
}

static int flux_read(struct launch_env *env, const struct launch_request *r,
		     struct err *e)
{
	const char *uri = getenv("FLUX_URI"), *rank = getenv("FLUX_TASK_RANK");

	if (((!uri || !*uri) && !rank) || r->standalone || r->one_node ||
	    r->place || r->etcd || launch_env_is_marked())
		return 0;
	return rank ? flux_env_check_task(rank, e) : flux_env_check_instance(e);
}

const struct launch_source flux_env = {
	.read = flux_read,
};
