/* socket_owner.c: asks sock_diag(7), then /proc/net/tcp. Both report the user
 * that created a socket while a process has it open. For a closed or closing
 * socket both report user 0 and inode 0, which means: unknown. */
#include "launcher/worker/socket_owner.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/worker/proc_tcp.h"

enum { REPLY_MAX = 4096 };

static void socket_put_addr(const struct sock_addr *a, void *raw)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&a->ss;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&a->ss;

	if (a->ss.ss_family == AF_INET)
		memcpy(raw, &v4->sin_addr, sizeof(v4->sin_addr));
	else
		memcpy(raw, &v6->sin6_addr, sizeof(v6->sin6_addr));
}

static void socket_get_addr(struct sock_addr *a, int family, const void *raw,
			    uint16_t port)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)&a->ss;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&a->ss;

	memset(a, 0, sizeof(*a));
	a->ss.ss_family = (sa_family_t)family;
	if (family == AF_INET)
		memcpy(&v4->sin_addr, raw, sizeof(v4->sin_addr));
	else
		memcpy(&v6->sin6_addr, raw, sizeof(v6->sin6_addr));
	sock_addr_set_port(a, ntohs(port));
	sock_addr_unmap(a);
}

static int socket_is_same(const struct sock_addr *a, const struct sock_addr *b)
{
	return sock_addr_compare(a, b) == 0 &&
	       sock_addr_port(a) == sock_addr_port(b);
}

static int socket_describe(unsigned state, uint64_t inode, uint32_t uid,
			   struct socket_whose *whose)
{
	if (state == PROC_TCP_LISTEN)
		return SOCKET_NONE;
	if (!inode)
		return SOCKET_CLOSED;
	*whose = (struct socket_whose){.uid = uid, .inode = inode};
	return SOCKET_OWNED;
}

/* ---- sock_diag ---- */

/* Sends one request; the reply is ready when send returns. */
static ssize_t socket_exchange(const void *question, size_t size, char *reply)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	ssize_t n = fd < 0 ? -1 : send(fd, question, size, 0);

	if (n >= 0)
		n = recv(fd, reply, REPLY_MAX, MSG_DONTWAIT);
	if (n < 0)
		n = err_negative(-errno);
	if (fd >= 0)
		close(fd);
	return n;
}

static int socket_parse_reply(const char *reply, size_t n,
			      const struct sock_addr *own,
			      const struct sock_addr *peer,
			      struct socket_whose *whose)
{
	const struct nlmsghdr *h = (const struct nlmsghdr *)reply;
	const struct inet_diag_msg *m;
	const struct nlmsgerr *error;
	struct sock_addr there, here;

	if (n < sizeof(*h) || h->nlmsg_len > n)
		return -EPROTO;
	if (h->nlmsg_type == NLMSG_ERROR) {
		error = NLMSG_DATA(h);
		return h->nlmsg_len < NLMSG_LENGTH(sizeof(*error)) ||
				       !error->error
			       ? -EPROTO
			       : error->error;
	}
	m = NLMSG_DATA(h);
	if (h->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
	    h->nlmsg_len < NLMSG_LENGTH(sizeof(*m)))
		return -EPROTO;
	socket_get_addr(&here, m->idiag_family, m->id.idiag_src,
			m->id.idiag_sport);
	socket_get_addr(&there, m->idiag_family, m->id.idiag_dst,
			m->id.idiag_dport);
	/* if there is no connection the kernel reports the listener */
	if (!socket_is_same(&here, own) || !socket_is_same(&there, peer))
		return SOCKET_NONE;
	return socket_describe(m->idiag_state, m->idiag_inode, m->idiag_uid,
			       whose);
}

/* -ENOENT: no such socket, or this kernel has no TCP diagnosis. */
static int socket_query_diag(const struct sock_addr *own,
			     const struct sock_addr *peer,
			     struct socket_whose *whose)
{
	struct {
		struct nlmsghdr h;
		struct inet_diag_req_v2 r;
	} q = {
		.h = {.nlmsg_len = sizeof(q),
		      .nlmsg_type = SOCK_DIAG_BY_FAMILY,
		      .nlmsg_flags = NLM_F_REQUEST},
		.r = {.sdiag_family = (uint8_t)own->ss.ss_family,
		      .sdiag_protocol = IPPROTO_TCP,
		      .idiag_states = UINT32_MAX,
		      .id = {.idiag_sport = htons(sock_addr_port(own)),
			     .idiag_dport = htons(sock_addr_port(peer)),
			     .idiag_cookie = {INET_DIAG_NOCOOKIE,
					      INET_DIAG_NOCOOKIE}}},
	};
	_Alignas(struct nlmsghdr) char reply[REPLY_MAX];
	ssize_t n;

	socket_put_addr(own, q.r.id.idiag_src);
	socket_put_addr(peer, q.r.id.idiag_dst);
	n = socket_exchange(&q, sizeof(q), reply);
	return n < 0 ? (int)n : socket_parse_reply(reply, (size_t)n, own, peer,
				       whose);
}

/* ---- /proc ---- */

static int socket_search_table(const char *path, const struct sock_addr *own,
			       const struct sock_addr *peer,
			       struct socket_whose *whose)
{
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;
	ssize_t n;
	struct proc_tcp s;
	int rc = SOCKET_NONE;

