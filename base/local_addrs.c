/* local_addrs.c: getifaddrs, the resolver, and a UDP socket that is connected
 * but never sends. */
#include "base/local_addrs.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/buf.h"

enum { NAMES_MAX = 8, ADDRS_MAX = 16 };

int local_addr_towards(const struct endpoint *to, char *out, struct err *e)
{
	struct sock_addr there[NAMES_MAX], here;
	int n = sock_resolve(to, there, NAMES_MAX, e), fd, rc = -EADDRNOTAVAIL;

	if (n < 0)
		return n;
	for (int i = 0; i < n && rc; i++) {
		fd = socket(there[i].ss.ss_family, SOCK_DGRAM | SOCK_CLOEXEC,
			    0);
		here.len = sizeof(here.ss);
		rc = fd < 0 ||
				     connect(fd,
					     (struct sockaddr *)&there[i].ss,
					     there[i].len) ||
				     getsockname(fd,
						 (struct sockaddr *)&here.ss,
						 &here.len)
			     ? -errno
			     : 0;
		if (fd >= 0)
			close(fd);
	}
	if (rc)
		return err_set(e, rc, "no address of this host reaches %s: %s",
			       to->host, strerror(-rc));
	sock_addr_scoped(&here, out);
	return 0;
}

struct list {
	char (*out)[SOCK_TEXT_MAX];
	int n, max;
};

static void local_addrs_add(struct list *l, const struct sock_addr *a)
{
	char text[SOCK_TEXT_MAX];

	if (l->n == l->max || sock_addr_is_loopback(a))
		return;
	sock_addr_host(a, text);
	for (int i = 0; i < l->n; i++)
		if (!strcmp(l->out[i], text))
			return;
	memcpy(l->out[l->n++], text, sizeof(text));
}

static int interface_is_virtual(const char *name)
{
	static const char *const starts[] = {"docker", "virbr", "br-",	 "veth",
					     "cni",    "lxc",	"podman"};

	for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++)
		if (!strncmp(name, starts[i], strlen(starts[i])))
			return 1;
	return 0;
}

static void local_addrs_add_interfaces(struct list *l,
				       const struct ifaddrs *all, int family,
				       int virtual)
{
	struct sock_addr a;

	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != family ||
		    !(i->ifa_flags & IFF_UP) ||
		    interface_is_virtual(i->ifa_name) != virtual)
			continue;
		a.len = family == AF_INET ? sizeof(struct sockaddr_in)
					  : sizeof(struct sockaddr_in6);
		memcpy(&a.ss, i->ifa_addr, a.len);
		/* a link-local address means nothing on another host */
		if (family == AF_INET6 &&
		    IN6_IS_ADDR_LINKLOCAL(
			    &((struct sockaddr_in6 *)&a.ss)->sin6_addr))
			continue;
		local_addrs_add(l, &a);
	}
}

int local_addrs(char (*out)[SOCK_TEXT_MAX], int max)
{
	struct list l = {out, 0, max};
	struct endpoint self = {.port = 0};
	struct sock_addr named[NAMES_MAX];
	struct ifaddrs *all;
	int n;

	sock_host_name(self.host);
	n = sock_resolve(&self, named, NAMES_MAX, NULL);
	for (int i = 0; i < n; i++)
		if (sock_addr_is_local(&named[i]))
			local_addrs_add(&l, &named[i]);
	if (getifaddrs(&all))
		return l.n;
	for (int virtual = 0; virtual < 2; virtual ++) {
		local_addrs_add_interfaces(&l, all, AF_INET, virtual);
		local_addrs_add_interfaces(&l, all, AF_INET6, virtual);
	}
	freeifaddrs(all);
	return l.n;
}

int local_addrs_external(struct sock_addr *out, int max)
{
	char texts[ADDRS_MAX][SOCK_TEXT_MAX];
	struct ifaddrs *all;
	struct list l = {texts, 0, ADDRS_MAX};
	int n = 0;

	if (getifaddrs(&all))
		return 0;
	for (int virtual = 0; virtual < 2 && !l.n; virtual ++) {
		local_addrs_add_interfaces(&l, all, AF_INET, virtual);
		local_addrs_add_interfaces(&l, all, AF_INET6, virtual);
	}
	freeifaddrs(all);
	for (int i = 0; i < l.n && n < max; i++)
		n += sock_addr_number(texts[i], 0, &out[n]);
	return n;
}

int local_addrs_of(const struct endpoint *at, struct sock_addr *out, int max,
		   struct err *e)
{
	struct sock_addr named[NAMES_MAX], more[ADDRS_MAX];
	int named_n = sock_resolve(at, named, NAMES_MAX, e), n = 0, k = 0;

