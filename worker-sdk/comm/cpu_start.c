/* cpu_start.c: how the ranks of the cpu backend meet: they exchange their
 * endpoint records, map the memory of their hosts, and connect the leaders of
 * hosts. The ranks of a group do the same, but know beforehand which ranks
 * share a host. */
#include "worker-sdk/comm/cpu.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/random.h"
#include "worker-sdk/comm/comm.h"
#include "worker-sdk/comm/endpoint_record.h"

struct meeting {
	struct ddp_comm *c;
	const struct ddp_comm
		*world; /* c itself, or the world that c is a group of */
	const struct ddp__exchange *exchange;
	struct ddp__cpu *cpu;
	struct err *e;
	int attempt;		       /* 1: after shared memory failed */
	int apart;		       /* 1: after guess_needs was wrong */
	int no_shm;		       /* this host cannot share memory */
	int creates, listens;	       /* a segment; for other hosts */
	char shm_error[ERR_TEXT_MAX];  /* why it cannot */
	char host_id[256];
	unsigned char cookie[DDP__COOKIE];
	int memory;   /* this rank's candidate for the host's segment, or -1 */
	struct ddp__listener listener;
	struct ddp__listener p2p_listener; /* for messages between two ranks */
	uint16_t port, p2p_port;
	struct buf mine; /* this rank's endpoint record */
	char *all;	 /* the other ranks' records; slices point here */
	struct ddp__endpoint_record *records;
};

/* Processes with the same id can map each other's memory: they run on the same
 * kernel, since the same boot, and see each other's pids. A network namespace
 * counts as a host of its own, since it has an address of its own. */
static void meeting_read_host_id(struct meeting *m)
{
	const char *hosts = getenv("DDP_TEST_HOSTS");
	const struct ddp__env *env = &m->c->world->env;
	char boot[64] = "";
	struct stat pid_ns, net_ns;
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, boot, sizeof(boot) - 1);
	int pretend = 0;

	if (fd >= 0)
		close(fd);
	if (hosts && atoi(hosts) > 0 && strchr(hosts, 'i'))
		pretend = env->rank % atoi(hosts);
	else if (hosts && atoi(hosts) > 0)
		pretend = (int)((long)env->rank * atoi(hosts) /
				env->world_size);
	if (n <= 0 || m->no_shm || stat("/proc/self/ns/pid", &pid_ns) ||
	    stat("/proc/self/ns/net", &net_ns))
		snprintf(m->host_id, sizeof(m->host_id), "rank %d", env->rank);
	else
		snprintf(m->host_id, sizeof(m->host_id), "%.36s %lu %lu %d",
			 boot, (unsigned long)pid_ns.st_ino,
			 (unsigned long)net_ns.st_ino, pretend);
}

/* Decides what the other ranks will need from this one: a listener for other
 * hosts, and memory for this host. Before the world has met, a rank only knows
 * that the first rank of an agent is the lowest of its host. */
static void meeting_guess_needs(struct meeting *m)
{
	const struct ddp_comm *c = m->c;
	const struct ddp__topology *t = &m->world->topology;
	const struct ddp__env *env = &c->world->env;
	int pretend = getenv("DDP_TEST_HOSTS") != NULL;
	int own, first = 1, alone = 1;

	m->listens = env->nodes > 1 || pretend || m->attempt;
	m->creates = !m->no_shm && (env->local_rank == 0 || pretend);
	if (m->apart) {
		m->listens = 1;
		m->creates = !m->no_shm;
	}
	if (c == m->world)
		return;
	m->listens = m->attempt;
	own = t->host_of[c->ranks[c->rank]];
	for (int i = 0; i < c->size; i++) {
		int same = t->host_of[c->ranks[i]] == own;

		m->listens |= !same;
		first &= !same || i >= c->rank;
		alone &= !same || i == c->rank;
	}
	m->creates = !m->no_shm && first && !alone;
}

/* Derives the cookie of a rank's segment from its record's `cookie`. Other
 * ranks map the segment, but its cookie opens no connection. */
static void meeting_segment_cookie(unsigned char out[DDP__COOKIE],
			   const unsigned char cookie[DDP__COOKIE])
{
	unsigned char key[DDP__KEY];

	ddp__key_for(key, cookie, "segment");
	memcpy(out, key, DDP__COOKIE);
}

