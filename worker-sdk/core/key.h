/* key.h: keys of the data plane, each for one use. */
#ifndef SDK_KEY_H
#define SDK_KEY_H

enum {
	DDP__COOKIE = 16, /* random bytes that a rank shows to its job alone */
	DDP__KEY = 32
};

/* The key that this cookie gives for this use ("messages"): it tells nothing of
 * the cookie, or of the key for another use. */
void ddp__key_for(unsigned char key[DDP__KEY],
		  const unsigned char cookie[DDP__COOKIE], const char *use);

#endif
