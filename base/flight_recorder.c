/* flight_recorder.c: the layout of the recorder's memory, reading it, and calls
 * as text: the one place that names them. */
#include "base/flight_recorder.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
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

/* Finds the vDSO's clock_gettime, which the kernel maps into each process. */
static void flight_find_clock(void)
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
	atomic_store_explicit(&f->polls, 0, memory_order_relaxed);
	atomic_store_explicit(&f->step, 0, memory_order_relaxed);
	atomic_store_explicit(&f->waited_ns, 0, memory_order_relaxed);
	flight_find_clock();
	f->version = FLIGHT_VERSION;
	f->pid = (uint32_t)getpid();
	f->rank = rank;
	f->world_size = world_size;
	atomic_store_explicit(&f->magic, FLIGHT_MAGIC, memory_order_release);
	flight_comm_add(f, "", world_size, rank, &f->waited_ns);
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

_Atomic uint64_t *flight_comm_add(struct flight *f, const char *name,
				  uint32_t size, uint32_t rank,
				  _Atomic uint64_t *shared)
{
	for (int i = 0; f && i < FLIGHT_COMMS; i++) {
		struct flight_comm *c = &f->comms[i];

		if (c->size)
			continue;
		c->id = flight_comm_id(name);
		c->rank = rank;
		strncpy(c->name, name, FLIGHT_GROUP_MAX - 1);
		c->waited_ns = 0;
		c->counts = shared == NULL;
		atomic_store_explicit(&c->size, size, memory_order_release);
		return shared ? shared : &c->waited_ns;
	}
	return shared;
}

void flight_comm_remove(struct flight *f, uint32_t id)
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

static int flight_read_entry(const struct flight *f, uint64_t ticket,
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

/* Copies a name, replacing what could disturb a terminal. */
static void flight_read_name(const struct flight_comm *c, char *out)
{
	memcpy(out, c->name, FLIGHT_GROUP_MAX);
	out[FLIGHT_GROUP_MAX - 1] = '\0';
	for (; *out; out++) {
		if ((*out < '.' || *out > '9') && *out != 'r')
			*out = '?';
	}
}

static void flight_read_comms(struct flight_view *v, const struct flight *f)
{
	for (int i = 0; i < FLIGHT_COMMS; i++) {
		const struct flight_comm *c = &f->comms[i];

		if (!c->size || c->rank >= c->size)
			continue;
		v->comms[v->ncomms].id = c->id;
		v->comms[v->ncomms].size = c->size;
		v->comms[v->ncomms].counts = c->counts == 1;
		v->comms[v->ncomms].waited_ns = c->waited_ns;
		flight_read_name(c, v->comms[v->ncomms].name);
		v->comms[v->ncomms++].rank = c->rank;
	}
}

int flight_read(struct flight_view *v, const struct flight *f)
{
	uint64_t head = f->head;
	uint64_t first = head < FLIGHT_ENTRIES ? 1 : head - FLIGHT_ENTRIES + 1;

	v->n = v->ncomms = 0;
	v->step = v->waited_ns = 0;
	if (f->magic == 0)
		return 1;
	/* a garbage head near UINT64_MAX would make the loop endless */
	if (f->magic != FLIGHT_MAGIC || f->version != FLIGHT_VERSION ||
	    head >= UINT64_MAX - 1)
		return ERR_DATA;
	v->pid = f->pid;
	v->rank = f->rank;
	v->world_size = f->world_size;
	v->step = f->step;
	v->waited_ns = f->waited_ns;
	flight_read_comms(v, f);
	/* head + 1: a call that was just entered, before head was stored */
	for (uint64_t t = first; t <= head + 1; t++)
		v->n += flight_read_entry(f, t, &v->ops[v->n]);
	return 0;
}

static int flight_copy(int fd, void *to, size_t size, uint64_t at)
{
	ssize_t n = pread(fd, to, size, (off_t)at);

	if (n < 0)
		return -errno;
	return (size_t)n < size ? ERR_DATA : 0;
}

int flight_read_at(struct flight_view *v, int fd, uint64_t at)
{
	struct flight before, f;
	int rc = flight_copy(fd, &before, sizeof(before), at);

	v->n = v->ncomms = 0;
	if (rc == 0)
		rc = flight_copy(fd, &f, sizeof(f), at);
	if (rc)
		return rc;
	/* an entry that differs between two copies was being written */
	for (int i = 0; i < FLIGHT_ENTRIES; i++) {
		if (memcmp(&before.ring[i], &f.ring[i], sizeof(f.ring[i])))
			f.ring[i].ticket = 0;
	}
	return flight_read(v, &f);
}

const struct flight_op *flight_oldest_open(const struct flight_view *v)
{
	for (int i = 0; i < v->n; i++) {
		if (v->ops[i].state == FLIGHT_ENTERED)
			return &v->ops[i];
	}
	return NULL;
}

/* ---- The file ---- */

static uint64_t flight_page_align(uint64_t bytes)
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
	head->parts_at = flight_page_align(
		sizeof(*head) + parts * sizeof(struct flight_worker));
	head->part_size = flight_page_align(sizeof(struct flight));
	return head->parts_at;
}

