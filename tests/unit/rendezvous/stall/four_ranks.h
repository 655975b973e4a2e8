/* four_ranks.h: a job of four ranks on two hosts, and what a rank's agent
 * reports of it. Each test begins with a new one. */
#ifndef TESTS_FOUR_RANKS_H
#define TESTS_FOUR_RANKS_H

#include <check.h>

#include "rendezvous/stall/stall.h"
#include "tests/unit/run_case.h"

enum { PATIENCE = 30000 };

static struct stall s;
static struct stall_news news;

static const char *host(void *arg, uint32_t rank)
{
	return rank < 2 ? "h1" : "h2";
}

static void begin(void)
{
	ck_assert_int_eq(stall_init(&s, 4, PATIENCE), 0);
	s.host = host;
}

static void end(void)
{
	stall_release(&s);
}

static struct wire_rank rank_at(uint32_t rank, enum wire_doing doing,
				uint64_t quiet_ms, const char *words)
{
	return (struct wire_rank){
		.rank = rank,
		.local_rank = rank % 2,
		.pid = 100 + rank,
		.doing = (uint8_t)doing,
		.quiet_ms = quiet_ms,
		.does_ms = quiet_ms,
		.peer = -1,
		.step = -1,
		.words = SLICE_STR(words),
	};
}

#endif
