/* remote_env.h: which of the head's environment variables a host gets, and the
 * PATH there. Pure. docs/ssh.md documents the list. */
#ifndef LAUNCHER_REMOTE_ENV_H
#define LAUNCHER_REMOTE_ENV_H

/* 1 if "NAME=VALUE" is sent; 0 if it belongs to this host, to this login
 * session or to a scheduler's task. */
int remote_env_travels(const char *variable);

/* PATH on a host: the head's, then the folders that only the host's own has.
 * The caller frees it. NULL: no memory. */
char *remote_env_path(const char *head, const char *own);

#endif
