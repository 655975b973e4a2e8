/* chaos_switch: the network of tests/chaos: a switch whose every path can be
 * late, lossy or cut, each direction for itself. The kernel's own means for
 * that (netem, nft) are not on every machine.
 *
 * It reads commands from stdin, one a line, and answers each with "ok" or
 * "error: WHY"; it ends with its stdin.
 *
 *   add NAME PID ADDRESS    gives the host whose init is PID an eth0 of this
 *                           address (/24) that leads here; again after its end
 *   cable NAME on|off       its carrier
 *   path FROM TO off        nothing comes through; `*` is every host
 *   path FROM TO DELAY_US JITTER_US LOSS_PPM */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	HOSTS_MAX = 16,
	FRAME_MAX = 2048,
	QUEUE_MAX = 2048, /* frames under way on a path; a full one drops */
	BURST = 64,
	LINE = 256,
	OFF = 1000000, /* per million frames: all are lost */
};

struct frame {
	uint64_t due; /* us */
	size_t len;
	unsigned char *data;
};

struct path {
	uint32_t delay, jitter, loss;
	struct frame queue[QUEUE_MAX];
	unsigned head, n;
	uint64_t last; /* frames stay in order */
};

struct host {
	char name[32];
	int fd; /* its eth0; -1: the host has ended */
	int cable;
};

static struct host hosts[HOSTS_MAX];
static int nhosts;
static struct path paths[HOSTS_MAX][HOSTS_MAX];

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* ---- Frames ---- */

static void deliver(int to, const unsigned char *data, size_t len)
{
	const struct host *h = &hosts[to];

	if (h->fd >= 0 && h->cable && write(h->fd, data, len) < 0)
		return; /* like the card of a host that is full or has ended */
}

static void send_on(int from, int to, const unsigned char *data, size_t len)
{
	struct path *p = &paths[from][to];
	struct frame *f;

	if (!hosts[from].cable || !hosts[to].cable ||
	    (p->loss && (uint32_t)(random() % OFF) < p->loss))
		return;
	if (!p->delay && !p->jitter && !p->n) {
		deliver(to, data, len);
		return;
	}
	if (p->n == QUEUE_MAX)
		return;
	f = &p->queue[(p->head + p->n) % QUEUE_MAX];
	f->data = malloc(len);
	if (!f->data)
		return;
	memcpy(f->data, data, len);
	f->len = len;
	f->due = now_us() + p->delay +
		 (p->jitter ? (uint64_t)random() % p->jitter : 0);
	if (f->due < p->last)
		f->due = p->last;
	p->last = f->due;
	p->n++;
}

/* The last byte of a card's Ethernet address is the last byte of its IP
 * address. */
static void forward(int from, const unsigned char *data, size_t len)
{
	for (int to = 0; to < nhosts; to++)
		if (to != from && ((data[0] & 1) || data[5] == to + 1))
			send_on(from, to, data, len);
}

static void take_in(int from)
{
	unsigned char data[FRAME_MAX];

	for (int i = 0; i < BURST; i++) {
		ssize_t n = read(hosts[from].fd, data, sizeof(data));
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			close(hosts[from].fd);
			hosts[from].fd = -1;
			return;
		}
		if (n >= 14)
			forward(from, data, (size_t)n);
	}
}

/* Delivers the frames that are due. Returns the us until the next one is due,
 * or -1 if none is under way. */
static int64_t send_due(void)
{
	uint64_t now = now_us();
	int64_t next = -1;

	for (int i = 0; i < HOSTS_MAX * HOSTS_MAX; i++) {
		struct path *p = &paths[i / HOSTS_MAX][i % HOSTS_MAX];
		while (p->n && p->queue[p->head].due <= now) {
			struct frame *f = &p->queue[p->head];
			deliver(i % HOSTS_MAX, f->data, f->len);
			free(f->data);
			p->head = (p->head + 1) % QUEUE_MAX;
			p->n--;
		}
		if (p->n) {
			int64_t left = (int64_t)(p->queue[p->head].due - now);
			if (next < 0 || left < next)
				next = left;
		}
	}
	return next;
}

/* ---- Commands ---- */

static int find(const char *name)
{
	for (int i = 0; i < nhosts; i++)
		if (!strcmp(hosts[i].name, name))
			return i;
	return -1;
}

static const char *configure(int s, int index, const char *address)
{
	struct ifreq r = {.ifr_name = "eth0"};
	unsigned char mac[6] = {2, 0x78, 0, 0, 0, (unsigned char)(index + 1)};
	struct sockaddr_in *in = (struct sockaddr_in *)&r.ifr_addr;

	r.ifr_hwaddr.sa_family = ARPHRD_ETHER;
	memcpy(r.ifr_hwaddr.sa_data, mac, sizeof(mac));
	if (ioctl(s, SIOCSIFHWADDR, &r) < 0)
		return "hardware address";
	memset(in, 0, sizeof(*in));
	in->sin_family = AF_INET;
	if (inet_pton(AF_INET, address, &in->sin_addr) != 1 ||
	    ioctl(s, SIOCSIFADDR, &r) < 0)
		return "address";
	in->sin_addr.s_addr = htonl(0xffffff00);
	if (ioctl(s, SIOCSIFNETMASK, &r) < 0)
		return "netmask";
	r.ifr_flags = IFF_UP | IFF_RUNNING;
	if (ioctl(s, SIOCSIFFLAGS, &r) < 0)
		return "up";
	return NULL;
}

