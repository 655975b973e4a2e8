/* tcp.h: the sockets between the leaders of hosts: makes them, carries aborts
 * and notices on them, and explains failures. tcp_steps.h moves messages over
 * them. Knows nothing of types or shared memory. */
#ifndef SDK_TCP_H
#define SDK_TCP_H

#include <stddef.h>
#include <stdint.h>

#include "base/sock.h"
#include "worker-sdk/core/call.h"
#include "worker-sdk/core/peers.h"
#include "worker-sdk/tcp/tcp_callers.h"
#include "worker-sdk/tcp/tcp_figures.h"
#include "worker-sdk/tcp/tcp_listen.h"
#include "worker-sdk/tcp/tcp_secure.h"

enum {
	DDP__FRAME = 48,
	DDP__RAILS_MAX = 16,
	/* How much longer hosts wait for each other than ranks do: the first to
	 * fail reports the reason, and a late rank's own host sees most of
	 * it. */
	DDP__TCP_GRACE_MS = 1000,
	DDP__TCP_RUNS = 16, /* runs of calls that are remembered, for error
			     * texts */
	/* Operations after which notices are read at the latest: they must not
	 * fill a socket on which an abort has to travel. */
	DDP__TCP_NOTICES_EVERY = 256,
	DDP__TCP_NOTICE_MAX = 2048, /* payload bytes of one notice */
	DDP__TCP_NETWORK_TEXT = 640
};

/* Precedes each message. In host byte order, which must be the same on all
 * hosts, as for the data. */
struct ddp__frame {
	uint32_t magic, kind;
	uint64_t call;	 /* ddp__call_pack */
	uint64_t number; /* A frame that says that its sender has waited for a
			  * while in this call. Two hosts may wait for each
			  * other in different calls and send nothing else. */
	uint64_t size;	 /* bytes that follow */
	/* The leader's earlier operations: ddp__digest of all of them, and the
	 * word of the last. In a message both are 0. */
	uint64_t before, last;
};

enum {
	DDP__FRAME_DATA,
	DDP__FRAME_ABORT,
	/* A notice: its sender has waited for a while in this call. Two hosts
	 * may wait for each other in different calls and send nothing else. */
	DDP__FRAME_WAITS,
	/* A notice to a waiting host: a rank that has not arrived is blocked
	 * elsewhere. The payload is for `heard` of struct ddp__peers. */
	DDP__FRAME_BLOCKED,
	/* A notice to all hosts: the network fails between its sender and
	 * another host. The payload says how. */
	DDP__FRAME_NETWORK
};

/* A call as its host packed it; word 0: none. */
struct ddp__tcp_call {
	uint64_t word, number;
};

/* The last notice of a waiting host; it may have stopped waiting since.
 * detector.c sets answered, tcp_timeout.c the segments. */
struct ddp__tcp_wait {
	struct ddp__tcp_call call;
	uint64_t answered;
	uint32_t came; /* segments from that host until the probe */
	struct ddp__loss before; /* to that host, until this operation */
};

/* Equal calls in a row: the first one's number, and how many. */
struct ddp__tcp_run {
	uint64_t word, number, count;
};

struct ddp__schedule;
struct ddp__piece;
struct ddp__stream;

struct ddp__tcp {
	int me, n; /* hosts */
	/* Data sockets for each pair of hosts. One more socket carries only
	 * aborts and notices, which then arrive even if a message was torn. */
	int rails;
	int links;	/* rails + 1 */
	int *fd;	/* host * links + link, link 0 for aborts; -1: this
			 * host */
	struct ddp__secure **secure; /* same index; NULL: plain text */
	int *leaders;	/* rank of each host's leader */
	int *ranks;	/* number of ranks on each host */
	int *before;	/* number of ranks on earlier hosts; n + 1 numbers */
	int timeout_ms; /* < 0: no limit */
	int spins;	/* a CPU to spare: look before sleeping */
	const struct ddp__peers *peers;
	struct ddp__schedule *schedule; /* under way */
	/* The pieces of the current step, and the sockets with unfinished
	 * pieces, which are the first `busy` streams; used by tcp_steps.c. */
	struct ddp__piece *pieces;
	struct ddp__stream *streams;
	int pieces_used, pieces_room, busy, streams_room;
	int noticed; /* the turn for which the awaited hosts have a notice */
	/* When this host has counted what it sent, probed the others and judged
	 * its connections, for tcp_timeout.c; another host's last notice of its
	 * own. */
	uint64_t counted_ns, probed_ns, judged_ns, heard_ns;
	char heard[DDP__TCP_NETWORK_TEXT];
	/* Operations so far, with the one under way: their count, the number
	 * of their runs and the last of these, and a digest of all operations
	 * but the current one. */
	uint64_t made, nruns, digest;
	struct ddp__tcp_run runs[DDP__TCP_RUNS];
	struct ddp__tcp_wait *waits; /* for each host */
	/* The schedule's memory, kept for the next one: fresh pages are
	 * slow. */
	char *scratch, *windows;
	size_t scratch_size;
	int broken;
};

