/* binding.c: computes which worker gets which cores. Cores are counted in the
 * topology's order; a core includes its hyperthreads. Then the placement, which
 * turns the user's request into sets of CPUs. */
#include "launcher/plan/binding.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/option.h"
#include "launcher/plan/gpu.h"

static const char *const names[] = {
	[BINDING_NONE] = "none", [BINDING_NODE] = "node",
	[BINDING_SOCKET] = "socket", [BINDING_EXCLUSIVE] = "exclusive",
	[BINDING_CORE_COMPLEX] = "core-complex", [BINDING_CORES] = "cores",
};
enum { NAMES = sizeof(names) / sizeof(*names) };

const char *binding_name(enum binding mode)
{
	return names[mode];
}

int binding_parse(enum binding *mode, const char *text, struct err *e)
{
	int best = 0, least = -1;

	for (int i = 0; i < NAMES; i++) {
		int d = option_distance(text, names[i]);

		if (strcmp(text, names[i]) == 0) {
			*mode = (enum binding)i;
			return 0;
		}
		if (least < 0 || d < least) {
			least = d;
			best = i;
		}
	}
	return err_set(
		e, ERR_USAGE,
		"unknown --cpu-bind '%s'; did you mean %s? Possible values: "
		"node, socket, exclusive, core-complex, cores and none",
		text, names[best]);
}

struct binding_home {
	uint32_t at;    /* index in cpus of a CPU of its home */
	uint32_t order; /* number of earlier workers with this home node */
};

/* Cores of one node that share a cache. */
struct core_complex {
	uint32_t at, size; /* its first CPU's index; number of CPUs */
};

struct binding_work {
	const struct topology *t;
	const struct binding_request *r;
	uint32_t *core_at; /* index in cpus where each core begins */
	uint32_t cores;
	struct binding_home *homes; /* one for each worker */
	struct core_complex *complex; /* largest first */
	uint32_t complexes;
	uint32_t *sharers; /* workers at a node, by its first CPU's index */
};

static void binding_find_cores(struct binding_work *w)
{
	const struct topology_cpu *cpus = w->t->cpus;

	for (uint32_t i = 0; i < w->t->n; i++) {
		if (i == 0 || cpus[i].core != cpus[i - 1].core)
			w->core_at[w->cores++] = i;
	}
	w->core_at[w->cores] = w->t->n;
}

/* The index of the node's first CPU; t->n: it has none. */
static uint32_t binding_node_at(const struct topology *t, uint32_t node)
{
	uint32_t i = 0;

	while (i < t->n && t->cpus[i].node != node)
		i++;
	return i;
}

static uint32_t binding_gpu_of(const struct binding_request *r, uint32_t worker)
{
	return (uint32_t)((uint64_t)worker * r->gpus_per_proc % r->gpus);
}

static int binding_uses_gpus(const struct binding_request *r)
{
	for (uint32_t i = 0; i < r->gpus; i++) {
		if (r->gpu_nodes[i] < 0)
			return 0;
	}
	return r->gpus > 0;
}

static int binding_find_homes(struct binding_work *w, struct err *e)
{
	const struct topology *t = w->t;
	const struct binding_request *r = w->r;
	int by_gpu = binding_uses_gpus(r);

	for (uint32_t i = 0; i < r->nproc; i++) {
		uint32_t at = w->core_at[(uint64_t)i * w->cores / r->nproc];
		uint32_t node = t->cpus[at].node, first;

		if (by_gpu)
			node = (uint32_t)r->gpu_nodes[binding_gpu_of(r, i)];
		first = binding_node_at(t, node);
		if (first == t->n)
			return err_set(e, ERR_USAGE, "--cpu-bind %s: GPU %u of "
				       "local rank %u is on NUMA node %u, none "
				       "of whose CPUs this process may use; "
				       "ask for CPUs beside the GPUs, or use "
				       "--cpu-bind cores", names[r->mode],
				       binding_gpu_of(r, i), i, node);
		w->homes[i].at = by_gpu ? first : at;
		w->homes[i].order = w->sharers[first]++;
	}
	return 0;
}

/* The size of part k when n are divided into parts, the first of which may have
 * one more. *first is where it begins. */
static uint32_t binding_share(uint32_t n, uint32_t parts, uint32_t k,
			      uint32_t *first)
{
	uint32_t each, extra;

	assert(parts);
	each = n / parts;
	extra = n % parts;
	*first = k * each + (k < extra ? k : extra);
	return each + (k < extra);
}

static void binding_add_core(const struct binding_work *w, uint32_t core,
			     struct cpus *out)
{
	for (uint32_t i = w->core_at[core]; i < w->core_at[core + 1]; i++)
		cpus_add(out, w->t->cpus[i].cpu);
}

