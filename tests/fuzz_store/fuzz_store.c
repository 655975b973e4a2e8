/* fuzz_store.c: eight clients of one job's store, in both protocols, make
 * random requests while the server is killed and connections are dropped. Then
 * the history of each key is checked. Runs as a worker of ddprun
 * (tests/fuzz_store/run): rank 0 is the test, the other ranks wait until it
 * ends. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/fuzz_store/check.h"
#include "tests/fuzz_store/request.h"

enum {
	KILLS = 3, /* no more often than ddprun restarts a server in a minute */
	AWAY_MS = 30000, CANCEL_MS = 5, STUCK_MS = 90000,
	MORE_MS = 60000, /* for a compaction on a busy host */
	ACTS_MAX = 1200000,
	LOOK_MS = 20,
	SHOWN = 24, /* lines that are shown of a wrong history */
};

struct client {
	struct peer peer;
	struct request request;
	int busy;
	uint64_t cancel_at;
};

static struct fuzz fuzz;
static struct client clients[CLIENTS];
static struct job_place place;
static struct barrier_gather meeting;
static struct act *acts;
static size_t nacts;
static uint64_t seed, start_ns;
static uint64_t chance; /* for kills and drops, which belong to no client */
static int journal = -1; /* the server's journal, which ddprun keeps open */
static uint64_t journal_at, journal_pid;
static unsigned kills, repeats, compactions, barriers, gathers, waits, cancels;

static uint64_t now_ns(void)
{
	return clock_ns() - start_ns;
}

static void fail(const char *what, const struct client *c)
{
	printf("fuzz_store: seed %" PRIu64 ": ", seed);
	if (c)
		printf("client %u%s, request #%u (kind %d): ", c->peer.number,
		       c->peer.torch ? " (PyTorch's)" : "", c->request.number,
		       (int)c->request.kind);
	printf("%s\n", what);
	fflush(stdout);
	_exit(1);
}

/* ---- the server ---- */

/* The journal is memory that ddprun owns. Its header has the pid of the server
 * and the start of the valid part, which a compaction moves. */
static void find_journal(void)
{
	char path[300], link[300];
	struct dirent *d;
	ssize_t n;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)getppid());
	dir = opendir(path);
	while (dir && journal < 0 && (d = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%s", (int)getppid(),
			 d->d_name);
		n = readlink(path, link, sizeof(link) - 1);
		if (n <= 0)
			continue;
		link[n] = '\0';
		if (strstr(link, "journal"))
			journal = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (dir)
		closedir(dir);
	if (journal < 0)
		fail("ddprun has no journal: is it there?", NULL);
}

struct header {
	char magic[8];
	uint64_t start, salt, pid;
};

static struct header read_header(void)
{
	struct header h;

	if (pread(journal, &h, sizeof(h), 0) != sizeof(h) ||
	    memcmp(h.magic, "DDPJRNL2", 8))
		fail("the journal's header is another than this test knows",
		     NULL);
	return h;
}

/* A server has admitted us, so what it writes at its start has been written. */
static void know_server(void)
{
	struct header h = read_header();

	if (h.pid == journal_pid)
		return;
	journal_pid = h.pid;
	journal_at = h.start;
	fuzz.wants_bytes = 1;
}

static void look_at_journal(void)
{
	struct header h = read_header();

	if (h.pid != journal_pid || h.start == journal_at)
		return;
	compactions++;
	journal_at = h.start;
	fuzz.wants_bytes = 0;
}

static void kill_server(void)
{
	char path[64], name[16] = "";
	FILE *f;

	look_at_journal();
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)journal_pid);
	f = fopen(path, "re");
	if (f && fgets(name, sizeof(name), f) && !strcmp(name, "ddprdzv\n") &&
	    kill((pid_t)journal_pid, SIGKILL) == 0)
		kills++;
	if (f)
		fclose(f);
}

/* ---- connections ---- */

