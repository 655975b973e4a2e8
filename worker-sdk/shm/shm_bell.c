/* shm_bell.c: the doorbells of shm.h: a datagram socket for each rank that asks
 * for one. Its name is derived from the segment's cookie and disappears with
 * the socket. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "worker-sdk/shm/shm_p2p.h"

/* In the abstract namespace, so that no file is left behind. */
static socklen_t bell_address(const struct ddp__shm *s, int i,
			      struct sockaddr_un *a)
{
	char *at = a->sun_path + 1;

	memset(a, 0, sizeof(*a));
	a->sun_family = AF_UNIX;
	at += snprintf(at, 16, "ddp.%d.", i);
	for (int k = 0; k < DDP__BELL; k++)
		at += snprintf(at, 3, "%02x", s->bell_name[k]);
	return (socklen_t)(at - (char *)a);
}

/* The socket on which this rank receives rings and sends them to others. */
static int bell_open(struct ddp__shm *s)
{
	if (s->bell < 0)
		s->bell = socket(AF_UNIX,
				 SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return s->bell;
}

int ddp__shm_doorbell(struct ddp__shm *s, struct err *e)
{
	struct sockaddr_un a;
	socklen_t size = bell_address(s, s->me, &a);

	if (s->has_bell)
		return s->bell;
	if (bell_open(s) < 0 || bind(s->bell, (struct sockaddr *)&a, size))
		return err_set(e, -errno,
			       "cannot create a socket (AF_UNIX): %s",
			       strerror(errno));
	s->has_bell = 1;
	return s->bell;
}

/* 1 if all ranks have posted this step, or the awaited cell is there. */
static int bell_is_due(const struct ddp__shm *s)
{
	int k = 1;

	/* The stamp was stored before `given`, and only `given` is sequentially
	 * consistent. */
	if (s->cell) {
		atomic_load(&ddp__shm_control(s, s->cell_from)->given);
		return ddp__shm_cell_there(s);
	}
	while (k < s->n &&
	       (int32_t)(atomic_load(&ddp__shm_control(s, (s->me + k) % s->n)
						->step) - s->step) >= 0)
		k++;
	return s->waits && k == s->n;
}

int ddp__shm_arm(struct ddp__shm *s)
{

	atomic_fetch_add(&s->header->armed, 1);
	/* Sequentially consistent: either this rank sees the data, or its
	 * sender sees that this rank is armed. */
	atomic_store(&ddp__shm_control(s, s->me)->armed, 1);
	/* loads of a cell's stamp and of messages are only acquire loads: keep
	 * them behind the store */
	atomic_thread_fence(memory_order_seq_cst);
	return bell_is_due(s) || ddp__shm_aborted(s) || ddp__shm_msgs_ready(s);
}

void ddp__shm_disarm(struct ddp__shm *s)
{
	char byte;

	atomic_store(&ddp__shm_control(s, s->me)->armed, 0);
	atomic_fetch_sub(&s->header->armed, 1);
	while (s->has_bell && recv(s->bell, &byte, 1, 0) >= 0)
		;
}

void ddp__shm_ring(struct ddp__shm *s)
{
	struct sockaddr_un a;

	for (int i = 0; i < s->n; i++) {
		struct ddp__shm_control *peer = ddp__shm_control(s, i);
		socklen_t size;

		if (i == s->me || !atomic_load(&peer->armed) ||
		    !atomic_exchange(&peer->armed, 0))
			continue;
		size = bell_address(s, i, &a);
		/* errors are harmless: a full queue is readable, and a rank
		 * that has ended needs no bell */
		if (bell_open(s) >= 0)
			sendto(s->bell, "", 1, MSG_NOSIGNAL,
			       (struct sockaddr *)&a, size);
	}
}
