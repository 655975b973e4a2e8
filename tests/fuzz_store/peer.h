/* peer.h: one client's connection to the server, in either protocol: what it
 * asks goes out as bytes, answers come back as bytes. Knows no operation. */
#ifndef TESTS_FUZZ_STORE_PEER_H
#define TESTS_FUZZ_STORE_PEER_H

#include "base/sock.h"
#include "rendezvous/auth/auth.h"
#include "rendezvous/auth/cipher.h"
#include "rendezvous/wire.h"

/* What DDP_* and MASTER_* say of the job. */
struct leadership {
	struct endpoint ours, torch;
	struct auth auth;
	const char *job;
	uint32_t round;
};

struct peer {
	uint8_t number; /* its rank, where it is ours */
	int torch;
	int fd;          /* -1: none */
	uint64_t session; /* the same on all its connections */
	uint32_t id;      /* its request's */
	struct buf in;    /* what has arrived and was not taken */
	struct buf out;   /* its request, to be sent again */
	struct cipher cipher; /* our protocol's, once it was let in */
	struct buf records;   /* that have arrived and are incomplete */
};

/* 0, or it is not in the environment. */
int place_find(struct leadership *p, struct err *e);

void peer_init(struct peer *p, uint8_t number, int torch, uint64_t session);
void peer_release(struct peer *p);
/* Connects, and is let in; 0, or -1: to be tried again. Blocks. */
int peer_open(struct peer *p, const struct leadership *at);
void peer_close(struct peer *p);
/* The first n bytes of out. 0, or -1: the connection is lost. */
int peer_send(struct peer *p, size_t n);
/* What is there: 1, or -1: the connection is lost. */
int peer_receive(struct peer *p);

#endif