	if (!f)
		return -errno;
	while (rc == SOCKET_NONE && (n = getline(&line, &room, f)) > 0) {
		if (proc_tcp_parse(SLICE(line, (size_t)n), &s) &&
		    socket_is_same(&s.own, own) &&
		    socket_is_same(&s.peer, peer))
			rc = socket_describe(s.state, s.inode, s.uid, whose);
	}
	free(line);
	fclose(f);
	return rc;
}

/* Searches tcp6 too: an IPv6 socket may have an IPv4 connection. */
static int socket_search_tables(const struct sock_addr *own,
				const struct sock_addr *peer,
				struct socket_whose *whose)
{
	int rc = -ENOENT, v6;

	if (own->ss.ss_family == AF_INET)
		rc = socket_search_table("/proc/self/net/tcp", own, peer,
					 whose);
	if (rc == SOCKET_OWNED || rc == SOCKET_CLOSED)
		return rc;
	v6 = socket_search_table("/proc/self/net/tcp6", own, peer, whose);
	return v6 < 0 && rc >= 0 ? rc : v6;
}

/* 1 if sock_diag works. The kernel reports a missing socket and missing
 * diagnosis by the same error, so this asks once about a socket that exists. */
static int socket_has_diag(struct socket_finder *f)
{
	struct sock_addr own, any;
	struct socket_whose whose;
	int fd;

	if (f->tried || f->no_diag)
		return !f->no_diag;
	f->tried = 1;
	sock_addr_number("127.0.0.1", 0, &own);
	sock_addr_number("127.0.0.1", 9, &any);
	fd = sock_listen(&own, NULL);
	/* it reports the listener, which is not the connection asked for */
	f->no_diag =
		fd < 0 || socket_query_diag(&own, &any, &whose) != SOCKET_NONE;
	if (fd >= 0)
		close(fd);
	return !f->no_diag;
}

int socket_owner(struct socket_finder *f, const struct sock_addr *own,
		 const struct sock_addr *peer, struct socket_whose *whose,
		 struct err *e)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&own->ss;
	/* a link-local address also needs its interface, which we lack */
	int link_local = own->ss.ss_family == AF_INET6 &&
			 IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr);
	int rc = -ENOENT;

	if (!link_local && socket_has_diag(f)) {
		rc = socket_query_diag(own, peer, whose);
		if (rc >= 0 || rc == -ENOENT)
			return rc < 0 ? SOCKET_NONE : rc;
	}
	rc = socket_search_tables(own, peer, whose);
	if (rc < 0)
		return err_set(e, rc, "neither sock_diag nor /proc/net/tcp can "
			       "be asked here: %s", strerror(-rc));
	return rc;
}

/* ---- the process that has a socket open ---- */

enum { DEPTH_MAX = 8 };

void socket_search_init(struct socket_search *s, uint64_t inode)
{
	snprintf(s->link, sizeof(s->link), "socket:[%llu]",
		 (unsigned long long)inode);
	s->looks = SOCKET_HOLDER_LOOKS;
}

static DIR *socket_search_open_folder(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return opendir(path);
}

static int socket_search_matches(const struct socket_search *s, DIR *fds,
				 const char *name)
{
	char link[sizeof(s->link)];
	ssize_t n = readlinkat(dirfd(fds), name, link, sizeof(link) - 1);

	if (n < 0)
		return 0;
	link[n] = '\0';
	return strcmp(link, s->link) == 0;
}

int socket_search_in(struct socket_search *s, pid_t pid)
{
	DIR *fds = socket_search_open_folder(pid, "fd");
	struct dirent *entry;
	int found = 0;

	while (fds && !found && s->looks > 0 && (entry = readdir(fds))) {
		s->looks--;
		found = socket_search_matches(s, fds, entry->d_name);
	}
	if (fds)
		closedir(fds);
	return found;
}

static pid_t socket_search_tree(struct socket_search *s, pid_t pid, int depth);

static pid_t socket_search_children(struct socket_search *s, pid_t pid,
				    const char *thread, int depth)
{
	char path[sizeof("/proc//task//children") + 16 + NAME_MAX];
	pid_t child, found = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/children", (int)pid,
		 thread);
	f = fopen(path, "re");
	while (f && !found && fscanf(f, "%d", &child) == 1)
		found = socket_search_in(s, child) ?
			child : socket_search_tree(s, child, depth + 1);
	if (f)
		fclose(f);
	return found;
}

static pid_t socket_search_tree(struct socket_search *s, pid_t pid, int depth)
{
	DIR *threads = depth < DEPTH_MAX
			       ? socket_search_open_folder(pid, "task")
			       : NULL;
	struct dirent *entry;
	pid_t found = 0;

	while (threads && !found && s->looks > 0 &&
	       (entry = readdir(threads))) {
		if (entry->d_name[0] == '.')
			continue;
		s->looks--;
		found = socket_search_children(s, pid, entry->d_name, depth);
	}
	if (threads)
		closedir(threads);
	return found;
}

pid_t socket_search_under(struct socket_search *s, pid_t pid)
{
	return socket_search_tree(s, pid, 0);
}
