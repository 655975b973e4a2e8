/* proc_tcp.h: parses a line of /proc/net/tcp or tcp6: a TCP socket of this host
 * and its owner. Pure. */
#ifndef LAUNCHER_PROC_TCP_H
#define LAUNCHER_PROC_TCP_H

#include "base/buf.h"
#include "base/sock.h"

/* include/net/tcp_states.h */
enum {
	PROC_TCP_ESTABLISHED = 1,
	PROC_TCP_SYN_SENT = 2,
	PROC_TCP_LISTEN = 10
};

struct proc_tcp {
	struct sock_addr own, peer; /* IPv4 as IPv4, also from tcp6 */
	unsigned state;
	uint32_t unacked; /* bytes sent that the peer has not acknowledged */
	/* retransmissions of them in a row, while the kernel goes on with it */
	uint32_t resent;
	uint32_t uid;   /* valid only if there is an inode */
	uint64_t inode; /* 0: no process has it open any more */
};

/* 1, or 0 for any other line, such as the heading or an incomplete line. */
int proc_tcp_parse(struct slice line, struct proc_tcp *out);

#endif
