/* remote_env.h: which of the head's variables a host gets, and what becomes of
 * its own. Pure. docs/ssh.md lists them for people. */
#ifndef LAUNCHER_REMOTE_ENV_H
#define LAUNCHER_REMOTE_ENV_H

/* 1: "NAME=VALUE" is the user's and travels; 0: it is of this host, of this
 * login session or of the scheduler's task here. */
int remote_env_travels(const char *variable);

/* What PATH is on a host: the head's, then what only the host's own has.
 * -> malloc'ed, NULL: no memory. */
char *remote_env_path(const char *head, const char *own);

#endif
