/* last_error.h: this thread's last error, which ddp_last_error returns. Public
 * functions pass it down; its text is written once, where the error is born. */
#ifndef SDK_LAST_ERROR_H
#define SDK_LAST_ERROR_H

#include "base/error.h"

/* This thread's last error; never NULL. */
struct err *ddp__last_error(void);

#endif