static void add_acts(struct client *c, struct act *list, uint32_t n,
		     uint64_t ended)
{
	const struct request *r = &c->request;

	for (uint32_t i = 0; i < n && nacts < ACTS_MAX; i++) {
		struct act *a = &acts[nacts++];

		*a = list[i];
		a->client = c->peer.number;
		a->began = r->began;
		a->ended = ended;
		/* the key is missing at the end of the timeout, not before. A
		 * server that was delayed counts the timeout from an earlier
		 * moment, so allow half of it */
		if (a->kind == ACT_LACKS)
			a->began = r->sent + (c->peer.torch ? 0 :
				   (uint64_t)r->timeout_ms * 500000);
		if (a->began > a->ended)
			a->began = a->ended;
	}
}

static void reopen(struct client *c)
{
	uint64_t until = clock_ms() + AWAY_MS;

	while (peer_open(&c->peer, &place) < 0) {
		if (clock_ms() > until)
			fail("the server does not come back", c);
		poll(NULL, 0, 2);
	}
	know_server();
}

/* Loses the reply on purpose: closes the connection before the whole request is
 * sent, right after it, or when the answer has arrived. */
static int drops(struct client *c)
{
	struct pollfd p = {c->peer.fd, POLLIN, 0};
	size_t n = c->peer.out.len;

	if (c->peer.torch || roll(&chance, 60))
		return 0;
	switch (roll(&chance, 3)) {
	case 0:
		n = roll(&chance, (uint32_t)n);
		peer_send(&c->peer, n);
		break;
	case 1:
		peer_send(&c->peer, n);
		break;
	default:
		peer_send(&c->peer, n);
		poll(&p, 1, 20);
	}
	repeats++;
	return 1;
}

static void give_up(struct client *c)
{
	struct act list[REQUEST_KEYS];

	c->busy = 0;
	add_acts(c, list, request_lost(&c->request, list), now_ns());
}

/* In our protocol the client repeats its request. In PyTorch's the fate of the
 * request is unknown: once the next server answers, it has happened or never
 * will. */
static void lost(struct client *c)
{
	unsigned before = kills;

	reopen(c);
	if (!c->busy)
		return;
	if (c->peer.torch) {
		give_up(c);
		return;
	}
	repeats++;
	c->request.sent = now_ns();
	if (peer_send(&c->peer, c->peer.out.len) < 0 && before == kills)
		peer_close(&c->peer);
}

static void start(struct client *c)
{
	struct request *r = &c->request;
	uint32_t bit = 1u << c->peer.number;

	if (meeting.todo & bit) {
		request_meet(r, &fuzz, &c->peer, &meeting);
		meeting.todo &= ~bit;
	} else {
		request_draw(r, &fuzz, &c->peer);
	}
	c->busy = 1;
	r->began = r->sent = now_ns();
	if (r->meeting && r->began > meeting.latest)
		meeting.latest = r->began;
	c->cancel_at = r->kind == R_WAIT && c->peer.torch
		       ? clock_ms() + r->timeout_ms : UINT64_MAX;
	if (drops(c)) {
		peer_close(&c->peer);
		return;
	}
	if (peer_send(&c->peer, c->peer.out.len) < 0)
		peer_close(&c->peer);
}

/* No client may leave a barrier or gather before the last one has entered. */
static void met(struct client *c)
{
	if (meeting.todo || now_ns() < meeting.latest)
		fail("a barrier or gather is over before all have come", c);
	meeting.left &= ~(1u << c->peer.number);
}

static void call_meeting(void)
{
	uint32_t who = 0, n;

	if (meeting.left || roll(&chance, 30))
		return;
	meeting = (struct barrier_gather){.number = meeting.number + 1,
				   .gather = (int)roll(&chance, 2)};
	n = 1 + roll(&chance, OURS);
	if (meeting.gather)
		who = (1u << n) - 1;
	while (!meeting.gather && n--)
		who |= 1u << roll(&chance, OURS);
	meeting.size = (uint32_t)__builtin_popcount(who);
	meeting.todo = meeting.left = who;
	*(meeting.gather ? &gathers : &barriers) += 1;
}

static void answered(struct client *c)
{
	struct request *r = &c->request;
	struct act list[REQUEST_KEYS];
	uint32_t n;
	char why[512] = "";
	int rc = request_answered(r, &fuzz, &c->peer, list, &n, why);

	if (rc < 0)
		fail(why, c);
	if (!rc)
		return;
	add_acts(c, list, n, now_ns());
	if (r->meeting)
		met(c);
	waits += r->kind == R_WAIT;
	cancels += r->canceled;
	c->busy = 0;
}

