/* fuzz_pmi: messages of a node's ranks on PMI_FD, and of another node's agent
 * in an exchange. The input is segments: a byte with the rank and flags
 * (seeds_pmi.c), a byte with the length, and that many bytes. Each answer must
 * be a line of PMI-1, and each node must have the keys of an exchange. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/pmi/pmi_server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NODES = 2, RANKS = 2, WHOSE = 0x03, ENDS = 0x40, IS_PART = 0x80 };

static struct pmi_server servers[NODES];

static void require(int ok)
{
	if (!ok)
		abort();
}

static void check_answers(void)
{
	for (int i = 0; i < NODES * RANKS; i++) {
		struct buf *out = &servers[i / RANKS].ranks[i % RANKS].out;
		size_t at = 0;

		while (at < out->len) {
			const char *line = out->data + at;
			const char *end = memchr(line, '\n', out->len - at);

			require(end && !memcmp(line, "cmd=", 4));
			at += (size_t)(end - line) + 1;
		}
		buf_reset(out);
	}
}

/* a has all keys of b, except those that b has put since. */
static void check_keys(struct pmi_server *from, struct pmi_server *to)
{
	for (size_t i = 0; i < from->keys.cap; i++) {
		const struct key_entry *k = &from->keys.entries[i];
		struct slice value;

		require(!k->key ||
			key_space_get(&to->keys, SLICE(k->key, k->key_len),
				      &value));
	}
}

/* 1: all ranks may continue. */
static int exchange(void)
{
	struct buf parts[NODES] = {BUF_INIT(1 << 24), BUF_INIT(1 << 24)};
	struct slice all[NODES];
	int rc = 0;

	for (int i = 0; i < NODES; i++) {
		pmi_server_take(&servers[i], &parts[i]);
		all[i] = SLICE(parts[i].data, parts[i].len);
		require(!parts[i].failed);
	}
	for (int i = 0; i < NODES && rc >= 0; i++) {
		struct err e = ERR_INIT;

		rc = pmi_server_finish(&servers[i], all, &e);
		require(rc >= 0 || e.text[0]);
	}
	if (rc >= 0)
		check_keys(&servers[0], &servers[1]);
	for (int i = 0; i < NODES; i++)
		buf_release(&parts[i]);
	return rc >= 0;
}

/* Bytes that no agent of ours sends. */
static void take_part(struct slice bytes)
{
	struct buf mine = BUF_INIT(1 << 24);
	struct err e = ERR_INIT;
	struct slice all[NODES];

	pmi_server_take(&servers[0], &mine);
	all[0] = SLICE(mine.data, mine.len);
	all[1] = bytes;
	require(pmi_server_finish(&servers[0], all, &e) >= 0 || e.text[0]);
	buf_release(&mine);
}

/* 0: the round is over. */
static int play(uint8_t how, struct slice bytes)
{
	struct pmi_server *s = &servers[(how & WHOSE) / RANKS];
	uint32_t rank = (how & WHOSE) % RANKS;
	struct err e = ERR_INIT;
	int rc = 1;

	if (how & IS_PART) {
		take_part(bytes);
		rc = 0;
	} else if (pmi_server_receive(s, rank, bytes, &e) < 0) {
		require(e.text[0]);
		rc = 0;
	} else if (how & ENDS) {
		pmi_server_ended(s, rank);
	}
	while (rc && pmi_server_is_ready(&servers[0]) &&
	       pmi_server_is_ready(&servers[1]))
		rc = exchange();
	check_answers();
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t layout[NODES] = {RANKS, RANKS};
	struct pmi_server_round round = {.name = "j-0", .nproc = RANKS,
					 .world_size = NODES * RANKS,
					 .nnodes = NODES};
	struct err e = ERR_INIT;

	for (uint32_t i = 0; i < NODES; i++) {
		round.node_rank = i;
		round.base_rank = i * RANKS;
		require(pmi_server_init(&servers[i], &round, &e) == 0);
		pmi_server_set_layout(&servers[i], layout);
	}
	while (size >= 2) {
		size_t n = data[1] < size - 2 ? data[1] : size - 2;

		if (!play(data[0], SLICE((const char *)data + 2, n)))
			break;
		data += 2 + n;
		size -= 2 + n;
	}
	for (int i = 0; i < NODES; i++)
		pmi_server_release(&servers[i]);
	return 0;
}