	if (named_n < 0)
		return named_n;
	for (int i = 0; i < named_n; i++)
		if (sock_addr_is_local(&named[i]))
			n = sock_addr_add(out, n, max, &named[i]);
	if (n && sock_addr_is_loopback(&out[0]) &&
	    !sock_addr_number(at->host, 0, &more[0]) &&
	    strcmp(at->host, "localhost") != 0) {
		k = sock_addr_number("127.0.0.1", 0, &more[0]);
		k += local_addrs_external(more + k, ADDRS_MAX - k);
	}
	for (int i = 0; i < k; i++)
		n = sock_addr_add(out, n, max, &more[i]);
	for (int i = 0; i < n; i++)
		sock_addr_set_port(&out[i], at->port);
	return n;
}

/* "10.0.0.0/8": 1 with its address and bits, or 0 if it is not a network. */
static int network_parse(const char *what, struct sock_addr *net, long *bits)
{
	const char *slash = strchr(what, '/');
	char host[SOCK_HOST_MAX];
	char *end;

	if (!slash || slash - what >= SOCK_HOST_MAX)
		return 0;
	snprintf(host, sizeof(host), "%.*s", (int)(slash - what), what);
	*bits = strtol(slash + 1, &end, 10);
	return sock_addr_number(host, 0, net) && end > slash + 1 && !*end &&
	       *bits >= 0 && *bits <= (net->ss.ss_family == AF_INET ? 32 : 128);
}

static const unsigned char *local_addr_bytes(const struct sock_addr *a)
{
	return a->ss.ss_family == AF_INET
		       ? (const unsigned char *)&(
				 (const struct sockaddr_in *)&a->ss)
				 ->sin_addr
		       : ((const struct sockaddr_in6 *)&a->ss)
				 ->sin6_addr.s6_addr;
}

static int network_contains(const struct sock_addr *a,
			    const struct sock_addr *net, long bits)
{
	const unsigned char *x = local_addr_bytes(a),
			    *y = local_addr_bytes(net);

	if (a->ss.ss_family != net->ss.ss_family ||
	    memcmp(x, y, (size_t)bits / 8))
		return 0;
	x += bits / 8;
	y += bits / 8;
	return bits % 8 == 0 || !((*x ^ *y) >> (8 - bits % 8));
}

/* How well this interface matches `what`: 1 is best, 0: it does not match. */
static int interface_match(const struct ifaddrs *i, const char *what,
			   int is_net, const struct sock_addr *net, long bits,
			   struct sock_addr *a)
{
	int v4 = i->ifa_addr && i->ifa_addr->sa_family == AF_INET, rank = 1;

	if (!i->ifa_addr || (!v4 && i->ifa_addr->sa_family != AF_INET6))
		return 0;
	memset(a, 0, sizeof(*a));
	a->len = v4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	memcpy(&a->ss, i->ifa_addr, a->len);
	if (is_net)
		return network_contains(a, net, bits);
	if (strncmp(i->ifa_name, what, strlen(what)) != 0)
		return 0;
	if (strcmp(i->ifa_name, what) != 0)
		rank += 3;
	if (!v4)
		rank += IN6_IS_ADDR_LINKLOCAL(
				&((struct sockaddr_in6 *)&a->ss)->sin6_addr)
				? 2
				: 1;
	return rank;
}

static int interface_refuse(const char *what, const struct ifaddrs *all,
			    struct err *e)
{
	struct buf names = BUF_INIT(ERR_TEXT_MAX / 2);
	char text[SOCK_TEXT_MAX];
	struct sock_addr a;
	int rc;

	for (const struct ifaddrs *i = all; i; i = i->ifa_next)
		if (interface_match(i, "", 0, NULL, 0, &a))
			buf_printf(&names, "%s%s (%s)", names.len ? ", " : "",
				   i->ifa_name, sock_addr_scoped(&a, text));
	rc = err_set(e, ERR_USAGE,
		     "--interface '%.100s': no interface of this host has this "
		     "name, this prefix or this network; it has %s",
		     what, names.failed || !names.len ? "others" : names.data);
	buf_release(&names);
	return rc;
}

