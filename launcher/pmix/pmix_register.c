/* pmix_register.c: passes the facts about a job to libpmix's server, under
 * PMIx's keys. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "launcher/plan/cpus.h"
#include "launcher/pmix/pmix_fabric.h"
#include "launcher/pmix/pmix_frame.h"
#include "launcher/pmix/pmix_host.h"

enum { FACTS_MAX = 32 };

static int pmix_register_failed(struct pmix_host *h, const char *what,
				int status, struct err *e)
{
	return err_set(e, ERR_SYSTEM, "cannot serve PMIx: %s of "
		       PMIX_ABI_LIBRARY " returned %d (%s)", what, status,
		       h->library.error_string(status));
}

/* ---- facts ---- */

struct facts {
	struct pmix_abi_info *list;
	size_t n;
};

static struct pmix_abi_value *facts_add(struct facts *f, const char *key,
					enum pmix_abi_type type)
{
	struct pmix_abi_info *i = &f->list[f->n++];

	memset(i, 0, sizeof(*i));
	snprintf(i->key, sizeof(i->key), "%s", key);
	i->value.type = (uint16_t)type;
	return &i->value;
}

static void facts_add_u32(struct facts *f, const char *key, uint32_t n)
{
	facts_add(f, key, PMIX_ABI_UINT32)->data.u32 = n;
}

static void facts_add_u16(struct facts *f, const char *key, uint32_t n)
{
	facts_add(f, key, PMIX_ABI_UINT16)->data.u16 = (uint16_t)n;
}

static void facts_add_rank(struct facts *f, const char *key, uint32_t rank)
{
	facts_add(f, key, PMIX_ABI_RANK)->data.rank = rank;
}

/* The library copies it. */
static void facts_add_text(struct facts *f, const char *key, const char *text)
{
	facts_add(f, key, PMIX_ABI_STRING)->data.string = (char *)text;
}

static void facts_add_true(struct facts *f, const char *key)
{
	facts_add(f, key, PMIX_ABI_BOOL)->data.flag = 1;
}

/* ---- calls that end later ---- */

struct waiter {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	int is_done, status;
};

#define WAITER_INIT {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0}

static void pmix_register_on_done(int status, void *arg)
{
	struct waiter *w = arg;

	pthread_mutex_lock(&w->lock);
	w->is_done = 1;
	w->status = status;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
}

/* rc: what the call returned. The status of the whole. */
static int waiter_wait(struct waiter *w, int rc)
{
	if (rc == PMIX_ABI_OPERATION_SUCCEEDED)
		return PMIX_ABI_SUCCESS;
	if (rc != PMIX_ABI_SUCCESS)
		return rc;
	pthread_mutex_lock(&w->lock);
	while (!w->is_done)
		pthread_cond_wait(&w->wake, &w->lock);
	pthread_mutex_unlock(&w->lock);
	return w->status == PMIX_ABI_OPERATION_SUCCEEDED ? PMIX_ABI_SUCCESS
							 : w->status;
}

/* ---- the server ---- */

static int pmix_register_start(struct pmix_host *h,
			       const struct pmix_abi_module *module,
			       const char *node, struct err *e)
{
	struct pmix_abi_info list[FACTS_MAX];
	struct facts f = {list, 0};
	int status;

	facts_add_text(&f, "pmix.srvr.tmpdir", h->job->folder);
	facts_add_text(&f, "pmix.sys.tmpdir", h->job->folder);
	facts_add_text(&f, "pmix.hname", node);
	facts_add_u32(&f, "pmix.nodeid", h->job->node_rank);
	/* else each rank would search the host for devices */
	facts_add_true(&f, "pmix.srvr.share");
	status = h->library.server_init(module, f.list, f.n);
	if (status != PMIX_ABI_SUCCESS)
		return pmix_register_failed(h, "PMIx_server_init", status, e);
	h->has_begun = 1;
	return 0;
}

/* ---- the job ---- */

/* Texts that its facts point to. */
struct job_texts {
	char *nodes, *procs; /* compressed by the library */
	struct buf peers;
};

static void job_texts_release(struct job_texts *t)
{
	free(t->nodes);
	free(t->procs);
	buf_release(&t->peers);
}

static int job_texts_make(struct pmix_host *h, struct job_texts *t,
			  struct err *e)
{
	struct buf procs = BUF_INIT(PMIX_JOB_TEXT_MAX);
	int status = PMIX_ABI_ERR_NOMEM;

