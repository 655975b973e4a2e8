/* key.c: keyed BLAKE2b. */
#include "worker-sdk/core/key.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

static_assert(DDP__KEY == crypto_generichash_KEYBYTES &&
	      DDP__COOKIE >= crypto_generichash_KEYBYTES_MIN,
	      "libsodium's sizes");

void ddp__key_for(unsigned char key[DDP__KEY],
		  const unsigned char cookie[DDP__COOKIE], const char *use)
{
	crypto_generichash(key, DDP__KEY, (const unsigned char *)use,
			   strlen(use), cookie, DDP__COOKIE);
}