static int meeting_prepare(struct meeting *m)
{
	const struct ddp__env *env = &m->c->world->env;
	int rc = 0;

	meeting_read_host_id(m);
	rc = random_bytes(m->cookie, sizeof(m->cookie), m->e);
	if (rc < 0)
		return rc;
	meeting_guess_needs(m);
	if (m->creates) {
		struct err why = ERR_INIT;
		unsigned char segment[DDP__COOKIE];

		/* meeting_attach reports a failure, if this rank's memory is
		 * used. */
		meeting_segment_cookie(segment, m->cookie);
		m->memory = ddp__shm_create((size_t)m->c->size, segment, &why);
		snprintf(m->shm_error, sizeof(m->shm_error), "%s", why.text);
		if (m->memory < 0)
			m->memory = -1;
	}
	if (m->listens) {
		const char *addr = env->node_addr;

		if (!addr && env->nodes > 1)
			return err_set(m->e, ERR_USAGE,
				       "DDP_NODE_ADDR is not set, but there "
				       "are %d nodes: start this program with "
				       "ddprun", env->nodes);
		addr = addr ? addr : "127.0.0.1";
		rc = ddp__listen(&m->listener, addr, &m->port, m->e);
		if (rc >= 0)
			rc = ddp__listen(&m->p2p_listener, addr, &m->p2p_port,
					 m->e);
	}
	return rc < 0 ? rc : 0;
}

/* Gathers every rank's value, in c's order, as copies in *all. */
static int meeting_gather(struct meeting *m, const char *what,
			  struct slice mine, struct slice *out, char **all)
{
	size_t n = (size_t)m->c->size, size = 0, at = 0;
	char name[64];
	int rc;

	snprintf(name, sizeof(name), "%s%s", what,
		 m->attempt ? "/without-shm" : m->apart ? "/apart" : "");
	rc = m->exchange->gather(m->exchange->owner, name, mine, out, m->e);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < n; i++)
		size += out[i].len;
	*all = malloc(size + 1);
	if (!*all)
		return err_no_memory(m->e, "ddp_init");
	for (size_t i = 0; i < n; i++) {
		if (out[i].len)
			memcpy(*all + at, out[i].data, out[i].len);
		out[i].data = *all + at;
		at += out[i].len;
	}
	return 0;
}

static int meeting_save_names(struct meeting *m, size_t n)
{
	struct ddp_comm *c = m->c;

	if (c->world->hosts)
		return 0;
	c->world->hosts = calloc(n, sizeof(*c->world->hosts));
	for (size_t i = 0; c->world->hosts && i < n; i++) {
		c->world->hosts[i] = strndup(m->records[i].host_name.data,
					     m->records[i].host_name.len);
		if (!c->world->hosts[i])
			return err_no_memory(m->e, "ddp_init");
	}
	return c->world->hosts
		       ? 0
		       : err_no_memory(m->e, "ddp_init");
}

/* Exchanges endpoint records, and finds out which ranks share a host. */
static int meeting_exchange(struct meeting *m)
{
	struct ddp_comm *c = m->c;
	const char *version = getenv("DDP_TEST_VERSION");
	struct ddp__endpoint_record me = {
		.version = SLICE_STR(version ? version : ddp_version()),
		.backend = SLICE_STR(c->world->wish),
		.world_size = (uint32_t)c->size,
		.host_id = SLICE_STR(m->host_id),
		.host_name = SLICE_STR(c->world->host),
		.pid = getpid(),
		.memory = m->memory,
		.port = m->port,
		.p2p_port = m->p2p_port};
	const char *node = c->world->env.node_addr;
	const char *addr = node ? node : "127.0.0.1";
	size_t n = (size_t)c->size;
	struct slice *values = calloc(n, sizeof(*values));
	int rc;

	memcpy(me.cookie, m->cookie, sizeof(me.cookie));
	if (m->listener.n)
		me.addr = SLICE(addr, strcspn(addr, "%")); /* no scope */
	ddp__endpoint_record_put(&m->mine, &me);
	m->records = calloc(n, sizeof(*m->records));
	if (!values || !m->records || m->mine.failed) {
		rc = err_no_memory(m->e, "ddp_init");
		goto out;
	}
	rc = meeting_gather(m, "init", SLICE(m->mine.data, m->mine.len), values,
			    &m->all);
	for (size_t i = 0; i < n && !rc; i++) {
		rc = ddp__endpoint_record_get(&m->records[i], values[i], m->e);
		if (!rc)
			rc = ddp__endpoint_record_agree(
				&me, c->rank, &m->records[i], (int)i, m->e);
	}
	if (!rc)
		rc = meeting_save_names(m, n);
	if (rc)
		goto out;
	for (size_t i = 0; i < n; i++)
		values[i] = m->records[i].host_id;
	if (ddp__topology_init(&c->topology, values, (int)n))
		rc = err_no_memory(m->e, "ddp_init");
out:
	free(values);
	return rc;
}