	*t = (struct job_texts){.peers = BUF_INIT(PMIX_JOB_TEXT_MAX)};
	pmix_job_put_procs(h->job, &procs);
	buf_put_u8(&procs, 0);
	pmix_job_put_peers(h->job, h->job->node_rank, &t->peers);
	buf_put_u8(&t->peers, 0);
	if (!procs.failed && !t->peers.failed)
		status = h->library.generate_regex(h->job->nodes, &t->nodes);
	if (status == PMIX_ABI_SUCCESS)
		status = h->library.generate_ppn(procs.data, &t->procs);
	buf_release(&procs);
	if (status == PMIX_ABI_SUCCESS)
		return 0;
	job_texts_release(t);
	return pmix_register_failed(h, "PMIx_generate_regex", status, e);
}

static void job_facts_put(const struct pmix_job *j, const struct job_texts *t,
			  struct facts *f)
{
	uint32_t first, size, napps = 1;

	facts_add_text(f, "pmix.jobid", j->name);
	facts_add_u32(f, "pmix.univ.size", j->world_size);
	facts_add_u32(f, "pmix.job.size", j->world_size);
	facts_add_u32(f, "pmix.max.size", j->world_size);
	pmix_job_app(j, j->base_rank, &first, &size);
	for (uint32_t i = 0; j->apps && i < j->world_size; i++)
		napps = j->apps[i] < napps ? napps : j->apps[i] + 1;
	facts_add_u32(f, "pmix.job.napps", napps);
	facts_add_u32(f, "pmix.app.size", size);
	facts_add_rank(f, "pmix.aldr", first);
	facts_add_rank(f, "pmix.offset", 0);
	facts_add_u32(f, "pmix.num.nodes", j->nnodes);
	facts_add_text(f, "pmix.nmap", t->nodes);
	facts_add_text(f, "pmix.pmap", t->procs);
	facts_add_u32(f, "pmix.local.size", j->nproc);
	facts_add_u32(f, "pmix.node.size", j->nproc);
	facts_add_text(f, "pmix.lpeers", t->peers.data);
	facts_add_rank(f, "pmix.lldr", j->base_rank);
	facts_add_text(f, "pmix.tmpdir", j->folder);
	facts_add_text(f, "pmix.nsdir", j->folder);
	facts_add_true(f, "pmix.tdir.rmclean");
	/* Open MPI 5's ranks then yield their CPU while they wait */
	if (cpus_are_too_few(j->nproc))
		facts_add_true(f, "pmix.ndosub");
}

enum { RANK_FACTS = 8 };

struct rank_facts {
	struct pmix_abi_array array;
	struct pmix_abi_info list[RANK_FACTS];
};

static void rank_facts_put(const struct pmix_job *j, struct rank_facts *r,
			   uint32_t rank, uint32_t node, uint32_t local_rank)
{
	struct facts f = {r->list, 0};

	facts_add_rank(&f, "pmix.rank", rank); /* it comes first */
	facts_add_rank(&f, "pmix.grank", rank);
	facts_add_rank(&f, "pmix.apprank", rank);
	facts_add_u32(&f, "pmix.appnum", j->apps ? j->apps[rank] : 0);
	facts_add_u32(&f, "pmix.nodeid", node);
	facts_add_u16(&f, "pmix.lrank", local_rank);
	facts_add_u16(&f, "pmix.nrank", local_rank);
	facts_add_u32(&f, "pmix.reinc", j->restarts);
	r->array = (struct pmix_abi_array){PMIX_ABI_INFO, f.n, r->list};
}

static void all_ranks_put(const struct pmix_job *j, struct rank_facts *ranks,
			  struct facts *f)
{
	uint32_t rank = 0;

	for (uint32_t node = 0; node < j->nnodes; node++)
		for (uint32_t i = 0; i < j->ranks[node]; i++, rank++) {
			rank_facts_put(j, &ranks[rank], rank, node, i);
			facts_add(f, "pmix.pdata", PMIX_ABI_DATA_ARRAY)
				->data.array = &ranks[rank].array;
		}
}

