/* old_glibc.h: `make wheel` includes it before each source, because the headers
 * of its compiler may be newer than the functions of glibc 2.28. */
#define DDP_OLD_GLIBC 1
