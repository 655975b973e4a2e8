/* sock.c: resolves, listens and connects. Endpoints as text: endpoint.c. */
#include "base/sock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/option.h"

static const struct in6_addr *sock_addr6(const struct sock_addr *a)
{
	return &((const struct sockaddr_in6 *)&a->ss)->sin6_addr;
}

char *sock_addr_host(const struct sock_addr *a, char *out)
{
	const void *raw = NULL;

	if (a->ss.ss_family == AF_INET)
		raw = &((const struct sockaddr_in *)&a->ss)->sin_addr;
	else if (a->ss.ss_family == AF_INET6)
		raw = sock_addr6(a);
	if (!raw || !inet_ntop(a->ss.ss_family, raw, out, SOCK_TEXT_MAX))
		snprintf(out, SOCK_TEXT_MAX, "(no address)");
	return out;
}

/* fe80::/10, which means nothing without an interface. */
static int sock_addr_is_link_local(const struct sock_addr *a)
{
	return a->ss.ss_family == AF_INET6 &&
	       IN6_IS_ADDR_LINKLOCAL(sock_addr6(a));
}

static uint32_t sock_scope(const struct sock_addr *a)
{
	return sock_addr_is_link_local(a)
		       ? ((const struct sockaddr_in6 *)&a->ss)->sin6_scope_id
		       : 0;
}

char *sock_addr_scoped(const struct sock_addr *a, char *out)
{
	char name[IF_NAMESIZE];
	uint32_t scope = sock_scope(a);
	size_t n = strlen(sock_addr_host(a, out));

	if (scope && if_indextoname(scope, name))
		snprintf(out + n, SOCK_TEXT_MAX - n, "%%%s", name);
	else if (scope)
		snprintf(out + n, SOCK_TEXT_MAX - n, "%%%u", scope);
	return out;
}

char *sock_host_unscope(char *host)
{
	host[strcspn(host, "%")] = '\0';
	return host;
}

void sock_host_scope(char *host, const char *like)
{
	const char *scope = strchr(like, '%');
	struct sock_addr a;
	size_t n = strlen(host);

	if (scope && sock_addr_number(host, 0, &a) &&
	    sock_addr_is_link_local(&a))
		snprintf(host + n, SOCK_HOST_MAX - n, "%s", scope);
}

uint16_t sock_addr_port(const struct sock_addr *a)
{
	/* sin_port and sin6_port are at the same place */
	return ntohs(((const struct sockaddr_in *)&a->ss)->sin_port);
}

void sock_addr_set_port(struct sock_addr *a, uint16_t port)
{
	((struct sockaddr_in *)&a->ss)->sin_port = htons(port);
}

char *sock_addr_text(const struct sock_addr *a, char *out)
{
	struct endpoint ep;
	char host[SOCK_TEXT_MAX];

	snprintf(ep.host, sizeof(ep.host), "%.*s", SOCK_HOST_MAX - 1,
		 sock_addr_scoped(a, host));
	ep.port = sock_addr_port(a);
	return endpoint_text(&ep, out);
}

static uint32_t sock_addr4(const struct sock_addr *a)
{
	return ntohl(((const struct sockaddr_in *)&a->ss)->sin_addr.s_addr);
}

