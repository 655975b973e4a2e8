/* member_internal.h: shared by member.c, which runs the table's actions, and
 * member_messages.c, which turns the server's frames into its events and makes
 * the frames for the server. */
#ifndef LAUNCHER_MEMBER_INTERNAL_H
#define LAUNCHER_MEMBER_INTERNAL_H

#include "launcher/membership/member.h"

/* What comes with an event, for its action and the log. */
struct member_news {
	enum membership_state was; /* set by member_handle */
	const struct err *why;
	const struct wire_start *start;
	const struct wire_end *end;
	uint32_t heard; /* notices of the outbox that the server has */
};

/* The one way to change the membership: logs the edge, runs its action. news
 * may be NULL. */
void member_handle(struct member *m, enum membership_event ev,
		   const struct member_news *news);
void member_fail(struct member *m, const struct err *why);

/* A frame of the connection that greeted us, or its refusal to. */
void member_handle_frame(struct member *m, const struct wire_frame *f);

/* Where messages to the server are put; member_flush sends them. */
struct buf *member_out(struct member *m);

/* Clears the outbox. May fail, and then closes the membership. */
void member_send_join(struct member *m);
void member_send_resume(struct member *m);

#endif