int flight_file_read(struct flight_file *head, int fd)
{
	int rc = flight_copy(fd, head, sizeof(*head), 0);

	if (rc)
		return rc;
	head->job[sizeof(head->job) - 1] = '\0';
	head->host[sizeof(head->host) - 1] = '\0';
	head->agent_id[sizeof(head->agent_id) - 1] = '\0';
	if (head->magic != FLIGHT_FILE_MAGIC ||
	    head->version != FLIGHT_VERSION ||
	    head->part_size < sizeof(struct flight) ||
	    head->part_size > UINT32_MAX || head->parts_at > UINT32_MAX ||
	    head->parts_at <
		    sizeof(*head) + (uint64_t)head->parts *
					    sizeof(struct flight_worker))
		return ERR_DATA;
	return 0;
}

/* ---- Calls as text ---- */

/* COUNTS: each rank has its own, which the packed word does not hold. */
enum shown { TYPE = 1, OP = 2, ROOT = 4, TO = 8, FROM = 16, COUNTS = 32 };

static const struct {
	const char *name;
	int shows;
} kinds[] = {
	[FLIGHT_INIT] = {"ddp_init", 0},
	[FLIGHT_ALL_REDUCE] = {"all_reduce", TYPE | OP},
	[FLIGHT_BROADCAST] = {"broadcast", TYPE | ROOT},
	[FLIGHT_ALL_GATHER] = {"all_gather", TYPE},
	[FLIGHT_REDUCE_SCATTER] = {"reduce_scatter", TYPE | OP},
	[FLIGHT_BARRIER] = {"barrier", 0},
	[FLIGHT_REDUCE] = {"reduce", TYPE | OP | ROOT},
	[FLIGHT_GATHER] = {"gather", TYPE | ROOT},
	[FLIGHT_SCATTER] = {"scatter", TYPE | ROOT},
	[FLIGHT_ALL_TO_ALL] = {"all_to_all", TYPE},
	[FLIGHT_SEND] = {"send", TYPE | TO},
	[FLIGHT_RECV] = {"recv", TYPE | FROM},
	[FLIGHT_SPLIT] = {"comm_split", 0},
	[FLIGHT_REDUCER] = {"reducer_new", 0},
	[FLIGHT_SHOULD_STOP] = {"should_stop", 0},
	[FLIGHT_ONCE] = {"once", 0},
	[FLIGHT_BATCH_NORM] = {"sync_batch_norm", 0},
	[FLIGHT_PROGRESS] = {"progress_start", 0},
	[FLIGHT_ALL_GATHER_V] = {"all_gather_v", TYPE | COUNTS},
	[FLIGHT_REDUCE_SCATTER_V] = {"reduce_scatter_v", TYPE | OP | COUNTS},
	[FLIGHT_ALL_TO_ALL_V] = {"all_to_all_v", TYPE | COUNTS},
	[FLIGHT_CHECK_REPLICAS] = {"check_replicas", 0},
	[FLIGHT_WAIT_EVENT] = {"wait_event", 0},
};
static_assert(sizeof(kinds) / sizeof(*kinds) == FLIGHT_KINDS, "one a kind");

/* In the order of ddp.h's enums. */
static const char *const types[] = {"f32", "f64",  "i32", "i64",
				    "f16", "bf16", "i8",  "u8"};
static const char *const ops[] = {"sum",  "avg",  "min", "max",
				  "prod", "band", "bor"};
static_assert(sizeof(types) / sizeof(*types) == FLIGHT_TYPES, "one a type");
static_assert(sizeof(ops) / sizeof(*ops) == FLIGHT_OPS, "one an operation");

int flight_is_collective(unsigned kind)
{
	return kind != FLIGHT_SEND && kind != FLIGHT_RECV;
}

/* The part in brackets. */
static void flight_put_details(const struct flight_call *c, int shows,
			       char *out, size_t size)
{
	const char *how = shows & ROOT ? "root" : shows & TO ? "to" : "from";
	char op[16] = "", peer[32] = "", count[40] = "";

	*out = '\0';
	if (!(shows & TYPE))
		return;
	if (shows & OP)
		snprintf(op, sizeof(op), ", %s",
			 c->op < FLIGHT_OPS ? ops[c->op] : "?");
	if (shows & (ROOT | TO | FROM))
		snprintf(peer, sizeof(peer), ", %s %d", how, c->root);
	if (!(shows & COUNTS))
		snprintf(count, sizeof(count), " x %llu%s",
			 (unsigned long long)c->count,
			 c->count == FLIGHT_COUNT_MOST ? " or more" : "");
	snprintf(out, size, " (%s%s%s%s)",
		 c->type < FLIGHT_TYPES ? types[c->type] : "?", count, op,
		 peer);
}