int sock_addr_is_loopback(const struct sock_addr *a)
{
	if (a->ss.ss_family == AF_INET)
		return sock_addr4(a) >> 24 == 127;
	if (a->ss.ss_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(sock_addr6(a)) ||
		       (IN6_IS_ADDR_V4MAPPED(sock_addr6(a)) &&
			sock_addr6(a)->s6_addr[12] == 127);
	return 0;
}

void sock_addr_set_scope(struct sock_addr *a, const struct sock_addr *like)
{
	if (sock_addr_is_link_local(a) && sock_addr_is_link_local(like))
		((struct sockaddr_in6 *)&a->ss)->sin6_scope_id =
			sock_scope(like);
}

int sock_addr_compare(const struct sock_addr *a, const struct sock_addr *b)
{
	int d = (a->ss.ss_family > b->ss.ss_family) -
		(a->ss.ss_family < b->ss.ss_family);

	if (d)
		return d;
	if (a->ss.ss_family == AF_INET)
		return (sock_addr4(a) > sock_addr4(b)) -
		       (sock_addr4(a) < sock_addr4(b));
	if (a->ss.ss_family == AF_INET6)
		d = memcmp(sock_addr6(a), sock_addr6(b),
			   sizeof(struct in6_addr));
	return (d > 0) - (d < 0);
}

int sock_addr_add(struct sock_addr *list, int n, int max,
		  const struct sock_addr *a)
{
	for (int i = 0; i < n; i++)
		if (sock_addr_compare(&list[i], a) == 0)
			return n;
	if (n < max)
		list[n++] = *a;
	return n;
}

void sock_addr_unmap(struct sock_addr *a)
{
	struct sock_addr v4 = {.len = sizeof(struct sockaddr_in)};
	struct sockaddr_in *in = (struct sockaddr_in *)&v4.ss;

	if (a->ss.ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(sock_addr6(a)))
		return;
	in->sin_family = AF_INET;
	memcpy(&in->sin_addr, sock_addr6(a)->s6_addr + 12,
	       sizeof(in->sin_addr));
	sock_addr_set_port(&v4, sock_addr_port(a));
	*a = v4;
}

int sock_addr_number(const char *host, uint16_t port, struct sock_addr *out)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)&out->ss;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&out->ss;

	memset(out, 0, sizeof(*out));
	if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		out->len = sizeof(*v4);
	} else if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		out->len = sizeof(*v6);
	} else {
		return 0;
	}
	sock_addr_set_port(out, port);
	return 1;
}

/* An interface's name, or its number. */
static uint32_t sock_scope_parse(const char *text)
{
	uint32_t index = if_nametoindex(text);
	char name[IF_NAMESIZE];
	long number;

	if (!index && !parse_long(text, 1, INT_MAX, "scope", &number, NULL) &&
	    if_indextoname((unsigned)number, name))
		index = (uint32_t)number;
	return index;
}

int sock_addr_scoped_number(const char *host, uint16_t port,
			    struct sock_addr *out)
{
	const char *scope = strchr(host, '%');
	char text[SOCK_HOST_MAX];
	uint32_t index;

	if (!scope)
		return sock_addr_number(host, port, out);
	snprintf(text, sizeof(text), "%s", host);
	if (!sock_addr_number(sock_host_unscope(text), port, out) ||
	    !sock_addr_is_link_local(out))
		return 0;
	index = sock_scope_parse(scope + 1);
	((struct sockaddr_in6 *)&out->ss)->sin6_scope_id = index;
	return index != 0;
}

/* Refuses a link-local address without an interface, or with an interface that
 * this host does not have. */
static int sock_check_scope(const char *host, struct err *e)
{
	const char *scope = strchr(host, '%');
	char text[SOCK_HOST_MAX];
	struct sock_addr a;

	snprintf(text, sizeof(text), "%s", host);
	if (!sock_addr_number(sock_host_unscope(text), 0, &a) ||
	    !sock_addr_is_link_local(&a))
		return 0;
	if (!scope)
		return err_set(e, ERR_USAGE,
			       "%s is a link-local address, "
			       "valid on one interface only: append this "
			       "host's interface, as in %s%%eth0",
			       text, text);
	if (!sock_scope_parse(scope + 1))
		return err_set(e, ERR_USAGE,
			       "'%s': this host has no interface "
			       "'%s': after the %% of a link-local address "
			       "give an interface of this host",
			       host, scope + 1);
	return 0;
}

static int sock_add_family(const struct addrinfo *list, int family,
			   struct sock_addr *out, int n, int max, uint16_t port)
{
	for (const struct addrinfo *p = list; p && n < max; p = p->ai_next) {
		if (p->ai_family != family)
			continue;
		memset(&out[n], 0, sizeof(out[n]));
		memcpy(&out[n].ss, p->ai_addr, p->ai_addrlen);
		out[n].len = p->ai_addrlen;
		sock_addr_set_port(&out[n], port);
		n++;
	}
	return n;
}

int sock_resolve(const struct endpoint *ep, struct sock_addr *out, int max,
		 struct err *e)
{
	const struct addrinfo hints = {
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
	};
	struct addrinfo *list;
	int rc, n;

