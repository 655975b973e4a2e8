/* page.h: what this node's workers do, for somebody elsewhere who asks: a child
 * of ours (`ddprun dump --agent OURS`) writes it, so that nothing here waits
 * for stacks. Several at once. Knows no server. */
#ifndef LAUNCHER_PAGE_H
#define LAUNCHER_PAGE_H

#include <sys/types.h>

#include "base/loop.h"
#include "rendezvous/wire.h"

struct page;

/* The page that was asked for; once for each pages_start, unless pages_close
 * comes before. It may be called in pages_start. */
typedef void pages_on_page(void *owner, const struct wire_page *page);

struct pages {
	uv_loop_t *loop;
	struct page *list; /* under way */
	unsigned n;
	pages_on_page *on_page;
	void *owner;
};

void pages_init(struct pages *p, uv_loop_t *loop, pages_on_page *on_page,
		void *owner);
void pages_start(struct pages *p, const struct wire_look *look);
/* A child ended: 1 if it wrote a page. */
int pages_reaped(struct pages *p, pid_t pid, int status);
/* Kills those who still write; nobody hears of them. Handles close later. */
void pages_close(struct pages *p);

#endif