/* The communicator; "" for the world. */
static void flight_put_group(const char *name, char *out, size_t size)
{
	const char *slash = name ? strrchr(name, '/') : NULL;
	const char *own = slash ? slash + 1 : name;
	int above = slash ? (int)(slash - name) : 0;

	*out = '\0';
	if (!name)
		return;
	if (*own == 'r')
		snprintf(out, size, " of reducer %.10s%s%.*s", own + 1,
			 above ? " of group " : "", above, name);
	else
		snprintf(out, size, " of group %.40s", name);
}

char *flight_call_text(const struct flight_call *c, char *out)
{
	int known = c->kind < FLIGHT_KINDS;
	char number[24] = "", details[72], group[64];

	if (c->number && c->kind != FLIGHT_INIT && c->kind != FLIGHT_WAIT_EVENT)
		snprintf(number, sizeof(number), " #%llu",
			 (unsigned long long)c->number);
	flight_put_details(c, known ? kinds[c->kind].shows : 0, details,
			   sizeof(details));
	flight_put_group(c->group, group, sizeof(group));
	snprintf(out, FLIGHT_CALL_MAX, "%s%s%s%s",
		 known ? kinds[c->kind].name : "?", number, details, group);
	return out;
}

char *flight_time_text(uint64_t from_ns, uint64_t to_ns, char *out)
{
	/* the entries' clock is a few ms behind, and times may be garbage */
	uint64_t ns = to_ns > from_ns ? to_ns - from_ns : 0;
	uint64_t s = (ns + 500000000) / 1000000000, tenths;

	tenths = (ns + 50000000) / 100000000;
	/* no double: a program's locale may have decimal commas */
	if (tenths < 100)
		snprintf(out, 16, "%llu.%llu s",
			 (unsigned long long)tenths / 10,
			 (unsigned long long)tenths % 10);
	else
		snprintf(out, 16, "%llu s",
			 (unsigned long long)(s < 1000000000 ? s : 1000000000));
	return out;
}

static const char *flight_group_of(const struct flight_view *v, uint32_t comm)
{
	if (!comm)
		return NULL;
	for (int i = 0; i < v->ncomms; i++) {
		if (v->comms[i].id == comm)
			return v->comms[i].name;
	}
	return "?"; /* freed since */
}

char *flight_op_text(const struct flight_view *v, const struct flight_op *op,
		     char *out)
{
	struct flight_call call = op->call;

	call.group = flight_group_of(v, op->comm);
	return flight_call_text(&call, out);
}

static int flight_count_open(const struct flight_view *v)
{
	int n = 0;

	for (int i = 0; i < v->n; i++)
		n += v->ops[i].state == FLIGHT_ENTERED;
	return n;
}

/* The oldest open call, else the last one, and its text. NULL, and out "": the
 * rank has made no call. */
static const struct flight_op *flight_last_op(const struct flight_view *v,
					      char *call, char *out)
{
	const struct flight_op *op = flight_oldest_open(v);

	out[0] = '\0';
	if (!op && v->n)
		op = &v->ops[v->n - 1];
	if (op)
		flight_op_text(v, op, call);
	return op;
}

char *flight_last_text(const struct flight_view *v, uint64_t now_ns, char *out)
{
	char call[FLIGHT_CALL_MAX], ago[16], more[32] = "";
	const struct flight_op *op = flight_last_op(v, call, out);
	int n = flight_count_open(v);

	if (!op)
		return out;
	flight_time_text(op->ns, now_ns, ago);
	if (n > 1)
		snprintf(more, sizeof(more), " (and %d more)", n - 1);
	if (n)
		snprintf(out, FLIGHT_TEXT_MAX, "%s, entered %s earlier%s", call,
			 ago, more);
	else if (op->state == FLIGHT_FAILED)
		snprintf(out, FLIGHT_TEXT_MAX, "%s, entered %s earlier, failed",
			 call, ago);
	else
		snprintf(out, FLIGHT_TEXT_MAX,
			 "between calls; last: %s, entered %s earlier", call,
			 ago);
	return out;
}

char *flight_seen_text(const struct flight_view *v, char *out)
{
	char call[FLIGHT_CALL_MAX];
	const struct flight_op *op = flight_last_op(v, call, out);

	if (!op)
		return out;
	snprintf(out, FLIGHT_TEXT_MAX, "last seen %s %s",
		 op->state == FLIGHT_ENTERED  ? "entering"
		 : op->state == FLIGHT_FAILED ? "failing in"
					      : "leaving",
		 call);
	return out;
}
