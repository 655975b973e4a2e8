/* flight.c: the recorder's memory: how it is laid out, emptied, and read. Its
 * words are in flight_text.c. */
#include "base/flight.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { PAGE = 4096 };

static_assert(sizeof(struct flight_entry) == 64, "a cache line");
static_assert((FLIGHT_ENTRIES & (FLIGHT_ENTRIES - 1)) == 0, "a power of two");
static_assert((int)FLIGHT_KINDS < 32 && (int)FLIGHT_TYPES <= 8 &&
		      (int)FLIGHT_OPS <= 8,
	      "5, 3 and 3 bits in a packed word");
static_assert(offsetof(struct flight_file, workers) ==
		      sizeof(struct flight_file),
	      "no hole before the workers");

flight_gettime *_Atomic flight_clock_gettime = clock_gettime;

/* The kernel's own, which it maps into each process. */
static void find_clock(void)
{
	static const char *const names[] = {"__vdso_clock_gettime",
					    "__kernel_clock_gettime"};
	void *vdso = dlopen("linux-vdso.so.1", RTLD_NOW | RTLD_NOLOAD);
	struct timespec t;

	for (int i = 0; vdso && i < 2; i++) {
		flight_gettime *found;

		*(void **)&found = dlsym(vdso, names[i]);
		if (found && found(CLOCK_MONOTONIC_COARSE, &t) == 0)
			flight_clock_gettime = found;
	}
	if (vdso)
		dlclose(vdso);
}

void flight_start(struct flight *f, uint32_t rank, uint32_t world_size)
{
	atomic_store_explicit(&f->magic, 0, memory_order_release);
	memset(f->comms, 0, sizeof(f->comms));
	memset(f->ring, 0, sizeof(f->ring));
	atomic_store_explicit(&f->head, 0, memory_order_relaxed);
	atomic_store_explicit(&f->asks, 0, memory_order_relaxed);
	find_clock();
	f->version = FLIGHT_VERSION;
	f->pid = (uint32_t)getpid();
	f->rank = rank;
	f->world_size = world_size;
	atomic_store_explicit(&f->magic, FLIGHT_MAGIC, memory_order_release);
	flight_comm_made(f, "", world_size, rank);
}

/* FNV-1a. */
uint32_t flight_comm_id(const char *name)
{
	uint32_t id = 2166136261u;

	if (!*name)
		return 0;
	for (; *name; name++)
		id = (id ^ (unsigned char)*name) * 16777619u;
	return id ? id : 1;
}

void flight_comm_made(struct flight *f, const char *name, uint32_t size,
		      uint32_t rank)
{
	for (int i = 0; f && i < FLIGHT_COMMS; i++) {
		struct flight_comm *c = &f->comms[i];

		if (c->size)
			continue;
		c->id = flight_comm_id(name);
		c->rank = rank;
		strncpy(c->name, name, FLIGHT_GROUP_MAX - 1);
		atomic_store_explicit(&c->size, size, memory_order_release);
		return;
	}
}

void flight_comm_gone(struct flight *f, uint32_t id)
{
	for (int i = 0; f && i < FLIGHT_COMMS; i++) {
		if (f->comms[i].size && f->comms[i].id == id)
			f->comms[i].size = 0;
	}
}

void flight_unpack(struct flight_call *c, uint64_t word, uint64_t number)
{
	c->kind = (unsigned)(word >> 59) - 1;
	c->type = word >> 56 & 7;
	c->op = word >> 53 & 7;
	c->root = (int)(word >> FLIGHT_COUNT_BITS & FLIGHT_ROOT_MOST);
	c->count = word & FLIGHT_COUNT_MOST;
	c->number = number;
	c->group = NULL;
}

/* ---- Reading ---- */

static int read_entry(const struct flight *f, uint64_t ticket,
		      struct flight_op *op)
{
	const struct flight_entry *x = &f->ring[ticket % FLIGHT_ENTRIES];

	if (x->ticket != ticket || x->state < FLIGHT_ENTERED ||
	    x->state > FLIGHT_FAILED)
		return 0;
	flight_unpack(&op->call, x->word, x->number);
	op->ticket = ticket;
	op->ns = x->ns;
	op->comm = x->comm;
	op->state = (enum flight_state)x->state;
	return 1;
}

