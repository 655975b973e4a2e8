/* gather_relay.h: relays the list of a large gather, which leaves the server
 * only once: this rank receives it from the rank that the server names
 * (protocol.txt, SHARE), and passes it on to the ranks that the server sends
 * here. Blocks in poll(2) only.
 *
 * The list may hold addresses and keys of the data plane. So it travels sealed,
 * and only to a rank that proves that it has the token of the rank that passes
 * it on. The server tells both the token, which never travels here itself. */
#ifndef SDK_GATHER_RELAY_H
#define SDK_GATHER_RELAY_H

#include "rendezvous/auth/cipher.h"
#include "rendezvous/client/client.h"
#include "worker-sdk/tcp/tcp_listen.h"

/* Where this rank passes it on. */
struct ddp__relay {
	struct ddp__listener listener;
	char token[WIRE_TOKEN_SIZE];
};

/* Listens at addr, where other hosts reach this one, and says so in m, which is
 * to be asked. NULL, or where nobody can listen there: m says that this rank
 * passes nothing on. m points into pass and to addr. */
void ddp__relay_open(struct ddp__relay *pass, const char *addr,
		    struct wire_share *m);
void ddp__relay_close(struct ddp__relay *pass);

enum {
	DDP__PASS_RANDOM = 16,
	DDP__PASS_HELLO = DDP__PASS_RANDOM + PROOF_SIZE,
};

/* Makes what a rank that connects sends, once: random bytes and their MAC under
 * token. 0, or random_bytes()'s error. */
int ddp__relay_hello(unsigned char hello[DDP__PASS_HELLO], const char *token,
		    struct err *e);
/* Sets w to seal or open the records that follow a salt of DDP__PASS_RANDOM
 * bytes. The rank whose token this is sends all that connect the same ones. */
void ddp__relay_way(struct cipher_way *w, const char *token, const void *salt);

/* Has the list of size values (without its count) from where told, c's answer
 * to it, says, from c itself if that fails, and passes it on, until all who are
 * to come have come or nothing has moved for 5 s. It waits for no one who waits
 * for something else: all ranks have called when the server answers, and each
 * waits for who is nearer to the server, and then for who is farther. 0 and
 * *list, *bytes, the caller's to free; or c's error, -ENOMEM. */
int ddp__relay_on(const struct ddp__relay *pass, struct client *c,
		 const struct wire_shared *told, uint32_t size, char **list,
		 size_t *bytes, struct err *e);

#endif
