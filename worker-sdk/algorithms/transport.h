/* transport.h: how bytes get from one rank to another. A transport is one row
 * of functions: shm and tcp have one each. The engine (comm/) and the
 * algorithms (this room) see a transport only through its row, and a transport
 * knows neither of them. A third one, say RDMA, is a new room with a row, and a
 * place in comm/cpu.h and comm/cpu_start.c; test_transport.c has one in memory.
 *
 * A row has three groups of functions. Every transport moves messages between
 * two ranks. For collectives it either moves the messages of an algorithm's
 * steps (tcp), or has collectives of its own (shm, where a rank reads the data
 * that the others wrote); a group that it lacks is zero.
 *
 * Threads: the caller holds the engine's lock. Only wait blocks.
 * Ownership: calls and buffers are borrowed until the operation has ended.
 * Failure: a function that returns int and takes an err returns a negative
 * code, and *e describes the failure and names the rank. The path cannot be
 * used any more; its user calls abort, which reports the reason to the other
 * ranks. */
#ifndef SDK_TRANSPORT_H
#define SDK_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "worker-sdk/core/call.h"

struct pollfd;
struct ddp__transport;

/* A transport and its endpoints in one communicator, which the path borrows. An
 * endpoint that is not in use is zeroed: abort, forget and disarm accept it. */
struct ddp__path {
	const struct ddp__transport *transport;
	void *messages;	   /* endpoint of messages, */
	void *collectives; /* and of collectives; may be the same */
};

/* One collective among the leaders of hosts: a row of steps. The algorithm
 * makes each step of messages, and the transport moves them. The schedules of
 * an endpoint are advanced one after the other, in the same order on all
 * hosts; those of several endpoints may be under way at once. */
struct ddp__schedule {
	const struct ddp__transport *transport;
	void *endpoint;
	/* Set by step.begin. */
	int me, n;	  /* hosts */
	const int *ranks; /* number of ranks on each host */
	const int
		*before; /* number of ranks on earlier hosts; n + 1 numbers */
	struct ddp__call call;
	/* Ends the current step and makes the next one. 1: there is no next
	 * step, the schedule has ended. */
	int (*step)(struct ddp__schedule *s, struct err *e);
	int turn; /* steps so far */
	/* For the algorithm. */
	char *buf, *other;
	const size_t *begin, *other_begin;
	size_t count, elem;
	int root, divisor;
	int scaled; /* buffers hold data in the form that ddp__add_scaled
		     * takes */
	int phase;
	size_t *ranges; /* owned */
	/* For the transport. */
	char *scratch; /* its contents end with the schedule */
	int moved;     /* bytes have moved since the user cleared it */
};

struct ddp__transport {
	const char *name;

	/* Fails the operations under way, here and on the other ranks, with
	 * *why. */
	void (*abort)(const struct ddp__path *p, const struct err *why);
	/* Drops the messages under way; the other ranks are not notified. */
	void (*forget)(const struct ddp__path *p);
	/* How long operations wait from now on; < 0: without limit. */
	void (*set_timeout)(const struct ddp__path *p, int timeout_ms);
	/* Lists the descriptors to sleep on for the messages under way, or for
	 * the collective: fills in at most max and returns how many; poll_max
	 * returns the most there can be. Shortens *ms if something has arrived
	 * already (to 0) or cannot be polled (to 1). */
	int (*poll_max)(const struct ddp__path *p, int is_message);
	int (*poll)(const struct ddp__path *p, int is_message,
		    struct pollfd *out, int max, int *ms);
	/* Call after each sleep that poll prepared. NULL: nothing to do. */
	void (*disarm)(const struct ddp__path *p);

	/* Messages between two ranks: any number at a time, but one for each
	 * peer and direction, and they arrive in the order of sending. msg is
	 * the caller's memory, of the transport's type; peer is the endpoint's
	 * number of that rank. */
	struct {
		void (*send)(void *msg, void *endpoint,
			     const struct ddp__call *call, const void *buf,
			     size_t size, int peer);
		void (*recv)(void *msg, void *endpoint,
			     const struct ddp__call *call, void *buf,
			     size_t size, int peer);
		/* 1: done; 0: the peer has not arrived yet. */
		int (*advance)(void *msg, struct err *e);
		/* Blocks until the message is done: 0 or an error. */
		int (*wait)(void *msg, struct err *e);
		/* Each changes when this rank, or either rank, has moved bytes
		 * of it. */
		uint64_t (*moved)(const void *msg);
		uint64_t (*either_moved)(const void *msg);
		/* The message has not moved for waited_ns: 0, or why further
		 * waiting is pointless. */
		int (*check)(void *msg, uint64_t waited_ns, struct err *e);
	} message;