static void binding_assign_cores(const struct binding_work *w, uint32_t worker,
				 struct cpus *out)
{
	uint32_t nproc = w->r->nproc, first, n;

	if (nproc > w->cores) {
		binding_add_core(
			w, (uint32_t)((uint64_t)worker * w->cores / nproc),
			out);
		return;
	}
	n = binding_share(w->cores, nproc, worker, &first);
	for (uint32_t i = first; i < first + n; i++)
		binding_add_core(w, i, out);
}

static int binding_assign_exclusive(const struct binding_work *w,
				    uint32_t worker, struct cpus *out,
				    struct err *e)
{
	const struct topology_cpu *cpus = w->t->cpus;
	const struct binding_home *h = &w->homes[worker];
	uint32_t node = cpus[h->at].node, first, n, seen = 0, cores = 0;
	uint32_t sharers = w->sharers[binding_node_at(w->t, node)];

	for (uint32_t i = 0; i < w->cores; i++)
		cores += cpus[w->core_at[i]].node == node;
	if (sharers > cores)
		return err_set(
			e, ERR_USAGE,
			"--cpu-bind exclusive: %u workers belong to NUMA node "
			"%u, but this process may use only %u core%s there; "
			"start fewer workers, or use --cpu-bind node",
			sharers, node, cores, cores == 1 ? "" : "s");
	n = binding_share(cores, sharers, h->order, &first);
	for (uint32_t i = 0; i < w->cores; i++) {
		if (cpus[w->core_at[i]].node != node)
			continue;
		if (seen >= first && seen < first + n)
			binding_add_core(w, i, out);
		seen++;
	}
	return 0;
}

static int binding_same_complex(const struct topology_cpu *a,
				const struct topology_cpu *b)
{
	/* a cache may span nodes */
	return a->node == b->node && a->cache == b->cache;
}

static void binding_find_complexes(struct binding_work *w)
{
	const struct topology *t = w->t;

	for (uint32_t i = 0; i < t->n; i++) {
		uint32_t k = w->complexes;

		/* from the end: usually the last one matches */
		while (k-- > 0) {
			if (binding_same_complex(&t->cpus[w->complex[k].at],
						 &t->cpus[i]))
				break;
		}
		if (k == UINT32_MAX) {
			k = w->complexes++;
			w->complex[k].at = i;
		}
		w->complex[k].size++;
	}
}

static int binding_compare_complexes(const void *a, const void *b)
{
	const struct core_complex *x = a, *y = b;

	if (x->size != y->size)
		return x->size < y->size ? 1 : -1;
	return (x->at > y->at) - (x->at < y->at);
}

/* The node's complex number `order`, modulo their number, the largest first: a
 * narrowed set may leave some with few CPUs. */
static uint32_t binding_complex_at(const struct binding_work *w,
				   const struct binding_home *h)
{
	const struct topology_cpu *cpus = w->t->cpus;
	uint32_t node = cpus[h->at].node, n = 0, left;

	for (uint32_t k = 0; k < w->complexes; k++)
		n += cpus[w->complex[k].at].node == node;
	assert(n); /* its own is one of them */
	left = h->order % n;
	for (uint32_t k = 0; k < w->complexes; k++) {
		if (cpus[w->complex[k].at].node == node && left-- == 0)
			return w->complex[k].at;
	}
	return h->at;
}

static int binding_is_like(const struct topology_cpu *c,
			   const struct topology_cpu *home, enum binding mode)
{
	if (mode == BINDING_NODE)
		return c->node == home->node;
	if (mode == BINDING_SOCKET)
		return c->socket == home->socket;
	return binding_same_complex(c, home);
}

static int binding_assign(const struct binding_work *w, uint32_t worker,
			  struct cpus *out, struct err *e)
{
	const struct topology *t = w->t;
	uint32_t at = w->homes[worker].at;

	if (w->r->mode == BINDING_CORES) {
		binding_assign_cores(w, worker, out);
		return 0;
	}
	if (w->r->mode == BINDING_EXCLUSIVE)
		return binding_assign_exclusive(w, worker, out, e);
	if (w->r->mode == BINDING_CORE_COMPLEX && binding_uses_gpus(w->r))
		at = binding_complex_at(w, &w->homes[worker]);
	for (uint32_t i = 0; i < t->n; i++) {
		if (binding_is_like(&t->cpus[i], &t->cpus[at], w->r->mode))
			cpus_add(out, t->cpus[i].cpu);
	}
	return 0;
}

static int binding_assign_all(struct binding_work *w, struct cpus *out,
			      struct err *e)
{
	const struct binding_request *r = w->r;
	int rc = 0;