static int pmix_register_job(struct pmix_host *h, struct err *e)
{
	const struct pmix_job *j = h->job;
	struct rank_facts *ranks = calloc(j->world_size, sizeof(*ranks));
	struct facts f = {calloc(FACTS_MAX + (size_t)j->world_size,
				 sizeof(*f.list)), 0};
	struct waiter w = WAITER_INIT;
	struct job_texts t;
	int status, rc;

	if (!ranks || !f.list) {
		rc = err_no_memory(e, "PMIx for %u ranks", j->world_size);
		goto out;
	}
	rc = job_texts_make(h, &t, e);
	if (rc < 0)
		goto out;
	job_facts_put(j, &t, &f);
	all_ranks_put(j, ranks, &f);
	status = h->library.register_nspace(j->name, (int)j->nproc, f.list, f.n,
					    pmix_register_on_done, &w);
	status = waiter_wait(&w, status);
	job_texts_release(&t);
	if (status != PMIX_ABI_SUCCESS)
		rc = pmix_register_failed(h, "PMIx_server_register_nspace",
					  status, e);
out:
	free(ranks);
	free(f.list);
	return rc;
}

/* ---- ranks ---- */

enum { MORE_VARS = 5, MORE_VAR_MAX = PMIX_JOB_FOLDER_MAX + 64 };

struct more_vars {
	char text[MORE_VARS][MORE_VAR_MAX];
	char *vars[MORE_VARS];
	uint32_t n;
};

static void more_vars_add(struct more_vars *m, const char *name,
			  const char *value)
{
	snprintf(m->text[m->n], MORE_VAR_MAX, "%s=%s", name, value);
	m->vars[m->n] = m->text[m->n];
	m->n++;
}

/* What Open MPI needs besides PMIx. Its ranks' shared memory is among the
 * round's files, so that none is left when a rank was killed, and so that two
 * ddpruns on one host do not share it. */
static void more_vars_find(struct more_vars *m, const struct pmix_job *j)
{
	static const char *const folders[] = {
		"OMPI_MCA_btl_vader_backing_directory", /* version 4 */
		"OMPI_MCA_btl_sm_backing_directory",	/* version 5 */
	};
	const char *mtl = pmix_fabric_mtl("");

	m->n = 0;
	if (mtl)
		more_vars_add(m, "OMPI_MCA_mtl", mtl);
	/* by it version 4 knows that PMIx has started it */
	more_vars_add(m, "OMPI_MCA_orte_local_daemon_uri",
		      "0.0;tcp://127.0.0.1:1");
	/* version 4's launcher passes this */
	if (cpus_are_too_few(j->nproc))
		more_vars_add(m, "OMPI_MCA_mpi_oversubscribe", "1");
	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++)
		if (!getenv(folders[i]) && file_is_in_memory(j->folder))
			more_vars_add(m, folders[i], j->folder);
}

static int pmix_register_rank(struct pmix_host *h, uint32_t rank,
			      const struct more_vars *more, struct buf *vars,
			      struct err *e)
{
	struct waiter w = WAITER_INIT;
	struct pmix_abi_proc proc;
	char **env = NULL;
	int status;

	memset(&proc, 0, sizeof(proc));
	strcpy(proc.nspace, h->job->name);
	proc.rank = rank;
	status = h->library.register_client(&proc, getuid(), getgid(), NULL,
					    pmix_register_on_done, &w);
	status = waiter_wait(&w, status);
	if (status != PMIX_ABI_SUCCESS)
		return pmix_register_failed(h, "PMIx_server_register_client",
					    status, e);
	status = h->library.setup_fork(&proc, &env);
	if (status != PMIX_ABI_SUCCESS || !env)
		return pmix_register_failed(h, "PMIx_server_setup_fork",
					    status, e);
	pmix_vars_put(vars, env, more->vars, more->n);
	for (char **var = env; *var; var++)
		free(*var);
	free(env);
	return 0;
}

int pmix_host_register(struct pmix_host *h,
		       const struct pmix_abi_module *module, struct buf *vars,
		       struct err *e)
{
	const struct pmix_job *j = h->job;
	struct more_vars more;
	char node[PMIX_JOB_NAME_MAX];
	int rc;

	if (!pmix_job_node_name(j, j->node_rank, node, sizeof(node)))
		return err_set(e, ERR_PROTOCOL, "the name of node %u is too "
			       "long for PMIx", j->node_rank);
	rc = pmix_register_start(h, module, node, e);
	if (rc == 0)
		rc = pmix_register_job(h, e);
	more_vars_find(&more, j);
	for (uint32_t i = 0; rc == 0 && i < j->nproc; i++)
		rc = pmix_register_rank(h, j->base_rank + i, &more, vars,
					e);
	return rc;
}