/* Maps the memory of this host's lowest rank, through /proc: the memory has no
 * name in a file system, so a crash leaves nothing behind. */
static int meeting_attach(struct meeting *m)
{
	struct ddp_comm *c = m->c;
	int me = c->rank;
	const struct ddp__host *h =
		&c->topology.hosts[c->topology.host_of[me]];
	const struct ddp__endpoint_record *leader = &m->records[h->ranks[0]];
	const char *test = getenv("DDP_TEST_SHM");
	unsigned char segment[DDP__COOKIE];
	char path[64], name[DDP__NAME_MAX];
	int fd, rc;

	if (test && !strcmp(test, "fail"))
		return err_set(m->e, ERR_SYSTEM, "DDP_TEST_SHM=fail");
	snprintf(path, sizeof(path), "/proc/%lld/fd/%d", (long long)leader->pid,
		 leader->memory);
	fd = h->ranks[0] == me ? m->memory
			       : open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 && h->ranks[0] == me)
		return err_set(m->e, ERR_SYSTEM, "%s", m->shm_error);
	if (fd < 0)
		return err_set(m->e, -errno,
			       "cannot open %s, the memory of %s: %s", path,
			       c->peers.name(c, h->ranks[0], name),
			       strerror(errno));
	meeting_segment_cookie(segment, leader->cookie);
	rc = ddp__shm_attach(&m->cpu->shm, fd, c->topology.index_of[me], h->n,
			     segment, m->e);
	if (fd != m->memory)
		close(fd);
	m->cpu->shm.ranks = h->ranks;
	m->cpu->shm.peers = &c->peers;
	m->cpu->shm.timeout_ms = c->world->timeout_ms;
	return rc;
}

/* All ranks of a host share its memory, or none does: they exchange whether
 * they could map it. Returns 1 if all could, 0 if not. */
static int meeting_attach_all(struct meeting *m)
{
	struct ddp_comm *c = m->c;
	const struct ddp__topology *t = &c->topology;
	size_t n = (size_t)t->world_size;
	int my_host = t->host_of[c->rank], all_could = 1;
	struct slice *values = calloc(n, sizeof(*values)), mine = {"", 0};
	struct err why;
	char *all = NULL;
	int rc;

	if (!values)
		return err_no_memory(m->e, "ddp_init");
	if (t->hosts[my_host].n > 1 && meeting_attach(m)) {
		why = *m->e;
		mine = SLICE_STR(why.text);
	}
	rc = meeting_gather(m, "init/shm", mine, values, &all);
	for (size_t i = 0; i < n && !rc; i++) {
		if (!values[i].len)
			continue;
		all_could = 0;
		if (t->host_of[i] == my_host && !m->no_shm) {
			m->no_shm = 1;
			snprintf(m->shm_error, sizeof(m->shm_error), "%.*s",
				 SLICE_FMT(values[i]));
			snprintf(c->world->warning, sizeof(c->world->warning),
				 "the ranks of %s use TCP among each other, "
				 "because shared memory failed: %.*s",
				 c->world->host, SLICE_FMT(values[i]));
		}
	}
	free(all);
	free(values);
	return rc ? rc : all_could;
}

/* The address where another rank listens. A link-local address travels without
 * its scope; the receiver adds that of its own interface. */
static int meeting_find(const struct meeting *m,
			const struct ddp__endpoint_record *other, uint16_t port,
			struct endpoint *where)
{
	const char *own = m->c->world->env.node_addr;
	char text[SOCK_HOST_MAX];
	int rc;

	snprintf(text, sizeof(text), "%.*s", SLICE_FMT(other->addr));
	if (own)
		sock_host_scope(text, own);
	rc = endpoint_parse(where, text, 0, m->e);
	where->port = port;
	return rc;
}

