/* stage_folder.h: the entries of the folder that keeps copies (stage_copy.c):
 * their names, locks and removal. Knows nothing of what is in them. */
#ifndef LAUNCHER_STAGE_FOLDER_H
#define LAUNCHER_STAGE_FOLDER_H

#include "base/error.h"

/* Makes the folder that keeps copies, and checks that only this user may write
 * there. wanted: the user's choice; NULL: ddprun-stage-UID below TMPDIR or
 * /tmp. Its path without symbolic links into out[PATH_MAX]. */
int stage_folder_open(const char *wanted, char *out, struct err *e);

/* Keeps the complete copy in dir from being removed while the descriptor that
 * it returns is open. -ENOENT and a text: it is gone. */
int stage_folder_hold(const char *dir, struct err *e);

enum { STAGE_BOOT_SIZE = 37 };

/* This boot of the host, as text; "" if the kernel does not say. */
void stage_folder_boot(char out[STAGE_BOOT_SIZE]);

/* Finds an incomplete copy beside the complete one's path that nobody uses,
 * and locks it. Its descriptor, with its path in out[PATH_MAX]; or -1. */
int stage_folder_adopt(const char *folder, const char *complete, char *out);
/* Makes and locks a new one. */
int stage_folder_make(const char *complete, char *out, struct err *e);

/* Gives a copy its name, which is changed if another process was faster. 0 or
 * -errno. */
int stage_folder_rename(const char *part, char *complete);

/* Takes a damaged copy out of the way, and removes it if nobody uses it. */
void stage_folder_discard(const char *dir);
/* Removes all copies of the same source but dir that nobody uses. */
void stage_folder_clean(const char *folder, const char *dir);

#endif
