/* tcp_figures.h: the kernel's figures of a connection between two hosts, and
 * what they say about the network between them at a timeout. Only
 * ddp__figures_read uses a socket. */
#ifndef SDK_TCP_FIGURES_H
#define SDK_TCP_FIGURES_H

#include <stddef.h>
#include <stdint.h>

struct ddp__figures {
	uint64_t unacked; /* bytes sent that the peer has not acknowledged */
	uint64_t unsent;  /* bytes that wait in this kernel */
	uint32_t retries; /* retransmissions in a row, without an answer */
	uint32_t resent, sent; /* segments with data, since the connection was
				* made */
	uint32_t stuck; /* segments sent that the peer has not received, */
	uint32_t beyond; /* and those after them that it has */
	uint32_t came;	       /* segments received, likewise */
	uint32_t rtt_us;
	uint32_t mss, mtu;
	uint32_t window; /* bytes for which the peer's kernel has room */
	uint32_t quiet_ms; /* since the peer's last acknowledgement */
};

/* Segments sent on a host's connections, and how many of them were lost. */
struct ddp__loss {
	uint32_t sent, lost;
};

/* What two readings of a pair of hosts, some time apart, show. */
struct ddp__link_look {
	const struct ddp__figures *data; /* the connection in question */
	/* The connection with the same host that carries only short messages,
	 * of which one was sent at the first reading; NULL: none. */
	const struct ddp__figures *small;
	uint32_t came; /* segments from that host since the first reading */
	uint32_t between_ms;
	/* On all connections with that host, before the call that fails and
	 * during it; without the segments that are stuck now. */
	struct ddp__loss before, since;
};

/* In ascending order of how much they explain. */
enum ddp__verdict {
	DDP__LINK_UNKNOWN,
	DDP__LINK_WORKS,  /* the peer's kernel acknowledges everything */
	DDP__LINK_UNREAD, /* it does, but the process does not read */
	DDP__LINK_MTU,	   /* only short packets pass */
	DDP__LINK_ONE_WAY, /* packets come, but none arrives there */
	DDP__LINK_SILENT,
	DDP__LINK_LOSSY, /* some packets arrive, and many do not */
};

/* 0, or -1 if fd is not a connection any more. */
int ddp__figures_read(int fd, struct ddp__figures *f);
enum ddp__verdict ddp__link_verdict(const struct ddp__link_look *l);
/* The most that the kernel has sent again of the segments that are stuck now.
 * (After an acknowledgement from beyond them BBR may send all of them again,
 * others only the first.) */
uint32_t ddp__figures_resent_stuck(const struct ddp__figures *f);
/* What was lost since `before`, if all in all `sent` segments were sent, and
 * `resent` of them again, of which at most `stuck` are stuck now. */
struct ddp__loss ddp__loss_since(const struct ddp__loss *before, uint32_t sent,
				 uint32_t resent, uint32_t stuck);
/* 1: the network is at fault. */
int ddp__link_is_bad(enum ddp__verdict v);
/* What the verdict means, with the figures, after "A -> B: "; "" if nothing is
 * known. Returns out. */
char *ddp__link_text(enum ddp__verdict v, const struct ddp__link_look *l,
		     char *out, size_t size);
/* "10.0.0.1:4711 -> 10.0.0.2:29500", both ends of fd's connection; returns
 * out. */
char *ddp__link_ends(int fd, char *out, size_t size);

#endif
