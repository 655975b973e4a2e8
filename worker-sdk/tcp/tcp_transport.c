/* tcp_transport.c: tcp's row of algorithms/transport.h: messages over a socket
 * of each pair of ranks, steps over the sockets between the hosts' leaders. */
#include "worker-sdk/tcp/tcp_p2p.h"
#include "worker-sdk/tcp/tcp_steps.h"

static void tcp_abort(const struct ddp__path *p, const struct err *why)
{
	ddp__tcp_abort(p->collectives, why);
	ddp__tcp_p2p_abort(p->messages, why);
}

static void tcp_forget(const struct ddp__path *p)
{
	ddp__tcp_p2p_close(p->messages);
}

static void tcp_set_timeout(const struct ddp__path *p, int timeout_ms)
{
	struct ddp__tcp *t = p->collectives;
	struct ddp__tcp_p2p *p2p = p->messages;

	t->timeout_ms = p2p->timeout_ms = ddp__tcp_timeout(timeout_ms);
}

static int tcp_poll_max(const struct ddp__path *p, int is_message)
{
	const struct ddp__tcp *t = p->collectives;
	const struct ddp__tcp_p2p *p2p = p->messages;

	return is_message ? 4 * p2p->n + 128 : 2 * t->n * t->links;
}

static int tcp_poll(const struct ddp__path *p, int is_message,
		    struct pollfd *out, int max, int *ms)
{
	return is_message ? ddp__tcp_p2p_polls(p->messages, out, max)
			  : ddp__tcp_step_polls(p->collectives, out, max);
}

const struct ddp__transport ddp__tcp_transport = {
	.name = "tcp",
	.abort = tcp_abort,
	.forget = tcp_forget,
	.set_timeout = tcp_set_timeout,
	.poll_max = tcp_poll_max,
	.poll = tcp_poll,
	.message = {.send = ddp__tcp_send,
		    .recv = ddp__tcp_recv,
		    .advance = ddp__tcp_msg_advance,
		    .wait = ddp__tcp_msg_run,
		    .moved = ddp__tcp_msg_moved,
		    .either_moved = ddp__tcp_msg_moved,
		    .check = ddp__tcp_msg_check},
	.step = {.begin = ddp__tcp_step_begin,
		 .reserve = ddp__tcp_step_reserve,
		 .send = ddp__tcp_step_send,
		 .recv = ddp__tcp_step_recv,
		 .fold = ddp__tcp_step_fold,
		 .scratch = ddp__tcp_step_scratch,
		 .advance = ddp__tcp_step_advance,
		 .wait = ddp__tcp_step_wait,
		 .check = ddp__tcp_step_check,
		 .release = ddp__tcp_step_release},
};
