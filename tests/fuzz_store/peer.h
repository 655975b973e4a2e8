/* peer.h: a client's connection to the server, in either protocol. Requests
 * leave and answers arrive as bytes. Knows no operations. */
#ifndef TESTS_FUZZ_STORE_PEER_H
#define TESTS_FUZZ_STORE_PEER_H

#include "base/sock.h"
#include "rendezvous/auth/auth.h"
#include "rendezvous/auth/cipher.h"
#include "rendezvous/wire.h"

/* The job, as DDP_* and MASTER_* describe it. */
struct job_place {
	struct endpoint ours, torch;
	struct auth auth;
	const char *job;
	uint32_t round;
};

struct peer {
	uint8_t number; /* its rank, in our protocol */
	int torch;
	int fd;          /* -1: none */
	uint64_t session; /* the same for all its connections */
	uint32_t id;      /* its request's */
	struct buf in;    /* received, and not consumed yet */
	struct buf out;   /* its request, kept to be sent again */
	struct cipher cipher; /* our protocol's, once admitted */
	struct buf records;   /* received, and still incomplete */
};

/* 0, or ERR_USAGE if the environment names no job. */
int job_place_find(struct job_place *p, struct err *e);

void peer_init(struct peer *p, uint8_t number, int torch, uint64_t session);
void peer_release(struct peer *p);
/* Connects and gets admitted. 0, or -1: try again. Blocks. */
int peer_open(struct peer *p, const struct job_place *at);
void peer_close(struct peer *p);
/* Sends the first n bytes of out. 0, or -1: the connection is lost. */
int peer_send(struct peer *p, size_t n);
/* Reads what has arrived. 1, or -1: the connection is lost. */
int peer_receive(struct peer *p);

#endif