	if (max < 1)
		return err_set(e, ERR_ARGUMENT, "sock_resolve: no room");
	rc = sock_check_scope(ep->host, e);
	if (rc < 0)
		return rc;
	/* skip the resolver for numbers: it would cost a launch milliseconds */
	if (sock_addr_scoped_number(ep->host, ep->port, out))
		return 1;
	/* RFC 6761: "localhost" is loopback whatever a resolver says */
	if (strcmp(ep->host, "localhost") == 0)
		return sock_addr_number("127.0.0.1", ep->port, out);
	rc = getaddrinfo(ep->host, NULL, &hints, &list);
	if (rc)
		return err_set(e, ERR_USAGE,
			       "host '%s' does not resolve: %s; check the "
			       "name, or give an address instead", ep->host,
			       rc == EAI_SYSTEM ? strerror(errno)
						: gai_strerror(rc));
	n = sock_add_family(list, AF_INET, out, 0, max, ep->port);
	n = sock_add_family(list, AF_INET6, out, n, max, ep->port);
	freeaddrinfo(list);
	if (n == 0)
		return err_set(e, ERR_USAGE, "host '%s' has no IPv4 or IPv6 "
			       "address", ep->host);
	return n;
}

int sock_addr_is_any(const struct sock_addr *a)
{
	if (a->ss.ss_family == AF_INET)
		return sock_addr4(a) == INADDR_ANY;
	return IN6_IS_ADDR_UNSPECIFIED(sock_addr6(a));
}

int sock_addr_is_local(const struct sock_addr *a)
{
	struct ifaddrs *list;
	int found = 0;

	if (sock_addr_is_loopback(a) || sock_addr_is_any(a))
		return 1;
	if (getifaddrs(&list) < 0)
		return 0;
	for (struct ifaddrs *p = list; p && !found; p = p->ifa_next) {
		struct sock_addr own = {.len = 0};

		if (!p->ifa_addr || p->ifa_addr->sa_family != a->ss.ss_family)
			continue;
		memcpy(&own.ss, p->ifa_addr,
		       a->ss.ss_family == AF_INET
			       ? sizeof(struct sockaddr_in)
			       : sizeof(struct sockaddr_in6));
		found = sock_addr_compare(a, &own) == 0;
	}
	freeifaddrs(list);
	return found;
}

