/* key.h: keys of the data plane, one per use. */
#ifndef SDK_KEY_H
#define SDK_KEY_H

enum {
	DDP__COOKIE = 16, /* random bytes that a rank reveals only to its own
			   * job */
	DDP__KEY = 32
};

/* Derives the key for a use ("messages") from the cookie. It reveals neither
 * the cookie nor the key for another use. */
void ddp__key_for(unsigned char key[DDP__KEY],
		  const unsigned char cookie[DDP__COOKIE], const char *use);

#endif