/* What is in there goes to terminals. */
static void read_name(const struct flight_comm *c, char *out)
{
	memcpy(out, c->name, FLIGHT_GROUP_MAX);
	out[FLIGHT_GROUP_MAX - 1] = '\0';
	for (; *out; out++) {
		if ((*out < '.' || *out > '9') && *out != 'r')
			*out = '?';
	}
}

static void read_comms(struct flight_view *v, const struct flight *f)
{
	for (int i = 0; i < FLIGHT_COMMS; i++) {
		const struct flight_comm *c = &f->comms[i];

		if (!c->size || c->rank >= c->size)
			continue;
		v->comms[v->ncomms].id = c->id;
		v->comms[v->ncomms].size = c->size;
		read_name(c, v->comms[v->ncomms].name);
		v->comms[v->ncomms++].rank = c->rank;
	}
}

static int read_part(struct flight_view *v, const struct flight *f)
{
	uint64_t head = f->head;
	uint64_t first = head < FLIGHT_ENTRIES ? 1 : head - FLIGHT_ENTRIES + 1;

	v->n = v->ncomms = 0;
	if (f->magic == 0)
		return 1;
	/* garbage in head: the loop would not end */
	if (f->magic != FLIGHT_MAGIC || f->version != FLIGHT_VERSION ||
	    head >= UINT64_MAX - 1)
		return ERR_DATA;
	v->pid = f->pid;
	v->rank = f->rank;
	v->world_size = f->world_size;
	read_comms(v, f);
	/* one that was entered a moment ago is not in head yet; it has the
	 * first one's place */
	for (uint64_t t = first; t <= head + 1; t++)
		v->n += read_entry(f, t, &v->ops[v->n]);
	return 0;
}

int flight_read(struct flight_view *v, const void *part, size_t size)
{
	struct flight f;

	v->n = v->ncomms = 0;
	if (size < sizeof(f))
		return ERR_DATA;
	memcpy(&f, part, sizeof(f));
	return read_part(v, &f);
}

static int copy_out(int fd, void *to, size_t size, uint64_t at)
{
	ssize_t n = pread(fd, to, size, (off_t)at);

	if (n < 0)
		return -errno;
	return (size_t)n < size ? ERR_DATA : 0;
}

int flight_take(struct flight_view *v, int fd, uint64_t at)
{
	struct flight before, f;
	int rc = copy_out(fd, &before, sizeof(before), at);

	v->n = v->ncomms = 0;
	if (rc == 0)
		rc = copy_out(fd, &f, sizeof(f), at);
	if (rc)
		return rc;
	/* what is the same twice was not being written between */
	for (int i = 0; i < FLIGHT_ENTRIES; i++) {
		if (memcmp(&before.ring[i], &f.ring[i], sizeof(f.ring[i])))
			f.ring[i].ticket = 0;
	}
	return read_part(v, &f);
}

const struct flight_op *flight_under_way(const struct flight_view *v)
{
	for (int i = 0; i < v->n; i++) {
		if (v->ops[i].state == FLIGHT_ENTERED)
			return &v->ops[i];
	}
	return NULL;
}

/* ---- The file ---- */

static uint64_t pages(uint64_t bytes)
{
	long page = sysconf(_SC_PAGESIZE);
	uint64_t size = page > PAGE ? (uint64_t)page : PAGE;

	return (bytes + size - 1) / size * size;
}

size_t flight_file_layout(struct flight_file *head, uint32_t parts)
{
	head->magic = FLIGHT_FILE_MAGIC;
	head->version = FLIGHT_VERSION;
	head->parts = parts;
	head->parts_at = pages(sizeof(*head) +
			       parts * sizeof(struct flight_worker));
	head->part_size = pages(sizeof(struct flight));
	return head->parts_at;
}

int flight_file_take(struct flight_file *head, int fd)
{
	int rc = copy_out(fd, head, sizeof(*head), 0);

	if (rc)
		return rc;
	head->job[sizeof(head->job) - 1] = '\0';
	head->host[sizeof(head->host) - 1] = '\0';
	head->agent_id[sizeof(head->agent_id) - 1] = '\0';
	if (head->magic != FLIGHT_FILE_MAGIC ||
	    head->version != FLIGHT_VERSION ||
	    head->part_size < sizeof(struct flight) ||
	    head->part_size > UINT32_MAX || head->parts_at > UINT32_MAX ||
	    head->parts_at < sizeof(*head) + (uint64_t)head->parts *
					     sizeof(struct flight_worker))
		return ERR_DATA;
	return 0;
}