/* ---- the run ---- */

/* The connection ended, although the server was not killed since it began. In
 * PyTorch's protocol only an impossible ADD ends like this. */
static void on_end(struct client *c, unsigned killed)
{
	if (c->busy && killed == kills && !c->peer.torch)
		fail("the server closed the connection", c);
	if (c->busy && killed == kills && c->request.kind != R_ADD)
		fail("the server closed the connection", c);
	peer_close(&c->peer);
}

static void turn(int stopping)
{
	static unsigned seen_kills[CLIENTS];
	struct pollfd fds[CLIENTS];
	uint64_t now = clock_ms();

	for (int i = 0; i < CLIENTS; i++) {
		struct client *c = &clients[i];

		if (c->peer.fd < 0) {
			lost(c);
			seen_kills[i] = kills;
		}
		if (!c->busy && (!stopping || meeting.todo >> i & 1))
			start(c);
		if (now >= c->cancel_at && c->busy && c->peer.fd >= 0) {
			c->cancel_at = UINT64_MAX;
			request_cancel(&c->request, &c->peer);
			c->request.sent = now_ns();
			peer_send(&c->peer, c->peer.out.len);
		}
		if (c->busy && c->request.began + STUCK_MS * 1000000ull <
			       now_ns())
			fail("no answer for 90 s", c);
		fds[i] = (struct pollfd){c->peer.fd, POLLIN, 0};
	}
	if (poll(fds, CLIENTS, CANCEL_MS) < 0 && errno != EINTR)
		fail("poll", NULL);
	for (int i = 0; i < CLIENTS; i++) {
		if (!fds[i].revents || clients[i].peer.fd < 0)
			continue;
		if (peer_receive(&clients[i].peer) < 0)
			on_end(&clients[i], seen_kills[i]);
		else if (clients[i].busy)
			answered(&clients[i]);
	}
}

static int is_busy(void)
{
	int n = meeting.todo != 0;

	for (int i = 0; i < CLIENTS; i++)
		n += clients[i].busy;
	return n;
}

static void run(uint64_t ms)
{
	uint64_t began = clock_ms(), next_kill, looked = 0, now;

	next_kill = ms / (KILLS + 1);
	while (((now = clock_ms() - began) < ms ||
		(!compactions && now < ms + MORE_MS)) &&
	       nacts < ACTS_MAX - 100) {
		if (kills < KILLS && now >= next_kill) {
			kill_server();
			next_kill = ms * (kills + 1) / (KILLS + 1) +
				    roll(&chance, (uint32_t)ms / 10 + 1);
		}
		if (now > looked + LOOK_MS) {
			look_at_journal();
			looked = now;
		}
		call_meeting();
		turn(0);
	}
	while (is_busy())
		turn(1);
}

/* Reads all keys, which compares the final contents as well. */
static void read_all(void)
{
	struct client *c = &clients[0];
	struct buf name = BUF_INIT(64);

	for (uint32_t key = 0; key < KEYS; key++) {
		struct request *r = &c->request;
		struct wire_key k;

		*r = (struct request){.kind = R_GET, .n = 1, .keys = {key},
				      .number = ++fuzz.requests};
		key_name(key, &name);
		k.key = SLICE(name.data ? name.data : "", name.len);
		buf_reset(&c->peer.out);
		wire_put_key(&c->peer.out, WIRE_GET, WIRE_REQUEST, ++c->peer.id,
			     &k);
		r->began = r->sent = now_ns();
		c->busy = 1;
		if (peer_send(&c->peer, c->peer.out.len) < 0)
			fail("the server is gone", c);
		while (c->busy && peer_receive(&c->peer) > 0)
			answered(c);
		if (c->busy)
			fail("the server is gone", c);
	}
	buf_release(&name);
}

/* ---- the check ---- */

static int by_key(const void *x, const void *y)
{
	const struct act *a = x, *b = y;

	return (a->key > b->key) - (a->key < b->key);
}

