/* node_mail.h: letters among the agents of a round, through the round's store:
 * a letter to node N increments the counter "MPI/mail/N" to K and sets the key
 * "MPI/mail/N/K", which the node waits for, gets and deletes. Letters of one
 * node to another arrive in order. Knows nothing of their contents. */
#ifndef LAUNCHER_NODE_MAIL_H
#define LAUNCHER_NODE_MAIL_H

#include "launcher/pmi/round_client.h"

struct node_mail;

struct node_mail_events {
	/* A letter to this node; valid until return. */
	void (*on_letter)(struct node_mail *m, struct slice letter);
	/* The server refused. Not called once the round is over. */
	void (*on_failed)(struct node_mail *m, const struct err *why);
	void (*on_closed)(struct node_mail *m);
};

enum node_mail_step {
	MAIL_IDLE,
	MAIL_COUNT, MAIL_SET,	       /* about a letter that is sent */
	MAIL_WAIT, MAIL_GET, MAIL_DELETE, /* about the next letter to this
					   * node */
};

struct node_mail_letter {
	struct node_mail_letter *next;
	uint32_t node;
	struct buf bytes;
};

struct node_mail {
	void *owner;
	const struct node_mail_events *events;
	uint32_t node_rank;
	/* two clients, because the wait for a letter may last for ever */
	struct round_client in, out;
	enum node_mail_step in_step, out_step;
	int64_t in_number, out_number;
	struct node_mail_letter *first, **last; /* to be sent */
	int open_clients, is_closing, has_out;
};

/* Starts to wait for letters. The pointers in self outlive m. After an error m
 * needs no close. */
int node_mail_start(struct node_mail *m, uv_loop_t *loop,
		    const struct round_client_self *self, uint32_t node_rank,
		    const struct node_mail_events *events, void *owner,
		    struct err *e);
/* Copies the letter. -ENOMEM, or as round_client_start. */
int node_mail_send(struct node_mail *m, uint32_t node, struct slice letter,
		   struct err *e);
/* Letters that are not sent yet are dropped. on_closed follows, from the loop;
 * then m may be freed. */
void node_mail_close(struct node_mail *m);

#endif
