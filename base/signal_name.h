/* signal_name.h: the names of signals, for messages. */
#ifndef BASE_SIGNAL_NAME_H
#define BASE_SIGNAL_NAME_H

enum { SIGNAL_NAME_MAX = 24 };

/* "SIGKILL", or "signal 40" if it has no name, into out[SIGNAL_NAME_MAX];
 * returns out. */
const char *signal_name(int number, char *out);

#endif
