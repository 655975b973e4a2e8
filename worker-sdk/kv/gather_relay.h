/* gather_relay.h: relays the list of a large gather, so that it leaves the
 * server only once: this rank receives it from the rank that the server names
 * (protocol.txt, SHARE), and passes it to the ranks that the server sends here.
 * Only blocks in poll(2).
 *
 * The list may hold addresses and keys of the data plane. So it travels
 * encrypted, and only to a rank that proves knowledge of the relaying rank's
 * token. The relaying rank draws the token, and the server hands it to the
 * receivers; it is never sent between the two ranks. */
#ifndef SDK_GATHER_RELAY_H
#define SDK_GATHER_RELAY_H

#include "rendezvous/auth/cipher.h"
#include "rendezvous/client/client.h"
#include "worker-sdk/tcp/tcp_listen.h"

/* This rank's listener and token as a relay. */
struct ddp__relay {
	struct ddp__listener listener;
	char token[WIRE_TOKEN_SIZE];
};

/* Listens at addr, where other hosts reach this one, and describes it in m, the
 * request to the server. addr NULL, or not usable: m says that this rank does
 * not relay. m points into relay and to addr. */
void ddp__relay_open(struct ddp__relay *relay, const char *addr,
		    struct wire_share *m);
void ddp__relay_close(struct ddp__relay *relay);

/* Receives the list of `size` values (without its count) from the rank that
 * `answer`, the server's answer, names, or from c if that fails; and relays it
 * until all expected ranks have been served, or nothing has moved for 5 s.
 * Cannot deadlock: when the server answers all ranks have called, and each
 * waits first for ranks nearer to the server, then for those farther away. 0,
 * *list and *bytes, which the caller frees; else c's error or -ENOMEM. */
int ddp__relay_on(const struct ddp__relay *relay, struct client *c,
		 const struct wire_shared *answer, uint32_t size, char **list,
		 size_t *bytes, struct err *e);

#endif
