/* remote_tree.h: the hosts that one process reaches: some by an ssh of its own,
 * the others behind those. Says what comes of each by its number, and passes
 * on what is for it. Knows no job. */
#ifndef LAUNCHER_REMOTE_TREE_H
#define LAUNCHER_REMOTE_TREE_H

#include "launcher/ssh/remote_link.h"

struct remote_tree;

struct remote_tree_events {
	/* From whichever host: f->host. OPEN and LOST are among them, whether
	 * they were sent or seen here; after LOST nothing comes of it. */
	void (*on_frame)(struct remote_tree *t, const struct remote_frame *f);
	/* Every ssh is gone, after remote_tree_release. */
	void (*on_gone)(struct remote_tree *t);
};

struct remote_tree {
	void *owner;
	const struct remote_tree_events *events;
	struct ssh_how how;
	struct remote_branch branch; /* as it was given */
	struct buf ssh;              /* its text */
	struct build_id build;
	struct remote_link *links;   /* those of our own */
	struct slice *behind;        /* of each link: list of its hosts */
	char **names;
	uint32_t n;                  /* of links */
	uint32_t *numbers, *via;     /* sorted by number; which link */
	uint32_t hosts;
	uint32_t live;  /* links that are not gone */
	int releasing;
};

/* A tree of no hosts: from here on it may be released and freed. */
void remote_tree_init(struct remote_tree *t,
		      const struct remote_tree_events *events, void *owner);
/* b is copied. What fails at once is told as LOST, from here. -ENOMEM. */
MUST_CHECK int remote_tree_start(struct remote_tree *t, uv_loop_t *loop,
				 const struct remote_branch *b, struct err *e);
/* When it is gone. */
void remote_tree_free(struct remote_tree *t);

void remote_tree_send(struct remote_tree *t, uint32_t host, uint8_t type,
		      struct slice body);
/* As remote_pipe_send_buf. */
void remote_tree_send_buf(struct remote_tree *t, uint32_t host, uint8_t type,
			  const struct buf *body);
/* What came of this host, or through it, makes no sense: its link ends, and all
 * behind it are LOST. */
void remote_tree_break(struct remote_tree *t, uint32_t host, const char *why);
/* 1 if this host is one of its. */
int remote_tree_has(const struct remote_tree *t, uint32_t host);
void remote_tree_pause(struct remote_tree *t, int paused);
/* All ssh are to end within ms. */
void remote_tree_release(struct remote_tree *t, uint64_t ms);
int remote_tree_reaped(struct remote_tree *t, pid_t pid, int status);

#endif
