/* fuzz_torch.c: three clients of PyTorch's protocol on one store. The input is
 * segments: a byte with the client, a byte with the length, and that many
 * bytes. Finds reads past a segment's end, crashes, leaks, replies to a client
 * that waits for none, and a store that differs from what its journal
 * rebuilds. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/torch/torch_session.h"
#include "tests/twin_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CLIENTS = 3 };

struct client {
	struct torch_session session;
	struct buf in, out;
	int gone;
};

static struct client clients[CLIENTS];

static void require(int ok)
{
	if (!ok)
		abort();
}

static struct buf *out_of(struct torch_session *t)
{
	for (int i = 0; i < CLIENTS; i++) {
		if (t == &clients[i].session)
			return &clients[i].out;
	}
	abort();
}

/* As a connection does: keeps the rest in a block of its exact size. */
static void feed(struct client *k, const uint8_t *p, size_t n)
{
	struct err e = ERR_INIT;
	char *copy;
	long taken;

	buf_put(&k->in, p, n);
	require(!k->in.failed);
	copy = malloc(k->in.len ? k->in.len : 1);
	if (k->in.len)
		memcpy(copy, k->in.data, k->in.len);
	taken = torch_session_take(&k->session, SLICE(copy, k->in.len), &e);
	if (taken >= 0)
		require(torch_session_wants(&k->session,
			SLICE(copy + taken, k->in.len - (size_t)taken)) > 0);
	free(copy);
	require(taken >= 0 || e.text[0]);
	if (taken >= 0) {
		buf_consume(&k->in, (size_t)taken);
		return;
	}
	k->gone = 1;
	torch_session_release(&k->session);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct store_limits limits = {64, 1 << 20, 4096, 8};
	struct store *s = store_new(&limits);

	twin = store_new(&limits);
	for (int i = 0; i < CLIENTS; i++) {
		memset(&clients[i], 0, sizeof(clients[i]));
		buf_init(&clients[i].in, 1 << 24);
		buf_init(&clients[i].out, 1 << 24);
		torch_session_init(&clients[i].session, s, out_of);
		clients[i].session.changed = twin_follows;
	}
	while (size >= 2) {
		struct client *k = &clients[data[0] % CLIENTS];
		size_t n = data[1] < size - 2 ? data[1] : size - 2;

		if (!k->gone)
			feed(k, data + 2, n);
		store_answer_all(s);
		data += 2 + n;
		size -= 2 + n;
	}
	for (int i = 0; i < CLIENTS; i++) {
		torch_session_release(&clients[i].session);
		store_answer_all(s);
		buf_release(&clients[i].in);
		buf_release(&clients[i].out);
	}
	require(!store_woken(s));
	require(twin_is(s));
	store_free(twin);
	store_free(s);
	return 0;
}