	/* Messages of an algorithm's steps. */
	struct {
		void (*begin)(struct ddp__schedule *s);
		/* Makes room in this step for `messages` messages, to and from
		 * `pairs` pairs of host and direction. Forgets the step
		 * before. */
		int (*reserve)(struct ddp__schedule *s, int messages, int pairs,
			       struct err *e);
		/* Each adds a message to the step and returns a handle, valid
		 * until the next reserve. Messages with the same host and
		 * direction keep their order. after: a handle, or NULL: bytes
		 * are sent only once that message of the same size has
		 * received them. */
		void *(*send)(struct ddp__schedule *s, int host,
			      const void *data, size_t size, const void *after);
		void *(*recv)(struct ddp__schedule *s, int host, void *data,
			      size_t size);
		/* Reduces the arriving bytes, the sum of `ranks` ranks, into
		 * data. If last, then divides it where the operation is
		 * DDP_AVG. */
		void *(*fold)(struct ddp__schedule *s, int host, void *data,
			      size_t size, int ranks, int last);
		/* Sets s->scratch, of size bytes. */
		int (*scratch)(struct ddp__schedule *s, size_t size,
			       struct err *e);
		/* 1: the schedule has ended; 0: other hosts have not
		 * arrived. */
		int (*advance)(struct ddp__schedule *s, struct err *e);
		/* Blocks until it has ended: 0 or an error. */
		int (*wait)(struct ddp__schedule *s, struct err *e);
		/* As message.check, for the schedule under way. */
		int (*check)(void *endpoint, uint64_t waited_ns, struct err *e);
		/* The schedule has ended, or is given up. */
		void (*release)(struct ddp__schedule *s);
	} step;

	/* Collectives of its own, among all ranks of the endpoint. op is the
	 * caller's memory, of the transport's type, and needs no release.
	 * shm/shm_collective.h describes each function. */
	struct {
		void (*reduce)(void *op, void *endpoint,
			       const struct ddp__call *call, const void *send,
			       void *recv, size_t count, int to, int divisor);
		void (*reduce_scatter)(void *op, void *endpoint,
				       const struct ddp__call *call,
				       const void *send, void *recv,
				       size_t count, int divisor);
		void (*broadcast)(void *op, void *endpoint,
				  const struct ddp__call *call, int root,
				  const void *from, size_t size, void *to,
				  size_t skip, size_t size_out);
		void (*gather)(void *op, void *endpoint,
			       const struct ddp__call *call, const void *send,
			       size_t size, void *recv, const int *place,
			       int to);
		void (*scatter)(void *op, void *endpoint,
				const struct ddp__call *call, int root,
				const void *send, size_t size, void *recv,
				const int *place);
		void (*all_to_all)(void *op, void *endpoint,
				   const struct ddp__call *call,
				   const void *send, size_t size, void *recv,
				   const int *place);
		void (*all_gather_v)(void *op, void *endpoint,
				     const struct ddp__call *call,
				     const struct ddp__counts *v, size_t elem,
				     const void *send, void *recv,
				     const int *place);
		void (*reduce_scatter_v)(void *op, void *endpoint,
					 const struct ddp__call *call,
					 const struct ddp__counts *v,
					 const void *send, void *recv,
					 int divisor);
		void (*all_to_all_v)(void *op, void *endpoint,
				     const struct ddp__call *call, size_t elem,
				     const void *send, const size_t *send_begin,
				     void *recv, const size_t *recv_begin);
		void (*barrier)(void *op, void *endpoint,
				const struct ddp__call *call);
		/* As those of a step. */
		int (*advance)(void *op, struct err *e);
		int (*wait)(void *op, struct err *e);
		int (*check)(void *endpoint, uint64_t waited_ns, struct err *e);
		/* Changes when an operation moves. */
		uint64_t (*moved)(const void *endpoint);
		/* The call that this rank waits for. *from: a rank's index, or
		 * enum ddp__from. */
		const struct ddp__call *(*awaited)(const void *endpoint,
						   int *from);
		/* This rank begins or stops waiting for other hosts. */
		void (*set_away)(void *endpoint, int is_away);
	} native;
};

/* shm/shm_transport.c: both endpoints of a path are one struct ddp__shm. */
extern const struct ddp__transport ddp__shm_transport;
/* tcp/tcp_transport.c: a path's endpoints are a struct ddp__tcp for collectives
 * and a struct ddp__tcp_p2p for messages. */
extern const struct ddp__transport ddp__tcp_transport;

#endif
