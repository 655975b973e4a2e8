/* remote_tree.h: the hosts that one process reaches: some by an ssh of its own,
 * others through these hosts. Addresses each by its number and forwards frames
 * in both directions. Knows no job. */
#ifndef LAUNCHER_REMOTE_TREE_H
#define LAUNCHER_REMOTE_TREE_H

#include "launcher/ssh/remote_link.h"

struct remote_tree;

struct remote_tree_events {
	/* A frame from host f->host, or about it: OPEN and LOST may be made
	 * here. Nothing follows LOST. */
	void (*on_frame)(struct remote_tree *t, const struct remote_frame *f);
	/* After remote_tree_release: every ssh has exited. */
	void (*on_gone)(struct remote_tree *t);
};

struct remote_tree {
	void *owner;
	const struct remote_tree_events *events;
	struct ssh_options how;
	struct remote_branch branch; /* a copy; its texts are in ssh */
	struct buf ssh;
	struct build_id build;
	struct remote_link *links;   /* our own */
	struct slice *behind;        /* for each link, a list of hosts */
	char **names;
	uint32_t n;                  /* number of links */
	uint32_t *numbers, *via;     /* hosts by number, and their links */
	uint32_t hosts;
	uint32_t live;               /* links that still exist */
	int releasing;
};

/* Makes a tree without hosts, which may be released and freed. */
void remote_tree_init(struct remote_tree *t,
		      const struct remote_tree_events *events, void *owner);
/* Copies b. Reports hosts that fail at once as LOST, from inside this call.
 * -ENOMEM. */
MUST_CHECK int remote_tree_start(struct remote_tree *t, uv_loop_t *loop,
				 const struct remote_branch *b, struct err *e);
/* After on_gone. */
void remote_tree_free(struct remote_tree *t);

void remote_tree_send(struct remote_tree *t, uint32_t host, uint8_t type,
		      struct slice body);
/* As remote_pipe_send_buf. */
void remote_tree_send_buf(struct remote_tree *t, uint32_t host, uint8_t type,
			  const struct buf *body);
/* This host, or one behind it, sent nonsense: ends its link; all hosts of the
 * link are LOST. */
void remote_tree_break(struct remote_tree *t, uint32_t host, const char *why);
/* 1 if this host is in the tree. */
int remote_tree_has(const struct remote_tree *t, uint32_t host);
void remote_tree_pause(struct remote_tree *t, int paused);
/* Ends every ssh within ms. */
void remote_tree_release(struct remote_tree *t, uint64_t ms);
int remote_tree_reaped(struct remote_tree *t, pid_t pid, int status);

#endif