struct ddp__tcp_site {
	struct endpoint where;
	int leader; /* its rank */
	int ranks;  /* on its host; 0 counts as 1 */
};

struct ddp__tcp_setup {
	const struct ddp__tcp_site *sites; /* n of them */
	int me, n;
	struct ddp__listener listener;
	unsigned char key[DDP__KEY]; /* the same on all hosts */
	uint32_t round;
	int timeout_ms;
	int rails; /* 0: $DDP_TCP_SOCKETS, else the number that is best */
	const struct ddp__peers *peers;
};

/* Connects every leader with every other; callers that do not prove that they
 * have the key are disconnected. On failure nothing is left open.
 * ddp__tcp_close frees t. */
int ddp__tcp_connect(struct ddp__tcp *t, const struct ddp__tcp_setup *setup,
		     struct err *e);
void ddp__tcp_close(struct ddp__tcp *t);

/* Sends every other leader the reason why this one stops. Nothing works
 * afterwards. */
void ddp__tcp_abort(struct ddp__tcp *t, const struct err *e);

/* ---- for the files that move messages ---- */

static inline int ddp__tcp_host(const struct ddp__tcp *t, int link)
{
	return link / t->links;
}

/* Begins an operation and remembers its call. */
void ddp__tcp_begin(struct ddp__tcp *t, const struct ddp__call *call);

/* The frame for data of the operation under way on t; t NULL: for a message
 * between two ranks. */
void ddp__frame_put(unsigned char out[DDP__FRAME], const struct ddp__call *call,
		    uint64_t size, const struct ddp__tcp *t);

void ddp__frame_put_abort(unsigned char out[DDP__FRAME], const struct err *e);
/* 1: f is a frame of this protocol, and of that kind. */
int ddp__frame_is(const struct ddp__frame *f, uint32_t kind);
/* If an abort is next on this socket: reads it and returns its error; else
 * 0. */
int ddp__frame_receive_abort(struct ddp__secure *s, int fd, struct err *e);
/* As ddp__frame_receive_abort, if the frame and n bytes of its text have been
 * read already. */
int ddp__frame_read_abort(struct ddp__secure *s, int fd,
			  const unsigned char frame[DDP__FRAME],
			  const void *have, size_t n, struct err *e);
/* The timeout between hosts when ranks have timeout_ms. */
int ddp__tcp_timeout(int timeout_ms);

/* Writes the name of the leader at the other end, "rank 3 on h1", to
 * out[DDP__NAME_MAX]. */
char *ddp__tcp_name(const struct ddp__tcp *t, int host, char *out);

enum { DDP__BROKE_TEXT = 128 };

/* The end of an error text about a rank whose socket failed with error (0:
 * reached its end), after the rank's name: "closed its connection". */
char *ddp__tcp_broke(int error, char out[DDP__BROKE_TEXT]);
/* Data for call from the rank of that name did not authenticate, EBADMSG of
 * tcp_secure.h: sets and returns ERR_PROTOCOL. The rank itself is alive. */
int ddp__tcp_tampered(const struct ddp__call *call, const char *name, int fd,
		      struct err *e);
/* A socket to host failed: returns the host's abort, or else how its leader
 * ended. */
int ddp__tcp_lost(struct ddp__tcp *t, const struct ddp__call *call, int host,
		  int error, struct err *e);
/* 0: this is the frame of a message of `size` bytes for call, from a host that
 * made the same calls before. Else an error that reports the call of that
 * host. */
int ddp__tcp_check(struct ddp__tcp *t, const struct ddp__call *call, int host,
		   const unsigned char frame[DDP__FRAME], size_t size,
		   struct err *e);
/* Sends host a notice that this one waits in call. */
void ddp__tcp_send_waits(struct ddp__tcp *t, const struct ddp__call *call,
			 int host);
/* Sends host a notice of that kind with a payload of up to DDP__TCP_NOTICE_MAX
 * bytes. */
void ddp__tcp_send_notice(struct ddp__tcp *t, int host, uint32_t kind,
			  const void *bytes, size_t size);
/* Reads all notices of all hosts. */
void ddp__tcp_take_notices(struct ddp__tcp *t);
/* Call after a while without progress: an error if a host aborted, or is in
 * another call, by its notice or by a frame on a socket that `awaited` does not
 * name; else 0. */
int ddp__tcp_check_all(struct ddp__tcp *t, const struct ddp__call *call,
		       int (*awaited)(void *arg, int link), void *arg,
		       struct err *e);

#endif
