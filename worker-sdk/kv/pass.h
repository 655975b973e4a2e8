/* pass.h: the list of a large gather, which leaves the server once: this rank
 * has it from another one, as the server says (protocol.txt, SHARE), and passes
 * it on to those that the server sends here. Blocks in poll(2) only.
 *
 * The addresses and keys of the data plane may be in it, so it travels sealed,
 * and only to comers who show that they have the token of the rank that passes
 * it on; the token itself, which the server tells both, never travels here. */
#ifndef SDK_PASS_H
#define SDK_PASS_H

#include "rendezvous/auth/cipher.h"
#include "rendezvous/client/client.h"
#include "worker-sdk/tcp/tcp_listen.h"

/* Where this rank passes it on. */
struct ddp__pass {
	struct ddp__listener listener;
	char token[WIRE_TOKEN_SIZE];
};

/* Listens at addr, where other hosts reach this one, and says so in m, which is
 * to be asked. NULL, or where nobody can listen there: m says that this rank
 * passes nothing on. m points into pass and to addr. */
void ddp__pass_open(struct ddp__pass *pass, const char *addr,
		    struct wire_share *m);
void ddp__pass_close(struct ddp__pass *pass);

enum {
	DDP__PASS_RANDOM = 16,
	DDP__PASS_HELLO = DDP__PASS_RANDOM + PROOF_SIZE,
};

/* Makes what a rank that connects sends, once: random bytes and their MAC under
 * token. 0, or random_bytes()'s error. */
int ddp__pass_hello(unsigned char hello[DDP__PASS_HELLO], const char *token,
		    struct err *e);
/* Sets w to seal or open the records that follow a salt of DDP__PASS_RANDOM
 * bytes. The rank whose token this is sends all that connect the same ones. */
void ddp__pass_way(struct cipher_way *w, const char *token, const void *salt);

/* Has the list of size values (without its count) from where told, c's answer
 * to it, says, from c itself if that fails, and passes it on, until all who are
 * to come have come or nothing has moved for 5 s. It waits for no one who waits
 * for something else: all ranks have called when the server answers, and each
 * waits for who is nearer to the server, and then for who is farther. 0 and
 * *list, *bytes, the caller's to free; or c's error, -ENOMEM. */
int ddp__pass_on(const struct ddp__pass *pass, struct client *c,
		 const struct wire_shared *told, uint32_t size, char **list,
		 size_t *bytes, struct err *e);

#endif