int local_addr_on(const char *what, char *out, struct err *e)
{
	struct sock_addr net, a, best;
	struct ifaddrs *all;
	long bits = 0;
	int is_net = network_parse(what, &net, &bits), least = 0, rank, rc = 0;

	if (getifaddrs(&all))
		return err_set(e, -errno,
			       "cannot list this host's "
			       "interfaces: %s",
			       strerror(errno));
	for (const struct ifaddrs *i = all; i && *what; i = i->ifa_next) {
		rank = interface_match(i, what, is_net, &net, bits, &a);
		if (rank && (!least || rank < least)) {
			least = rank;
			best = a;
		}
	}
	if (least)
		sock_addr_scoped(&best, out);
	else
		rc = interface_refuse(what, all, e);
	freeifaddrs(all);
	return rc;
}

int local_addrs_all(struct sock_addr *out, int max)
{
	struct ifaddrs *all;
	int n = 0;

	if (getifaddrs(&all))
		return 0;
	for (const struct ifaddrs *i = all; i && n < max; i = i->ifa_next) {
		struct sock_addr a = {.len = sizeof(struct sockaddr_in)};

		if (!i->ifa_addr || (i->ifa_addr->sa_family != AF_INET &&
				     i->ifa_addr->sa_family != AF_INET6))
			continue;
		if (i->ifa_addr->sa_family == AF_INET6)
			a.len = sizeof(struct sockaddr_in6);
		memcpy(&a.ss, i->ifa_addr, a.len);
		if (!sock_addr_is_loopback(&a))
			n = sock_addr_add(out, n, max, &a);
	}
	freeifaddrs(all);
	return n;
}

/* Debian maps a host's own name to 127.0.1.1, which names no interface. If all
 * addresses that others can use belong to one interface, it is that one. */
static int interface_only(char *out)
{
	char addrs[ADDRS_MAX][SOCK_TEXT_MAX], other[IF_NAMESIZE];
	int n = local_addrs(addrs, ADDRS_MAX), rc = n ? 0 : -EADDRNOTAVAIL;

	for (int i = 0; i < n && rc == 0; i++) {
		rc = local_addr_interface(addrs[i], i ? other : out);
		if (rc == 0 && i && strcmp(other, out) != 0)
			rc = -ENOTUNIQ;
	}
	return rc;
}

static int endpoint_is_number(const struct endpoint *ep)
{
	return strchr(ep->host, ':') ||
	       ep->host[strspn(ep->host, "0123456789.")] == '\0';
}

int local_addr_interface(const char *host, char *out)
{
	struct endpoint ep = {.port = 0};
	struct sock_addr want, a;
	struct ifaddrs *all;
	int found = 0, loop;

	snprintf(ep.host, sizeof(ep.host), "%s", host);
	if (sock_resolve(&ep, &want, 1, NULL) < 1)
		return -EADDRNOTAVAIL;
	loop = sock_addr_is_loopback(&want);
	if (loop && !endpoint_is_number(&ep) && strcmp(host, "localhost") != 0)
		return interface_only(out);
	if (getifaddrs(&all))
		return -EADDRNOTAVAIL;
	for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != want.ss.ss_family)
			continue;
		memcpy(&a.ss, i->ifa_addr, want.len);
		found = sock_addr_compare(&a, &want) == 0 ||
			(loop && (i->ifa_flags & IFF_LOOPBACK));
		if (found)
			snprintf(out, IF_NAMESIZE, "%s", i->ifa_name);
	}
	freeifaddrs(all);
	return found ? 0 : -EADDRNOTAVAIL;
}

/* The first name in the line of /etc/hosts, or in DNS; "" if unknown. */
static char *local_name_canonical(const char *name, char *out)
{
	const struct addrinfo hints = {.ai_flags = AI_CANONNAME,
				       .ai_socktype = SOCK_STREAM};
	struct addrinfo *list;

	*out = '\0';
	if (getaddrinfo(name, NULL, &hints, &list))
		return out;
	if (list->ai_canonname)
		snprintf(out, SOCK_HOST_MAX, "%s", list->ai_canonname);
	freeaddrinfo(list);
	return out;
}

/* As far as the shorter one goes: "h1" is "h1.example". */
static int local_name_is_same(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b), least = n < m ? n : m;

	return least && strncasecmp(a, b, least) == 0 &&
	       (!a[least] || a[least] == '.') && (!b[least] || b[least] == '.');
}

int local_name_is_own(const char *name)
{
	char own[SOCK_HOST_MAX], theirs[SOCK_HOST_MAX];
	struct sock_addr a;

	sock_host_name(own);
	if (sock_addr_scoped_number(name, 0, &a) ||
	    local_name_is_same(name, "localhost") ||
	    local_name_is_same(name, own))
		return 1;
	local_name_canonical(name, theirs);
	return local_name_is_same(theirs, "localhost") ||
	       local_name_is_same(theirs, own) ||
	       local_name_is_same(theirs, local_name_canonical(own, own));
}
