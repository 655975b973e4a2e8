/* topology.c: reads a host's CPUs through hwloc, without linking it. */
#include "launcher/plan/binding.h"

#include <dlfcn.h>
#include <errno.h>
#include <hwloc.h>
#include <stdlib.h>

/* The functions of hwloc that we need. The inline functions in its header would
 * need more, and symbols at link time. */
struct hwloc {
	__typeof__(hwloc_topology_init) *init;
	__typeof__(hwloc_topology_load) *load;
	__typeof__(hwloc_topology_destroy) *destroy;
	__typeof__(hwloc_topology_is_thissystem) *is_thissystem;
	__typeof__(hwloc_get_type_depth) *type_depth;
	__typeof__(hwloc_get_obj_by_depth) *obj_by_depth;
};

static int topology_find_symbols(struct hwloc *h, void *library)
{
	const struct {
		void **to;
		const char *name;
	} rows[] = {
		{(void **)&h->init, "hwloc_topology_init"},
		{(void **)&h->load, "hwloc_topology_load"},
		{(void **)&h->destroy, "hwloc_topology_destroy"},
		{(void **)&h->is_thissystem, "hwloc_topology_is_thissystem"},
		{(void **)&h->type_depth, "hwloc_get_type_depth"},
		{(void **)&h->obj_by_depth, "hwloc_get_obj_by_depth"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		*rows[i].to = dlsym(library, rows[i].name);
		if (!*rows[i].to)
			return -1;
	}
	return 0;
}

/* hwloc attaches memory beside the tree of CPUs, to the ancestor that it is
 * local to. If there are several kinds, the first is the ordinary one. */
static const struct hwloc_obj *topology_memory_of(const struct hwloc_obj *o)
{
	for (; o; o = o->parent) {
		const struct hwloc_obj *m = o->memory_first_child;

		while (m && m->type != HWLOC_OBJ_NUMANODE)
			m = m->memory_first_child; /* a memory-side cache */
		if (m)
			return m;
	}
	return NULL;
}

static void topology_describe(struct topology_cpu *c,
			      const struct hwloc_obj *pu)
{
	const struct hwloc_obj *node = topology_memory_of(pu);

	/* if hwloc reports no cores, each CPU is one; if no nodes, the machine
	 * is one */
	*c = (struct topology_cpu){
		.cpu = pu->os_index, .core = pu->logical_index,
		.cache = TOPOLOGY_UNKNOWN, .node = node ? node->os_index : 0,
	};
	for (const struct hwloc_obj *o = pu->parent; o; o = o->parent) {
		if (o->type == HWLOC_OBJ_CORE)
			c->core = o->logical_index;
		else if (o->type == HWLOC_OBJ_PACKAGE)
			c->socket = o->logical_index;
		else if (o->type >= HWLOC_OBJ_L1CACHE &&
			 o->type <= HWLOC_OBJ_L5CACHE)
			/* the outermost comes last; each level counts from 0,
			 * so the number includes the level */
			c->cache = (uint32_t)o->type << 24 | o->logical_index;
	}
}

static int topology_take_cpus(struct topology *t, const struct hwloc *h,
			      hwloc_topology_t topology,
			      const struct cpus *allowed)
{
	int depth = h->type_depth(topology, HWLOC_OBJ_PU);
	const struct hwloc_obj *pu = NULL;

	t->elsewhere = !h->is_thissystem(topology);
	t->cpus = calloc(CPUS_MAX, sizeof(*t->cpus));
	if (!t->cpus)
		return -ENOMEM;
	for (uint32_t i = 0; t->n < CPUS_MAX; i++) {
		pu = h->obj_by_depth(topology, depth, i);
		if (!pu)
			break;
		if (pu->os_index < CPUS_MAX &&
		    (t->elsewhere || cpus_has(allowed, pu->os_index)))
			topology_describe(&t->cpus[t->n++], pu);
	}
	return t->n ? 0 : -EINVAL;
}

static int topology_read_with(struct topology *t, const struct hwloc *h,
			      const struct cpus *allowed, struct err *e)
{
	hwloc_topology_t topology;
	int rc;

	if (h->init(&topology) < 0)
		return err_set(e, -ENOMEM, "hwloc failed to start");
	rc = h->load(topology) < 0 ? -EINVAL
				   : topology_take_cpus(t, h, topology,
							allowed);
	h->destroy(topology);
	if (rc == -ENOMEM)
		return err_no_memory(e, "this host's CPUs");
	if (rc < 0)
		return err_set(
			e, rc,
			"hwloc finds no CPU here that this process may use; "
			"leave --cpu-bind out, or check the output of lstopo");
	return 0;
}

int topology_read(struct topology *t, const struct cpus *allowed,
		  struct err *e)
{
	struct hwloc h;
	void *library = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL);
	int rc;

	*t = (struct topology){.n = 0};
	if (!library)
		return err_set(e, -ENOENT, "placing workers on CPUs needs "
			       "libhwloc.so.15 (%s); install it (Debian, "
			       "Ubuntu: libhwloc15; Fedora: hwloc-libs) or "
			       "leave --cpu-bind out", dlerror());
	if (topology_find_symbols(&h, library) < 0)
		rc = err_set(e, -ENOENT, "libhwloc.so.15 is not the library "
			     "that it should be: %s", dlerror());
	else
		rc = topology_read_with(t, &h, allowed, e);
	dlclose(library);
	if (rc < 0)
		topology_release(t);
	return rc;
}

void topology_release(struct topology *t)
{
	free(t->cpus);
	*t = (struct topology){.n = 0};
}
