/* path.h: folders on the way to a file. */
#ifndef TRAINERS_PATH_H
#define TRAINERS_PATH_H

/* Makes dir and the folders above it where they are missing. 0 or -errno. */
int path_make_folders(const char *dir);

/* 0 if a file can be made in the folder that path is in (tried, not asked),
 * else -errno; -EISDIR if path is a folder itself. */
int path_can_write(const char *path);

#endif
