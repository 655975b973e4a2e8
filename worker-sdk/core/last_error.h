/* last_error.h: the error of this thread, which ddp_last_error shows. Public
 * functions hand it down; the text is written once, where the error is born. */
#ifndef SDK_LAST_ERROR_H
#define SDK_LAST_ERROR_H

#include "base/error.h"

/* This thread's; never NULL. */
struct err *ddp__last_error(void);

#endif
