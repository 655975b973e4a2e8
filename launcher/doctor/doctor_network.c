/* doctor_network.c: asks the resolver and the kernel. Sends nothing. */
#include <glob.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "launcher/doctor/doctor_internal.h"

enum { PATH_LEN = 320, ADDRS_MAX = 512, MEMLOCK_MIN = 64 << 20 };

/* ---- this host's name ---- */

static int doctor_network_is_loopback(const struct sockaddr *a)
{
	const struct sockaddr_in *v4 = (const void *)a;
	const struct sockaddr_in6 *v6 = (const void *)a;

	if (a->sa_family == AF_INET)
		return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
	return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

static void doctor_network_name(struct buf *b, const struct doctor_options *o)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	int several = o->nodes != 1, loopback = 1, rc;
	char name[256] = "", addr[NI_MAXHOST] = "";
	struct addrinfo *list = NULL;

	gethostname(name, sizeof(name) - 1);
	rc = getaddrinfo(name, NULL, &hints, &list);
	if (rc) {
		doctor_put(b, several ? DOCTOR_WARNING : DOCTOR_FINE, "name",
			   several ? "add this host to /etc/hosts or DNS on "
				     "all hosts, or give --local-addr"
				   : NULL,
			   "%s, which does not resolve: %s", name,
			   gai_strerror(rc));
		return;
	}
	for (struct addrinfo *a = list; a; a = a->ai_next) {
		if (a != list && doctor_network_is_loopback(a->ai_addr))
			continue;
		getnameinfo(a->ai_addr, a->ai_addrlen, addr, sizeof(addr),
			    NULL, 0, NI_NUMERICHOST);
		loopback = doctor_network_is_loopback(a->ai_addr);
		if (!loopback)
			break;
	}
	freeaddrinfo(list);
	doctor_put(b, DOCTOR_FINE, "name", NULL, "%s is %s%s", name, addr,
		   loopback ? ", which other hosts cannot reach; ddprun takes "
			      "the address of an interface" : "");
}

/* ---- interfaces ---- */

static void doctor_network_addrs(const struct ifaddrs *list, const char *name,
				 char out[ADDRS_MAX])
{
	size_t n = 0;

	out[0] = '\0';
	for (const struct ifaddrs *a = list; a; a = a->ifa_next) {
		char text[NI_MAXHOST];
		int family = a->ifa_addr ? a->ifa_addr->sa_family : 0;

		if ((family != AF_INET && family != AF_INET6) ||
		    strcmp(a->ifa_name, name) != 0 ||
		    getnameinfo(a->ifa_addr,
				family == AF_INET ? sizeof(struct sockaddr_in)
						  : sizeof(struct sockaddr_in6),
				text, sizeof(text), NULL, 0, NI_NUMERICHOST))
			continue;
		if (n + strlen(text) + 3 < ADDRS_MAX)
			n += (size_t)snprintf(out + n, ADDRS_MAX - n, ", %s",
					      text);
	}
}

static const char *doctor_network_fact(const char *name, const char *fact,
				       char out[DOCTOR_LINE_MAX])
{
	char path[PATH_LEN];

	snprintf(path, sizeof(path), "/sys/class/net/%s/%s", name, fact);
	return doctor_read_line(path, out);
}

static void doctor_network_interface(struct buf *b, const char *name,
				     const struct ifaddrs *addrs)
{
	char state[DOCTOR_LINE_MAX], speed[DOCTOR_LINE_MAX];
	char mtu[DOCTOR_LINE_MAX], list[ADDRS_MAX], rate[DOCTOR_LINE_MAX + 16];
	long mbit = strtol(doctor_network_fact(name, "speed", speed), NULL, 10);

	doctor_network_fact(name, "operstate", state);
	doctor_network_fact(name, "mtu", mtu);
	doctor_network_addrs(addrs, name, list);
	rate[0] = '\0';
	if (mbit > 0)
		snprintf(rate, sizeof(rate), ", %ld Mbit/s", mbit);
	doctor_put(b, DOCTOR_FINE, name, NULL, "%s%s, MTU %s%s",
		   strcmp(state, "unknown") == 0 ? "up" : state, rate, mtu,
		   list[0] ? list : ", no address");
}

/* Interfaces with an address, or which belong to a device; not those that each
 * container or virtual machine of this host has. */
static int doctor_network_is_shown(const char *name,
				   const struct ifaddrs *addrs)
{
	char path[PATH_LEN], list[ADDRS_MAX];

	snprintf(path, sizeof(path), "/sys/class/net/%s/device", name);
	doctor_network_addrs(addrs, name, list);
	return access(path, F_OK) == 0 ||
	       (list[0] && strncmp(name, "veth", 4) != 0);
}

static void doctor_network_interfaces(struct buf *b)
{
	struct if_nameindex *names = if_nameindex();
	struct ifaddrs *addrs = NULL;

	getifaddrs(&addrs);
	for (struct if_nameindex *i = names; i && i->if_index; i++) {
		if (doctor_network_is_shown(i->if_name, addrs))
			doctor_network_interface(b, i->if_name, addrs);
	}
	freeifaddrs(addrs);
	if_freenameindex(names);
}

/* ---- InfiniBand ---- */

/* folder: /sys/class/infiniband/DEVICE/ports/N */
static void doctor_network_port(struct buf *b, const char *folder)
{
	char state[DOCTOR_LINE_MAX], rate[DOCTOR_LINE_MAX];
	char link[DOCTOR_LINE_MAX], path[PATH_LEN], device[PATH_LEN];
	const char *name = folder + sizeof("/sys/class/infiniband/") - 1;
	int is_down;

	snprintf(path, sizeof(path), "%s/state", folder);
	doctor_read_line(path, state);
	snprintf(path, sizeof(path), "%s/rate", folder);
	doctor_read_line(path, rate);
	snprintf(path, sizeof(path), "%s/link_layer", folder);
	doctor_read_line(path, link);
	is_down = !strstr(state, "ACTIVE");
	snprintf(device, sizeof(device), "%.*s", (int)strcspn(name, "/"), name);
	doctor_put(b, is_down ? DOCTOR_WARNING : DOCTOR_FINE, device,
		   is_down ? "a port that the job needs must be ACTIVE: see "
			     "to the cable, the switch and, for InfiniBand, "
			     "the subnet manager (ibstat)"
			   : NULL,
		   "port %s %s, %s, %s", strrchr(folder, '/') + 1, state, rate,
		   link);
}

static void doctor_network_infiniband(struct buf *b)
{
	struct rlimit locked;
	glob_t ports;

	if (glob("/sys/class/infiniband/*/ports/[0-9]*", 0, NULL, &ports) != 0)
		return;
	for (size_t i = 0; i < ports.gl_pathc; i++)
		doctor_network_port(b, ports.gl_pathv[i]);
	globfree(&ports);
	getrlimit(RLIMIT_MEMLOCK, &locked);
	if (locked.rlim_max < MEMLOCK_MIN)
		doctor_put(b, DOCTOR_WARNING, "locked memory",
			   "RDMA needs more: ulimit -l unlimited, docker run "
			   "--ulimit memlock=-1, or LimitMEMLOCK=infinity of "
			   "slurmd", "%llu KiB",
			   (unsigned long long)locked.rlim_max / 1024);
}

void doctor_probe_network(struct buf *b, const struct doctor_options *o)
{
	doctor_network_name(b, o);
	doctor_network_interfaces(b);
	doctor_network_infiniband(b);
}
