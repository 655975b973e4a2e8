/* pmi_service.h: serves PMI-1 to the workers of one round on this node, over a
 * pair of sockets for each, which a worker inherits as PMI_FD: nothing listens.
 * Connects pmi_server.h with the sockets and with the other nodes. */
#ifndef LAUNCHER_PMI_SERVICE_H
#define LAUNCHER_PMI_SERVICE_H

#include "launcher/pmi/pmi_exchange.h"
#include "launcher/pmi/pmi_server.h"

struct pmi_service;

struct pmi_service_events {
	/* The round cannot go on. */
	void (*on_failed)(void *owner, const char *text);
	/* A worker has called MPI_Abort and has had time to exit. */
	void (*on_abort_over)(void *owner, uint32_t local_rank);
};

struct pmi_socket {
	struct pmi_service *service;
	uint32_t local_rank;
	int fd, child; /* -1: closed */
	int is_polled;
	uv_poll_t poll;
};

struct pmi_service {
	void *owner;
	const struct pmi_service_events *events;
	struct err *starting; /* pmi_service_new's, while it runs */
	struct pmi_server server;
	struct pmi_exchange exchange; /* with more than one node */
	int has_exchange, is_closing, has_failed, has_logged_spawn;
	uint32_t open_handles;
	struct pmi_socket *sockets; /* nproc */
	uv_timer_t abort;
};

/* Opens the sockets and, with several nodes, connects to the server. NULL: e
 * says why. The pointers in exchange must outlive it. */
struct pmi_service *pmi_service_new(uv_loop_t *loop,
				    const struct pmi_server_round *round,
				    const struct pmi_exchange_round *exchange,
				    const struct pmi_service_events *events,
				    void *owner, struct err *e);
/* The end that the worker inherits, under the same number. */
int pmi_service_fd(const struct pmi_service *s, uint32_t local_rank);
/* All workers have been started, or not: closes these ends. */
void pmi_service_begin(struct pmi_service *s);
/* A worker ended: takes its last lines. If it failed, the round ends, which
 * ends the wait of the others as well. */
void pmi_service_ended(struct pmi_service *s, uint32_t local_rank,
		       int has_failed);
/* 1 if the worker has called MPI_Abort: its exit code, 1 to 255, and in text
 * what it called. */
int pmi_service_aborted(const struct pmi_service *s, uint32_t local_rank,
			int *code, char *text, size_t size);
/* The ranks have ended: closes all, and removes the shared memory that MPICH's
 * ranks leave if they are killed. s is freed from the loop. NULL is fine. */
void pmi_service_close(struct pmi_service *s);

#endif
