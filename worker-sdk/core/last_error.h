/* last_error.h: this thread's error, which ddp_last_error returns. Public
 * functions pass it down; the text is written once, where the error is born. */
#ifndef SDK_LAST_ERROR_H
#define SDK_LAST_ERROR_H

#include "base/error.h"

/* This thread's; never NULL. */
struct err *ddp__last_error(void);

#endif
