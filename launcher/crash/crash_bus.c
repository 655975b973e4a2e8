/* crash_bus.c: the file at an address, and how full its file system is. Only
 * the process itself knows: in a container, the same path is another file for
 * its agent. */
#include "launcher/crash/crash_internal.h"

#include "launcher/crash/crash_kernel.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#if defined(__x86_64__) || defined(__aarch64__)

enum { AT_CWD = -100, OPEN_READ_CLOEXEC = 02000000, BLOCK = 1024 };

/* A line of /proc/self/maps, as far as it has been read:
 * "START-END rwxp OFFSET DEVICE INODE   PATH". */
struct crash_map {
	uint64_t start, end, offset;
	uint32_t field;
	uint32_t size; /* bytes of the path */
	int is_long;   /* the path does not fit */
	char path[CRASH_PATH];
};

/* Static, since the signal's stack may be small. Only one thread dies here. */
static struct crash_map crash_map;
static char crash_parent[CRASH_PATH];

static void crash_map_begin(struct crash_map *m)
{
	m->start = m->end = m->offset = 0;
	m->field = m->size = 0;
	m->is_long = 0;
}

static void crash_map_put(struct crash_map *m, char c)
{
	uint64_t *number = m->field == 0   ? &m->start
			   : m->field == 1 ? &m->end
			   : m->field == 3 ? &m->offset
					   : NULL;

	if (m->size > 0 || c == '/') {
		m->is_long |= m->size >= CRASH_PATH - 1;
		if (!m->is_long)
			m->path[m->size++] = c;
	} else if (c == ' ' || (c == '-' && m->field == 0)) {
		m->field++;
	} else if (number) {
		*number = *number << 4 |
			  (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
}

/* 1: m is the line of the address. */
static int crash_map_find(struct crash_map *m, uint64_t address)
{
	static char block[BLOCK];
	int fd = (int)CALL(SYS_openat, AT_CWD, "/proc/self/maps",
			   OPEN_READ_CLOEXEC, 0);
	int found = 0;
	long n;

	crash_map_begin(m);
	while (fd >= 0 && !found &&
	       (n = CALL(SYS_read, fd, block, sizeof(block))) > 0) {
		for (long i = 0; i < n && !found; i++) {
			if (block[i] != '\n')
				crash_map_put(m, block[i]);
			else if (address >= m->start && address < m->end)
				found = 1;
			else
				crash_map_begin(m);
		}
	}
	if (fd >= 0)
		CALL(SYS_close, fd);
	return found;
}

/* Takes " (deleted)" off; 1 if it was there. */
static int crash_bus_undelete(struct crash_map *m)
{
	static const char mark[] = " (deleted)";
	const uint32_t n = sizeof(mark) - 1;

	if (m->size <= n)
		return 0;
	for (uint32_t i = 0; i < n; i++)
		if (m->path[m->size - n + i] != mark[i])
			return 0;
	m->size -= n;
	return 1;
}

/* Shortens path to the folder above it. 0: there is none. */
static int crash_bus_up(char *path)
{
	uint32_t n = 0, slash = 0;

	for (; path[n]; n++)
		if (path[n] == '/')
			slash = n;
	if (n <= 1)
		return 0;
	path[slash ? slash : 1] = '\0';
	return 1;
}

/* The folder where the file system of f's file is mounted, and its room. */
static void crash_bus_put_mount(struct crash_file *f)
{
	struct stat in = {.st_dev = 0}, above = {.st_dev = 0};
	struct statfs fs = {.f_blocks = 0};
	char *parent = crash_parent;

	memcpy(f->mount, f->path, sizeof(f->mount));
	if (!crash_bus_up(f->mount) ||
	    CALL(SYS_newfstatat, AT_CWD, f->mount, &in, 0) < 0)
		return;
	memcpy(parent, f->mount, CRASH_PATH);
	while (crash_bus_up(parent) &&
	       CALL(SYS_newfstatat, AT_CWD, parent, &above, 0) == 0 &&
	       above.st_dev == in.st_dev)
		memcpy(f->mount, parent, CRASH_PATH);
	if (CALL(SYS_statfs, f->mount, &fs) < 0)
		return;
	f->fs_blocks = fs.f_blocks;
	f->fs_free = fs.f_bfree;
	f->fs_available = fs.f_bavail;
	f->fs_block = fs.f_frsize ? (uint64_t)fs.f_frsize
				  : (uint64_t)fs.f_bsize;
}

void crash_bus_put(struct crash_file *f, uint64_t address)
{
	struct crash_map *m = &crash_map;
	struct stat st = {.st_size = 0};

	if (!crash_map_find(m, address) || m->size == 0 || m->is_long)
		return;
	f->is_deleted = crash_bus_undelete(m);
	m->path[m->size] = '\0';
	memcpy(f->path, m->path, sizeof(f->path));
	f->at = address - m->start + m->offset;
	f->size = CRASH_UNLIMITED;
	if (!f->is_deleted &&
	    CALL(SYS_newfstatat, AT_CWD, f->path, &st, 0) == 0)
		f->size = (uint64_t)st.st_size;
	crash_bus_put_mount(f);
}

#endif
