/* vouch.c: the kernel knows which user a socket belongs to; ours are those of
 * the user that this ddprun and its workers run as. Users have numbers here:
 * looking up a name may ask a directory on the network, and block. */
#include "launcher/membership/vouch.h"

#include <stdio.h>
#include <unistd.h>

#include "base/local_addrs.h"
#include "base/owner.h"

enum { ADDRS_BYTES_MAX = WIRE_ADDRS_MAX * (4 + INET6_ADDRSTRLEN) };

void vouch_init(struct vouch *v)
{
	*v = (struct vouch){.finder = {.tried = 0}};
	buf_init(&v->addrs, ADDRS_BYTES_MAX);
}

struct wire_items vouch_addrs(struct vouch *v)
{
	struct sock_addr all[WIRE_ADDRS_MAX];
	int n = local_addrs_all(all, WIRE_ADDRS_MAX);
	char text[SOCK_TEXT_MAX];

	buf_reset(&v->addrs);
	for (int i = 0; i < n; i++)
		buf_put_slice(&v->addrs,
			      SLICE_STR(sock_addr_host(&all[i], text)));
	if (v->addrs.failed)
		return (struct wire_items){0, SLICE("", 0)};
	return (struct wire_items){(uint32_t)n,
				   SLICE(v->addrs.data, v->addrs.len)};
}

static int vouch_parse_addr(struct slice text, uint16_t port,
			    struct sock_addr *a, struct err *e)
{
	char host[SOCK_HOST_MAX];

	snprintf(host, sizeof(host), "%.*s", SLICE_FMT(text));
	if (sock_addr_number(host, port, a))
		return 0;
	return err_set(e, ERR_PROTOCOL, "VOUCH: '%s' is not an address", host);
}

int vouch_can_identify_users(void)
{
	return !owner_is_unmapped(geteuid());
}

/* What the kernel found becomes the answer. */
static void vouch_judge(int found, uid_t uid, const struct err *why,
			struct wire_vouched *m, char *text, size_t size)
{
	int ours = found == SOCKET_OWNED && uid == geteuid();

	m->uid = found == SOCKET_OWNED ? (int64_t)uid : -1;
	m->yes = ours && vouch_can_identify_users();
	text[0] = '\0';
	if (m->yes)
		return;
	if (ours)
		snprintf(text, size,
			 "ddprun there runs in a user namespace in which all "
			 "users' sockets look like its own (user %u); map the "
			 "user id, or start with --store-open",
			 (unsigned)uid);
	else if (found == SOCKET_OWNED)
		snprintf(text, size,
			 "the socket there belongs to user %u, but the job to "
			 "user %u",
			 (unsigned)uid, (unsigned)geteuid());
	else if (found == SOCKET_CLOSED)
		snprintf(text, size,
			 "it was closed before ddprun there found its owner");
	else if (found == SOCKET_NONE)
		snprintf(text, size,
			 "ddprun there sees no such socket; if the client "
			 "comes through NAT, or from a container with its own "
			 "network, start with --store-open");
	else
		snprintf(text, size, "%.400s; start with --store-open",
			 why->text);
}

int vouch_answer(struct vouch *v, const struct wire_frame *f, struct buf *out,
		 struct err *e)
{
	struct sock_addr peer, own;
	struct wire_vouch m;
	struct wire_vouched answer;
	struct err why = ERR_INIT;
	char text[ERR_TEXT_MAX];
	struct socket_whose whose = {.uid = 0};
	int rc = wire_get_vouch(f, &m, e);

	if (rc == 0)
		rc = vouch_parse_addr(m.peer, m.peer_port, &peer, e);
	if (rc == 0)
		rc = vouch_parse_addr(m.own, m.own_port, &own, e);
	if (rc < 0)
		return rc;
	answer = (struct wire_vouched){.number = m.number};
	/* the client's own end is the server's peer */
	rc = socket_owner(&v->finder, &peer, &own, &whose, &why);
	vouch_judge(rc, whose.uid, &why, &answer, text, sizeof(text));
	answer.text = SLICE_STR(text);
	wire_put_vouched(out, WIRE_VOUCHED, WIRE_NOTICE, 0, &answer);
	return 0;
}

uint64_t vouch_inode(struct vouch *v, const struct wire_waiting *x)
{
	struct sock_addr peer, own;
	struct socket_whose whose;

	if (vouch_parse_addr(x->peer, x->peer_port, &peer, NULL) < 0 ||
	    vouch_parse_addr(x->own, x->own_port, &own, NULL) < 0 ||
	    socket_owner(&v->finder, &peer, &own, &whose, NULL) != SOCKET_OWNED)
		return 0;
	return whose.inode;
}

void vouch_release(struct vouch *v)
{
	buf_release(&v->addrs);
}