int sock_addr_towards(const struct sock_addr *peer, struct sock_addr *own)
{
	struct sock_addr to = *peer;
	int fd = socket(to.ss.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int rc = fd < 0 ? -errno : 0;

	if (!sock_addr_port(&to))
		sock_addr_set_port(&to, 9); /* any port but 0 */
	own->len = sizeof(own->ss);
	if (rc == 0 &&
	    (connect(fd, (struct sockaddr *)&to.ss, to.len) < 0 ||
	     getsockname(fd, (struct sockaddr *)&own->ss, &own->len) < 0))
		rc = -errno;
	if (fd >= 0)
		close(fd);
	if (rc == 0)
		sock_addr_set_port(own, 0);
	return rc;
}

void sock_set_silence_limit(int fd, uint64_t ms)
{
	/* probe after half of the time, then after each sixth of it */
	unsigned limit = ms < INT_MAX ? (unsigned)ms : INT_MAX;
	int on = 1, idle = (int)(limit / 2000), every = (int)(limit / 6000);

	idle = idle < 1 ? 1 : idle > 32767 ? 32767 : idle;
	every = every < 1 ? 1 : every > 32767 ? 32767 : every;
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof(every));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

int sock_is_stalled(int fd)
{
	struct tcp_info info = {.tcpi_retransmits = 0};
	socklen_t len = sizeof(info);

	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 &&
	       info.tcpi_retransmits > 0;
}

void sock_reset_at_close(int fd)
{
	struct linger none = {.l_onoff = 1, .l_linger = 0};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
}

int sock_listen(struct sock_addr *a, struct err *e)
{
	char text[SOCK_TEXT_MAX];
	const char *step = "socket";
	int on = 1, rc;
	int fd = socket(a->ss.ss_family,
			SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		goto fail;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	step = "bind";
	if (bind(fd, (struct sockaddr *)&a->ss, a->len) < 0)
		goto fail;
	step = "listen";
	if (listen(fd, SOMAXCONN) < 0)
		goto fail;
	step = "getsockname";
	a->len = sizeof(a->ss);
	if (getsockname(fd, (struct sockaddr *)&a->ss, &a->len) < 0)
		goto fail;
	return fd;
fail:
	rc = -errno;
	if (fd >= 0)
		close(fd);
	return err_set(e, rc, "cannot listen on %s: %s: %s",
		       sock_addr_text(a, text), step, strerror(-rc));
}

static int sock_listen_one_port(struct sock_addr *a, int n, int *fds,
				struct err *e)
{
	for (int i = 0; i < n; i++) {
		int rc;

		sock_addr_set_port(&a[i], sock_addr_port(&a[0]));
		rc = fds[i] = sock_listen(&a[i], e);
		if (rc >= 0)
			continue;
		while (i-- > 0)
			close(fds[i]);
		return rc;
	}
	return 0;
}

int sock_listen_all(struct sock_addr *a, int n, int *fds, struct err *e)
{
	enum { TRIES = 16 }; /* a port may be free at one address only */
	uint16_t port = sock_addr_port(&a[0]);
	int rc = -EADDRINUSE;

	for (int i = 0; i < TRIES && rc == -EADDRINUSE && (!i || !port); i++) {
		sock_addr_set_port(&a[0], port);
		rc = sock_listen_one_port(a, n, fds, e);
	}
	return rc;
}

int sock_reserve_port(uint16_t *port, struct err *e)
{
	struct sock_addr a = {.len = sizeof(struct sockaddr_in)};
	int on = 1, rc;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	((struct sockaddr_in *)&a.ss)->sin_family = AF_INET;
	if (fd < 0)
		goto fail;
	if (bind(fd, (struct sockaddr *)&a.ss, a.len) < 0)
		goto fail;
	/* Only after the bind: with SO_REUSEADDR set, the kernel may pick a
	 * port that another reservation holds. */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
		goto fail;
	a.len = sizeof(a.ss);
	if (getsockname(fd, (struct sockaddr *)&a.ss, &a.len) < 0)
		goto fail;
	*port = sock_addr_port(&a);
	return fd;
fail:
	rc = -errno;
	if (fd >= 0)
		close(fd);
	return err_set(e, rc, "cannot reserve a port for the workers: %s",
		       strerror(-rc));
}

/* Waits until a non-blocking connect is done; 0 or -errno. */
static int sock_wait_connected(int fd, int timeout_ms)
{
	uint64_t end = clock_ms() + (uint64_t)(timeout_ms < 0 ? 0 : timeout_ms);
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	socklen_t len = sizeof(int);
	int code = 0, n;

	do {
		uint64_t now = clock_ms();
		int left = now < end ? (int)(end - now) : 0;

		n = poll(&p, 1, timeout_ms < 0 ? -1 : left);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (n == 0)
		return -ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &len) < 0)
		return -errno;
	return -code;
}

int sock_is_self_connected(int fd)
{
	struct sock_addr own, peer;

	own.len = peer.len = sizeof(own.ss);
	if (getsockname(fd, (struct sockaddr *)&own.ss, &own.len) < 0 ||
	    getpeername(fd, (struct sockaddr *)&peer.ss, &peer.len) < 0 ||
	    sock_addr_port(&own) != sock_addr_port(&peer) ||
	    sock_addr_compare(&own, &peer) != 0)
		return 0;
	/* TIME_WAIT would block the port for a minute, for the server too */
	sock_reset_at_close(fd);
	return 1;
}

int sock_begin_connect(const struct sock_addr *a)
{
	int fd = socket(a->ss.ss_family,
			SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), rc;

	if (fd < 0)
		return -errno;
	if (!connect(fd, (const struct sockaddr *)&a->ss, a->len) ||
	    errno == EINPROGRESS)
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

int sock_connect(const struct sock_addr *a, int timeout_ms, struct err *e)
{
	char text[SOCK_TEXT_MAX];
	int on = 1, rc, flags;
	int fd = socket(a->ss.ss_family,
			SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return err_set(e, -errno, "cannot create a socket: %s",
			       strerror(errno));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	rc = connect(fd, (const struct sockaddr *)&a->ss, a->len) < 0 ? -errno
								      : 0;
	if (rc == -EINPROGRESS || rc == -EINTR)
		rc = sock_wait_connected(fd, timeout_ms);
	if (rc == 0 && sock_is_self_connected(fd))
		rc = -ECONNREFUSED;
	flags = rc == 0 ? fcntl(fd, F_GETFL) : 0;
	if (rc == 0 && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0)
		rc = -errno;
	if (rc == 0)
		return fd;
	close(fd);
	return err_set(e, rc, "cannot connect to %s: %s",
		       sock_addr_text(a, text), strerror(-rc));
}

void sock_host_name(char *out)
{
	/* gethostname may cut the name without ending it */
	out[SOCK_HOST_MAX - 1] = '\0';
	if (gethostname(out, SOCK_HOST_MAX - 1) < 0)
		snprintf(out, SOCK_HOST_MAX, "localhost");
}
