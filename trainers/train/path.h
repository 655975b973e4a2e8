/* path.h: whether a file can be made. */
#ifndef TRAINERS_PATH_H
#define TRAINERS_PATH_H

/* 0 if a file can be made in the folder that path is in (tried, not asked),
 * else -errno; -EISDIR if path is a folder itself. */
int path_can_write(const char *path);

#endif
