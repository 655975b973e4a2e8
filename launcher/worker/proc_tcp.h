/* proc_tcp.h: a line of /proc/net/tcp or tcp6: a TCP socket of this host, and
 * whose it is. Pure: text in, addresses out. */
#ifndef LAUNCHER_PROC_TCP_H
#define LAUNCHER_PROC_TCP_H

#include "base/buf.h"
#include "base/sock.h"

/* include/net/tcp_states.h */
enum { PROC_TCP_LISTEN = 10 };

struct proc_tcp {
	struct sock_addr own, peer; /* IPv4 as such, in tcp6, too */
	unsigned state;
	uint32_t uid;   /* means something where there is an inode */
	uint64_t inode; /* 0: no process has it any more */
};

/* 1, or 0 for what is no such line: the heading, or one that is torn. */
int proc_tcp_parse(struct slice line, struct proc_tcp *out);

#endif
