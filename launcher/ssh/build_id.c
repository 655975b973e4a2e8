/* build_id.c: reads our own ELF notes and /proc/self/exe. */
#include "launcher/ssh/build_id.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/file.h"

#define ALIGN4(n) (((n) + 3u) & ~(size_t)3u)

static void build_id_put_hex(const unsigned char *p, size_t n, char *out)
{
	if (n > (BUILD_ID_MAX - 1) / 2)
		n = (BUILD_ID_MAX - 1) / 2;
	for (size_t i = 0; i < n; i++)
		sprintf(out + 2 * i, "%02x", p[i]);
}

static void build_id_scan_notes(const char *p, size_t left, char *out)
{
	ElfW(Nhdr) note;

	while (left >= sizeof(note)) {
		size_t name, desc;

		memcpy(&note, p, sizeof(note));
		name = ALIGN4(note.n_namesz);
		desc = ALIGN4(note.n_descsz);
		if (name + desc > left - sizeof(note))
			return;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    memcmp(p + sizeof(note), "GNU", 4) == 0)
			build_id_put_hex((const unsigned char *)p +
						 sizeof(note) + name,
					 note.n_descsz, out);
		p += sizeof(note) + name + desc;
		left -= sizeof(note) + name + desc;
	}
}

/* The first object is the program itself. */
static int build_id_on_object(struct dl_phdr_info *info, size_t size, void *out)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];

		if (h->p_type == PT_NOTE)
			build_id_scan_notes(
				(const char *)(info->dlpi_addr + h->p_vaddr),
				h->p_memsz, out);
	}
	return 1;
}

static unsigned long long build_id_file_size(const char *path)
{
	struct stat st;

	return stat(path, &st) < 0 ? 0 : (unsigned long long)st.st_size;
}

static void build_id_find_files(struct build_id *b)
{
	ssize_t n = readlink("/proc/self/exe", b->self, sizeof(b->self) - 1);
	char *slash;

	if (n <= 0)
		return;
	b->self[n] = '\0';
	b->self_size = build_id_file_size("/proc/self/exe");
	slash = strrchr(b->self, '/');
	if (!slash || snprintf(b->server, sizeof(b->server), "%.*s/ddprdzv",
			       (int)(slash - b->self), b->self) >=
			      (int)sizeof(b->server))
		b->server[0] = '\0';
	b->server_size = build_id_file_size(b->server);
	if (!b->server_size)
		b->server[0] = '\0';
}

void build_id_init(struct build_id *b)
{
	struct utsname u;

	memset(b, 0, sizeof(*b));
	build_id_find_files(b);
	dl_iterate_phdr(build_id_on_object, b->id);
	if (!b->id[0])
		snprintf(b->id, sizeof(b->id), "%.40s-%llu", DDP_VERSION,
			 b->self_size);
	if (uname(&u) == 0)
		snprintf(b->machine, sizeof(b->machine), "%s", u.machine);
}

int build_id_read(const char *path, struct buf *out, struct err *e)
{
	struct stat st;
	char *to;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int rc = fd < 0 || fstat(fd, &st) < 0 ? err_negative(-errno) : 0;

	if (rc == 0) {
		to = buf_reserve(out, (size_t)st.st_size);
		rc = to ? file_read_all(fd, to, (size_t)st.st_size) : -ENOMEM;
		if (rc == 0)
			out->len += (size_t)st.st_size;
	}
	if (fd >= 0)
		close(fd);
	return rc < 0 ? err_set(e, rc, "cannot read '%s': %s", path,
				strerror(-rc)) : 0;
}
