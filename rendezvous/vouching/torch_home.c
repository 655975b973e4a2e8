/* torch_home.c: chooses the store's addresses and opens its port. */
#include "rendezvous/vouching/voucher.h"

#include <string.h>

#include "base/log.h"
#include "rendezvous/server/hosted_job.h"

/* The addresses for MASTER_ADDR. A host name may mean another address on each
 * host, so for a name, uses the addresses that agents connected to. A
 * link-local address gets the interface that they connected through. Returns 0
 * if the address is not ours, or if the next server may run on another host. */
static int torch_home_find_addrs(struct hosted_job *h)
{
	const char *master = job_agent_store_addr(h->job);
	const struct vouchers *v = &h->vouchers;

	if (!master || h->server->leadership)
		return 0;
	if (sock_addr_number(master, 0, &h->torch_at[0])) {
		for (int i = 0; i < v->nways; i++)
			sock_addr_set_scope(&h->torch_at[0], &v->ways[i]);
		return sock_addr_is_local(&h->torch_at[0]);
	}
	memcpy(h->torch_at, v->ways, sizeof(h->torch_at));
	return v->nways;
}

static void torch_home_on_change(void *owner, enum torch_generation g,
				 struct slice request)
{
	struct hosted_job *h = owner;

	journal_writer_torched(&h->server->writer, h->number, g, request);
}

static void torch_home_on_wait(void *owner)
{
	struct hosted_job *h = owner;

	SERVER_CALL_HOOK(h->server, on_wait, h->server);
}

/* 1 if its clients connect to the server's own port. */
static int torch_home_is_shared(const struct hosted_job *h)
{
	const char *id = h->server->torch_job;

	return id && strcmp(id, job_id(h->job)) == 0;
}

static int torch_home_open_port(struct hosted_job *h, struct err *e)
{
	struct torch_gate gate = {.owner = h};
	int is_shared = torch_home_is_shared(h);

	if (!job_store_open(h->job))
		gate = voucher_gate(h);
	gate.on_change = torch_home_on_change;
	gate.on_wait = torch_home_on_wait;
	if (h->server->hooks)
		gate.on_gave_up = h->server->hooks->on_torch_gave_up;
	if (is_shared)
		h->torch_port = h->server->port;
	return torch_port_open(&h->torch, &h->server->pool, h->store,
			       h->torch_at, is_shared ? 0 : h->ntorch_at,
			       job_world_size(h->job), &gate, &h->torch_port,
			       e);
}

void torch_home_open(struct hosted_job *h)
{
	struct err e = ERR_INIT;

	torch_port_close(h->torch);
	h->torch = NULL;
	h->torch_port = 0;
	h->ntorch_at = torch_home_find_addrs(h);
	if (!h->ntorch_at)
		return;
	if (torch_home_open_port(h, &e) < 0) {
		h->torch_port = 0;
		log_warn("rank 0 must host PyTorch's store: %s", e.text);
		return;
	}
	torch_home_begin(h);
	journal_writer_torch(&h->server->writer, h->number, h->torch_port,
			     h->torch_at, h->ntorch_at);
}

void torch_home_open_again(struct hosted_job *h)
{
	struct err e = ERR_INIT;

	if (h->torch_port && h->store && torch_home_open_port(h, &e) < 0)
		log_warn("job '%s': PyTorch's clients cannot reconnect to "
			 "their store before the next round: %s",
			 job_id(h->job), e.text);
}

void torch_home_begin(struct hosted_job *h)
{
	struct err e = ERR_INIT;

	if (h->torch && torch_port_begin(h->torch, &e) < 0)
		log_warn("job '%s': %s", job_id(h->job), e.text);
}