/* Creates a card in the network of process pid. NULL, or what failed. */
static const char *plug_in(struct host *h, int index, const char *pid,
			   const char *address)
{
	struct ifreq r = {.ifr_name = "eth0"};
	char ns[64];
	const char *why;

	snprintf(ns, sizeof(ns), "/proc/%s/ns/net", pid);
	int fd = open(ns, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET) < 0)
		return "the network of the host";
	close(fd);
	fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return "/dev/net/tun";
	r.ifr_flags = IFF_TAP | IFF_NO_PI;
	if (ioctl(fd, TUNSETIFF, &r) < 0)
		return "TUNSETIFF";
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	why = s < 0 ? "socket" : configure(s, index, address);
	close(s);
	h->fd = fd;
	h->cable = 1;
	return why;
}

static const char *add(const char *name, const char *pid, const char *address)
{
	int i = find(name);

	if (i < 0 && nhosts == HOSTS_MAX)
		return "too many hosts";
	if (i < 0) {
		i = nhosts++;
		snprintf(hosts[i].name, sizeof(hosts[i].name), "%s", name);
	} else if (hosts[i].fd >= 0) {
		close(hosts[i].fd);
	}
	hosts[i].fd = -1;
	return plug_in(&hosts[i], i, pid, address);
}

static const char *set_cable(const char *name, const char *what)
{
	int i = find(name), on = !strcmp(what, "on");

	if (i < 0)
		return "no such host";
	hosts[i].cable = on;
	/* a host that has ended has none */
	if (hosts[i].fd >= 0 && ioctl(hosts[i].fd, TUNSETCARRIER, &on) < 0)
		return "TUNSETCARRIER";
	return NULL;
}

static const char *set_path(const char *from, const char *to,
			    const char *delay, const char *jitter,
			    const char *loss)
{
	int is_off = !strcmp(delay, "off"), found = 0;

	for (int f = 0; f < nhosts; f++)
		for (int t = 0; t < nhosts; t++) {
			if ((*from != '*' && strcmp(from, hosts[f].name)) ||
			    (*to != '*' && strcmp(to, hosts[t].name)))
				continue;
			found = 1;
			paths[f][t].delay = is_off ? 0 : (uint32_t)atol(delay);
			paths[f][t].jitter = (uint32_t)atol(jitter);
			paths[f][t].loss = is_off ? OFF : (uint32_t)atol(loss);
		}
	return found ? NULL : "no such path";
}

static void command(char *line)
{
	char *word[6] = {"", "", "", "", "0", "0"};
	const char *why = "unknown command";
	int n = 0;

	errno = 0;
	for (char *w = strtok(line, " "); w && n < 6; w = strtok(NULL, " "))
		word[n++] = w;
	if (!strcmp(word[0], "add"))
		why = add(word[1], word[2], word[3]);
	else if (!strcmp(word[0], "cable"))
		why = set_cable(word[1], word[2]);
	else if (!strcmp(word[0], "path"))
		why = set_path(word[1], word[2], word[3], word[4], word[5]);
	if (why)
		printf("error: %s: %s\n", why, strerror(errno));
	else
		printf("ok\n");
	fflush(stdout);
}

/* 0 at the end of stdin. */
static int read_commands(void)
{
	static char text[LINE];
	static size_t len;
	char *end;
	ssize_t n = read(0, text + len, sizeof(text) - len - 1);

	if (n <= 0)
		return 0;
	len += (size_t)n;
	text[len] = 0;
	while ((end = strchr(text, '\n'))) {
		*end++ = 0;
		command(text);
		len -= (size_t)(end - text);
		memmove(text, end, len + 1);
	}
	return 1;
}

int main(void)
{
	struct pollfd fds[HOSTS_MAX + 1];

	for (;;) {
		int64_t left = send_due();
		struct timespec t = {left / 1000000, left % 1000000 * 1000};

		fds[HOSTS_MAX] = (struct pollfd){.fd = 0, .events = POLLIN};
		for (int i = 0; i < HOSTS_MAX; i++)
			fds[i] = (struct pollfd){
				.fd = i < nhosts ? hosts[i].fd : -1,
				.events = POLLIN};
		if (ppoll(fds, HOSTS_MAX + 1, left < 0 ? NULL : &t, NULL) < 0)
			continue;
		for (int i = 0; i < nhosts; i++)
			if (fds[i].revents)
				take_in(i);
		if (fds[HOSTS_MAX].revents && !read_commands())
			return 0;
	}
}