static int meeting_connect_leaders(struct meeting *m)
{
	struct ddp_comm *c = m->c;
	const struct ddp__topology *t = &c->topology;
	struct ddp__tcp_site *sites = calloc((size_t)t->nhosts,
					     sizeof(*sites));
	struct ddp__tcp_setup setup = {.sites = sites,
				       .me = t->host_of[c->rank],
				       .n = t->nhosts,
				       .listener = m->listener,
				       .round = c->world->env.round,
				       .timeout_ms = c->world->timeout_ms,
				       .peers = &c->peers};
	int rc = 0;

	if (!sites)
		return err_no_memory(m->e, "ddp_init");
	ddp__key_for(setup.key, m->records[0].cookie, "collectives");
	for (int h = 0; h < t->nhosts && !rc; h++) {
		const struct ddp__endpoint_record *leader =
			&m->records[t->hosts[h].ranks[0]];

		sites[h].leader = t->hosts[h].ranks[0];
		sites[h].ranks = t->hosts[h].n;
		rc = meeting_find(m, leader, leader->port, &sites[h].where);
	}
	if (!rc)
		rc = ddp__tcp_connect(&m->cpu->tcp, &setup, m->e);
	free(sites);
	if (rc && m->no_shm) {
		struct err why = *m->e;

		err_set(m->e, why.code,
			"%.480s (by TCP, because shared memory failed: %.480s)",
			why.text, m->shm_error);
	}
	return rc;
}

/* Prepares messages to ranks of other hosts; connects to none yet. */
static int meeting_open_p2p(struct meeting *m)
{
	struct ddp_comm *c = m->c;
	const struct ddp__topology *t = &c->topology;
	struct endpoint *where = calloc((size_t)c->size, sizeof(*where));
	struct ddp__tcp_p2p_setup setup = {.where = where,
					   .me = c->rank,
					   .n = c->size,
					   .listener = m->p2p_listener,
					   .round = c->world->env.round,
					   .timeout_ms = c->world->timeout_ms,
					   .peers = &c->peers};
	int rc = 0;

	if (!where)
		return err_no_memory(m->e, "ddp_init");
	ddp__key_for(setup.key, m->records[0].cookie, "messages");
	for (int i = 0; i < c->size && !rc; i++) {
		const struct ddp__endpoint_record *other = &m->records[i];

		if (t->host_of[i] == t->host_of[c->rank])
			continue;
		rc = meeting_find(m, other, other->p2p_port, &where[i]);
	}
	if (!rc) {
		m->p2p_listener.n = 0; /* taken over */
		rc = ddp__tcp_p2p_init(&m->cpu->p2p, &setup, m->e);
	}
	free(where);
	return rc;
}

/* True if one node of the launcher is several hosts here: containers with a PID
 * or network namespace of their own. Their ranks did not expect to need each
 * other's addresses, or memory of their own. All ranks reach the same
 * result. */
static int meeting_is_apart(const struct meeting *m)
{
	const struct ddp__topology *t = &m->c->topology;

	if (m->apart || m->attempt)
		return 0;
	for (int i = 0; i < m->c->size && t->nhosts > 1; i++)
		if (!m->records[i].addr.len)
			return 1;
	for (int h = 0; h < t->nhosts && t->nhosts > 1; h++)
		if (t->hosts[h].n > 1 &&
		    m->records[t->hosts[h].ranks[0]].memory < 0)
			return 1;
	return 0;
}

static void meeting_warn_apart(const struct meeting *m)
{
	struct ddp__world *w = m->c->world;

	if (w->env.nodes == 1)
		snprintf(w->warning, sizeof(w->warning),
			 "the ranks of %s are in %d containers, or PID or "
			 "network namespaces, and use TCP between them: start "
			 "one container per node, or let them share these "
			 "namespaces (--pid host, --network host)",
			 w->host, m->c->topology.nhosts);
}

/* Frees this attempt's state before the next attempt. */
static void meeting_release(struct meeting *m)
{
	if (m->memory >= 0)
		close(m->memory);
	ddp__listen_close(&m->listener);
	ddp__listen_close(&m->p2p_listener);
	m->memory = -1;
	buf_release(&m->mine);
	free(m->all);
	free(m->records);
	m->all = NULL;
	m->records = NULL;
}

/* The communicator's id, from rank 0's random cookie of this attempt. */
static uint64_t meeting_id(const struct meeting *m)
{
	unsigned char key[DDP__KEY];
	uint64_t id;

	ddp__key_for(key, m->records[0].cookie, "communicator");
	memcpy(&id, key, sizeof(id));
	return id;
}

