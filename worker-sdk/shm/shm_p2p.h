/* shm_p2p.h: messages between two ranks of one host, over shm.h, independent of
 * the collectives on the same segment. Several messages may be under way, but
 * one at a time for each peer and direction; they arrive in the order of
 * sending.
 *
 * Small messages lie in a ring of the pair until they are received: the send
 * ends at once. The sender puts some pieces of a large message there while it
 * is advanced, and the receiver reads the others directly from the sender's
 * memory (process_vm_readv) if the kernel allows that; the send ends when all
 * of it has been received. Only the receiver writes to its buffer. */
#ifndef SDK_SHM_P2P_H
#define SDK_SHM_P2P_H

#include "worker-sdk/shm/shm.h"

/* Borrows the segment, the call and the buffer until it has ended; the segment
 * links to it from its first advance on. All fields belong to shm_p2p.c. */
struct ddp__shm_msg {
	struct ddp__shm *s;
	const struct ddp__call *call;
	char *buf;
	size_t size;
	int peer; /* index on the host */
	int receives;
	int state, linked;
	size_t got;	 /* bytes of a large message received by this rank */
	uint64_t idle;	 /* time since which the sender has put no part of it */
	uint64_t remote; /* its address in the sender */
	struct ddp__shm_msg *next;
};

/* These are the `message` group of shm's row: msg is a struct ddp__shm_msg, shm
 * a struct ddp__shm; to and from are indices on the host. */
void ddp__shm_send(void *msg, void *shm, const struct ddp__call *call,
		   const void *buf, size_t size, int to);
void ddp__shm_recv(void *msg, void *shm, const struct ddp__call *call,
		   void *buf, size_t size, int from);

/* 1: done; 0: the peer has not arrived yet; < 0: ERR_ARGUMENT (the peer's
 * message has another count or type; the peer fails too), or the error with
 * which another rank aborted. After an error the segment cannot be used any
 * more. */
int ddp__shm_msg_advance(void *msg, struct err *e);
/* Advances until the message is done: 0 or an error, also of
 * ddp__shm_msg_check. */
int ddp__shm_msg_run(void *msg, struct err *e);
/* Changes when either side has moved the message. */
uint64_t ddp__shm_msg_either_moved(const void *msg);
/* As ddp__shm_check, for a message that has not moved for waited_ns. */
int ddp__shm_msg_check(void *msg, uint64_t waited_ns, struct err *e);

/* For shm.c: finds out, once all ranks have attached, whether this rank can
 * read its neighbour's memory. */
void ddp__shm_probe_reading(struct ddp__shm *s);
/* 1: a message under way could move. */
int ddp__shm_msgs_ready(const struct ddp__shm *s);

#endif