/* Prints the requests before the wrong one, and the requests that overlap
 * it. */
static void show(const struct act *list, size_t n, size_t at)
{
	struct buf name = BUF_INIT(64);
	size_t from = at > SHOWN ? at - SHOWN : 0;
	char text[1024];

	key_name(list[at].key, &name);
	printf("the answers about '%.*s' cannot all be right; this one is the "
	       "first that no order of these explains:\n", (int)name.len,
	       name.data ? name.data : "");
	for (size_t i = from; i < n && (i <= at ||
					list[i].began <= list[at].ended); i++) {
		model_print(text, sizeof(text), &list[i]);
		printf("%s %s\n", i == at ? ">>>" : "   ", text);
	}
	buf_release(&name);
}

static int check(void)
{
	size_t most = 0, keys = 0, at, next;
	int wrong = 0, gave_up = 0;

	qsort(acts, nacts, sizeof(*acts), by_key);
	for (size_t i = 0; i < nacts; i = next, keys++) {
		for (next = i; next < nacts && acts[next].key == acts[i].key;)
			next++;
		switch (check_key(acts + i, next - i, &at, &most)) {
		case CHECK_OK:
			break;
		case CHECK_GAVE_UP:
			gave_up++;
			break;
		case CHECK_WRONG:
			if (wrong++ < 3)
				show(acts + i, next - i, at);
			break;
		}
	}
	printf("fuzz_store: seed %" PRIu64 ": %u requests, %u of them sent "
	       "twice, %u kills, %u compactions, %u barriers, %u gathers, %u "
	       "waits (%u given up); %zu keys, at most %zu states at a time: "
	       "%d not linearizable\n", seed, fuzz.requests, repeats, kills,
	       compactions, barriers, gathers, waits, cancels, keys, most,
	       wrong);
	if (gave_up)
		printf("fuzz_store: %d keys have too many states to be "
		       "checked\n", gave_up);
	return wrong || gave_up;
}

static void begin(void)
{
	struct err e = ERR_INIT;

	if (job_place_find(&place, &e) < 0)
		fail(e.text, NULL);
	signal(SIGPIPE, SIG_IGN);
	start_ns = clock_ns();
	acts = calloc(ACTS_MAX, sizeof(*acts));
	if (!acts)
		fail("out of memory", NULL);
	find_journal();
	chance = seed * 2 + 1;
	for (uint32_t i = 0; i < KEYS; i++)
		buf_init(&fuzz.seen[i], 1 << 20);
	for (uint8_t i = 0; i < CLIENTS; i++) {
		fuzz.dice[i] = (seed + i + 1) * UINT64_C(0x9e3779b97f4a7c15);
		/* each round has sessions of its own */
		peer_init(&clients[i].peer, i, i >= OURS,
			  fuzz.dice[i] ^ (uint64_t)getpid());
		clients[i].cancel_at = UINT64_MAX;
		roll(&fuzz.dice[i], 2);
		reopen(&clients[i]);
	}
}

/* The other ranks only exist because gathers need them. */
static int stay(const char *fifo)
{
	char byte;
	int fd = open(fifo, O_RDONLY);

	return fd < 0 || read(fd, &byte, 1) < 0;
}

int main(int argc, char **argv)
{
	const char *rank = getenv("RANK");
	int rc, fifo;

	if (argc != 4) {
		fprintf(stderr, "usage: fuzz_store SECONDS SEED FIFO\n");
		return 2;
	}
	if (rank && strcmp(rank, "0"))
		return stay(argv[3]);
	fifo = open(argv[3], O_WRONLY);
	seed = strtoull(argv[2], NULL, 10);
	begin();
	run(strtoull(argv[1], NULL, 10) * 1000);
	read_all();
	rc = check();
	if (!rc && !compactions) {
		printf("fuzz_store: no compaction fell into this run\n");
		rc = 1;
	}
	for (int i = 0; i < CLIENTS; i++)
		peer_release(&clients[i].peer);
	for (uint32_t i = 0; i < KEYS; i++)
		buf_release(&fuzz.seen[i]);
	free(acts);
	close(fifo);
	return rc;
}