/* A group shares its host's CPUs with the rest of the world. */
static int meeting_is_crowded(const struct ddp_comm *world)
{
	const struct ddp__cpu *cpu = world->state;

	return cpu && cpu->shm.n && !cpu->shm.spins;
}

static int meeting_run(struct meeting *m)
{
	struct ddp_comm *c = m->c;
	static const struct ddp__call call = {.kind = DDP__INIT};
	const struct ddp__host *h;
	int rc = meeting_prepare(m);

	if (!rc)
		rc = meeting_exchange(m);
	if (rc)
		return rc;
	if (meeting_is_apart(m)) {
		m->apart = 1;
		meeting_warn_apart(m);
		ddp__topology_release(&c->topology);
		meeting_release(m);
		return meeting_run(m);
	}
	/* Every rank sees the same topology, so all or none gather again. */
	rc = c->topology.nhosts < c->size ? meeting_attach_all(m) : 1;
	if (rc < 0)
		return rc;
	if (rc == 0) {
		ddp__shm_detach(&m->cpu->shm);
		ddp__topology_release(&c->topology);
		meeting_release(m);
		if (m->attempt++)
			return err_set(m->e, ERR_SYSTEM, "ddp_init: %s",
				       m->shm_error);
		return meeting_run(m);
	}
	m->cpu->id = meeting_id(m);
	h = &c->topology.hosts[c->topology.host_of[c->rank]];
	rc = c->topology.nhosts > 1 ? meeting_open_p2p(m) : 0;
	if (!rc && c->topology.nhosts > 1 && h->ranks[0] == c->rank) {
		rc = meeting_connect_leaders(m);
		m->cpu->tcp.spins = 1;
	}
	/* The host's other ranks wait here for the leader's result. */
	if (h->n > 1) {
		if (rc)
			ddp__shm_abort(&m->cpu->shm, m->e);
		else
			rc = ddp__shm_start(&m->cpu->shm, &call, m->e);
		m->cpu->shm.spins &= !meeting_is_crowded(m->world);
		m->cpu->tcp.spins = m->cpu->shm.spins;
		m->cpu->p2p.spins = m->cpu->shm.spins;
	}
	return rc;
}

/* 1 if this rank is alone on its host, as found when the world met. */
static int meeting_is_alone(const struct ddp_comm *world)
{
	const struct ddp__topology *t = &world->topology;

	return t->hosts[t->host_of[world->rank]].n == 1;
}

/* The world is the oldest communicator, so the last of its list. */
static const struct ddp_comm *meeting_world(const struct ddp_comm *c)
{
	while (c->next)
		c = c->next;
	return c;
}

int ddp__cpu_start(struct ddp_comm *c, const struct ddp__exchange *x,
		   struct err *e)
{
	struct meeting m = {.c = c,
			    .world = meeting_world(c),
			    .exchange = x,
			    .cpu = calloc(1, sizeof(*m.cpu)),
			    .e = e,
			    .memory = -1,
			    .mine = BUF_INIT(DDP__ENDPOINT_RECORD_MAX)};
	int rc;

	if (!m.cpu)
		return err_no_memory(e, "ddp_init");
	rc = ddp__engine_use(c->world, e);
	if (rc) {
		free(m.cpu);
		return rc;
	}
	ddp__cpu_set_paths(m.cpu);
	m.cpu->shm.bell = -1;
	m.cpu->collectives.cpu = m.cpu;
	m.no_shm = m.world != c && meeting_is_alone(m.world);
	rc = meeting_run(&m);
	meeting_release(&m);
	c->state = m.cpu;
	c->has_fastpath = !rc && c->topology.nhosts == 1;
	if (rc)
		ddp__cpu_stop(c);
	return rc;
}

void ddp__cpu_stop(struct ddp_comm *c)
{
	struct ddp__cpu *cpu = c->state;
	struct ddp__engine *en = c->world->engine;

	if (!cpu)
		return;
	ddp__engine_lock(en);
	cpu->local.transport->disarm(&cpu->local);
	ddp__engine_tidy(en, cpu);
	ddp__engine_unlock(en);
	ddp__engine_leave(c->world);
	ddp__shm_detach(&cpu->shm);
	ddp__tcp_close(&cpu->tcp);
	ddp__tcp_p2p_close(&cpu->p2p);
	free(cpu->messages);
	free(cpu);
	c->state = NULL;
	c->has_fastpath = 0;
}