	binding_find_cores(w);
	if (r->mode == BINDING_EXCLUSIVE && r->nproc > w->cores)
		return err_set(e, ERR_USAGE,
			       "--cpu-bind exclusive: %u workers, but this "
			       "process may use only %u core%s; start fewer "
			       "workers, or use --cpu-bind node",
			       r->nproc, w->cores, w->cores == 1 ? "" : "s");
	if (r->mode == BINDING_CORE_COMPLEX) {
		binding_find_complexes(w);
		qsort(w->complex, w->complexes, sizeof(*w->complex),
		      binding_compare_complexes);
	}
	if (r->mode != BINDING_CORES)
		rc = binding_find_homes(w, e);
	for (uint32_t i = 0; rc == 0 && i < r->nproc; i++) {
		memset(&out[i], 0, sizeof(out[i]));
		rc = binding_assign(w, i, &out[i], e);
	}
	return rc;
}

int binding_decide(const struct topology *t, const struct binding_request *r,
		   struct cpus *out, struct err *e)
{
	struct binding_work w = {.t = t, .r = r};
	int rc;

	w.core_at = calloc((size_t)t->n + 1, sizeof(*w.core_at));
	w.sharers = calloc((size_t)t->n + 1, sizeof(*w.sharers));
	w.complex = calloc(t->n, sizeof(*w.complex));
	w.homes = calloc(r->nproc, sizeof(*w.homes));
	if (w.core_at && w.sharers && w.complex && w.homes)
		rc = binding_assign_all(&w, out, e);
	else
		rc = err_no_memory(e, "--cpu-bind");
	free(w.core_at);
	free(w.sharers);
	free(w.complex);
	free(w.homes);
	return rc;
}

/* ---- the placement ---- */

static int placement_decide(struct placement *p,
			    const struct placement_request *asked,
			    struct err *e)
{
	int nodes[GPU_MAX];
	struct binding_request r = {
		.mode = p->mode, .nproc = asked->nproc, .gpu_nodes = nodes,
		.gpus_per_proc = asked->gpus_per_proc ? asked->gpus_per_proc
						      : 1,
	};

	/* this host's GPUs say nothing about another machine's topology */
	if (p->mode != BINDING_CORES && !p->topology.elsewhere)
		r.gpus = (uint32_t)gpu_nodes(nodes);
	p->cpus = calloc(asked->nproc, sizeof(*p->cpus));
	if (!p->cpus)
		return err_no_memory(e, "%u workers' CPUs", asked->nproc);
	return binding_decide(&p->topology, &r, p->cpus, e);
}

static int placement_bind(struct placement *p,
			  const struct placement_request *r, struct err *e)
{
	int rc = topology_read(&p->topology, &p->allowed, e);

	if (rc == 0 && p->topology.elsewhere && !r->only_show)
		rc = err_set(e, ERR_USAGE,
			     "--cpu-bind %s: HWLOC_XMLFILE or HWLOC_SYNTHETIC "
			     "in the environment describes another machine; "
			     "unset it, or use --dry-run",
			     binding_name(p->mode));
	return rc == 0 ? placement_decide(p, r, e) : rc;
}

int placement_init(struct placement *p, const struct placement_request *r,
		   struct err *e)
{
	int rc = 0;

	*p = (struct placement){.nproc = r->nproc};
	if (r->cpu_bind)
		rc = binding_parse(&p->mode, r->cpu_bind, e);
	if (rc < 0 || (p->mode == BINDING_NONE && !r->only_show))
		return rc;
	rc = cpus_allowed(&p->allowed, e);
	if (rc == 0 && p->mode != BINDING_NONE)
		rc = placement_bind(p, r, e);
	else if (rc == 0) /* for --dry-run; a failure is not an error */
		topology_read(&p->topology, &p->allowed, NULL);
	if (rc < 0)
		placement_release(p);
	return rc;
}

void placement_release(struct placement *p)
{
	free(p->cpus);
	topology_release(&p->topology);
	*p = (struct placement){.mode = BINDING_NONE};
}

const struct cpus *placement_cpus(const struct placement *p,
				  uint32_t local_rank)
{
	return p->cpus ? &p->cpus[local_rank] : NULL;
}

void placement_put_nodes(const struct placement *p, struct buf *b,
			 const struct cpus *cpus)
{
	const struct topology *t = &p->topology;
	struct cpus nodes = {0}; /* used as a set of node numbers */

	for (uint32_t i = 0; i < t->n; i++) {
		if (cpus_has(cpus, t->cpus[i].cpu) &&
		    t->cpus[i].node < CPUS_MAX)
			cpus_add(&nodes, t->cpus[i].node);
	}
	cpus_put(b, &nodes);
}
