/* mpi_program.c: reads DT_NEEDED, as the dynamic linker does, and the symbols
 * of a program that contains an MPI library (elf(5)). */
#include "launcher/plan/plan.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Files above this size count as no MPI program. */
enum { FILE_MAX = 1 << 30 };

/* Open MPI and Intel MPI; Debian's MPICH; NVSHMEM, which starts up by PMI. */
static const char *const libraries[] = {
	"libmpi.so", "libmpich.so", "libmpi_cxx.so", "libmpicxx.so",
	"libmpifort.so", "libmpi_mpifh.so", "liboshmem.so",
	"libnvshmem_host.so", NULL,
};

/* What only a statically linked program contains: symbols inside the library. A
 * program that uses the shared library does not refer to them. */
static const struct {
	const char *symbol, *library;
} archives[] = {
	{"MPIR_Process", "libmpich.a"}, /* also Intel MPI's */
	{"ompi_mpi_init", "libmpi.a of Open MPI"},
};

/* "libmpi.so.12" matches "libmpi.so", "libmpi.so2" does not. */
static int mpi_program_is_one_of(const char *name, const char *const *list)
{
	for (; *list; list++) {
		size_t n = strlen(*list);

		if (strncmp(name, *list, n) == 0 &&
		    (name[n] == '\0' || name[n] == '.'))
			return 1;
	}
	return 0;
}

int mpi_program_speaks_pmi(const char *library)
{
	static const char *const speaking[] = {
		"libmpi.so.12", "libmpich.so", "libmpicxx.so",
		"libmpifort.so", "libnvshmem_host.so", "libmpich.a", NULL,
	};

	return mpi_program_is_one_of(library, speaking);
}

int mpi_program_speaks_pmix(const char *library)
{
	static const char *const speaking[] = {
		"libmpi.so.40", "libmpi_cxx.so.40", "libmpi_mpifh.so.40",
		"liboshmem.so.40", "libmpi.a of Open MPI", NULL,
	};

	return mpi_program_is_one_of(library, speaking);
}

/* Copies n bytes at offset; 0 if the file ends before. */
static int mpi_program_read(struct slice file, uint64_t offset, void *to,
			    size_t n)
{
	if (offset > file.len || n > file.len - offset)
		return 0;
	memcpy(to, file.data + offset, n);
	return 1;
}

static int mpi_program_header(struct slice file, Elf64_Ehdr *h)
{
	const uint16_t one = 1;
	const unsigned char order =
		*(const char *)&one ? ELFDATA2LSB : ELFDATA2MSB;

	return mpi_program_read(file, 0, h, sizeof(*h)) &&
	       memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 &&
	       h->e_ident[EI_CLASS] == ELFCLASS64 &&
	       h->e_ident[EI_DATA] == order &&
	       h->e_phentsize == sizeof(Elf64_Phdr);
}

static int mpi_program_segment(struct slice file, const Elf64_Ehdr *h, int i,
			       Elf64_Phdr *p)
{
	return mpi_program_read(file, h->e_phoff + i * sizeof(*p), p,
				sizeof(*p));
}

/* The file offset of a virtual address; UINT64_MAX: none. */
static uint64_t mpi_program_offset(struct slice file, const Elf64_Ehdr *h,
				   uint64_t address)
{
	Elf64_Phdr p;

	for (int i = 0; i < h->e_phnum; i++) {
		if (mpi_program_segment(file, h, i, &p) &&
		    p.p_type == PT_LOAD && address >= p.p_vaddr &&
		    address - p.p_vaddr < p.p_filesz)
			return address - p.p_vaddr + p.p_offset;
	}
	return UINT64_MAX;
}

/* The entry i of the dynamic section; 0 at its end. */
static int mpi_program_entry(struct slice file, const Elf64_Phdr *dynamic,
			     uint64_t i, Elf64_Dyn *d)
{
	return i < dynamic->p_filesz / sizeof(*d) &&
	       mpi_program_read(file, dynamic->p_offset + i * sizeof(*d), d,
				sizeof(*d)) &&
	       d->d_tag != DT_NULL;
}

static int mpi_program_needs(struct slice file, const Elf64_Ehdr *h,
			     const Elf64_Phdr *dynamic,
			     char out[MPI_LIBRARY_MAX])
{
	uint64_t names = UINT64_MAX;
	Elf64_Dyn d;

	for (uint64_t i = 0; mpi_program_entry(file, dynamic, i, &d); i++)
		if (d.d_tag == DT_STRTAB)
			names = mpi_program_offset(file, h, d.d_un.d_ptr);
	if (names >= file.len)
		return 0;
	for (uint64_t i = 0; mpi_program_entry(file, dynamic, i, &d); i++) {
		size_t left = file.len - names;
		size_t n = MPI_LIBRARY_MAX - 1;

		if (d.d_tag != DT_NEEDED || d.d_un.d_val >= left)
			continue;
		left -= d.d_un.d_val;
		if (n > left)
			n = left;
		memcpy(out, file.data + names + d.d_un.d_val, n);
		out[n] = '\0';
		if (mpi_program_is_one_of(out, libraries))
			return 1;
	}
	out[0] = '\0';
	return 0;
}

/* ---- a library inside the program ---- */

static int mpi_program_section(struct slice file, const Elf64_Ehdr *h,
			       uint32_t i, Elf64_Shdr *s)
{
	return i < h->e_shnum && h->e_shentsize == sizeof(*s) &&
	       h->e_shoff < file.len &&
	       mpi_program_read(file, h->e_shoff + i * sizeof(*s), s,
				sizeof(*s));
}

/* The names of the program's symbols, each after a NUL; len 0: it has been
 * stripped. */
static struct slice mpi_program_names(struct slice file, const Elf64_Ehdr *h)
{
	Elf64_Shdr s, names;

	for (uint32_t i = 0; mpi_program_section(file, h, i, &s); i++)
		if (s.sh_type == SHT_SYMTAB &&
		    mpi_program_section(file, h, s.sh_link, &names) &&
		    names.sh_offset <= file.len &&
		    names.sh_size <= file.len - names.sh_offset)
			return SLICE(file.data + names.sh_offset,
				     names.sh_size);
	return SLICE("", 0);
}

static int mpi_program_contains(struct slice file, const Elf64_Ehdr *h,
				char out[MPI_LIBRARY_MAX])
{
	struct slice names = mpi_program_names(file, h);
	char word[MPI_LIBRARY_MAX];

	for (size_t i = 0; i < sizeof(archives) / sizeof(*archives); i++) {
		size_t n = strlen(archives[i].symbol);

		word[0] = '\0';
		memcpy(word + 1, archives[i].symbol, n + 1);
		if (!names.len ||
		    !memmem(names.data, names.len, word, n + 2))
			continue;
		strcpy(out, archives[i].library);
		return 1;
	}
	return 0;
}

int mpi_program_library_of(struct slice file, char out[MPI_LIBRARY_MAX])
{
	Elf64_Ehdr h;
	Elf64_Phdr p;

	out[0] = '\0';
	if (!mpi_program_header(file, &h))
		return 0;
	for (int i = 0; i < h.e_phnum; i++)
		if (mpi_program_segment(file, &h, i, &p) &&
		    p.p_type == PT_DYNAMIC)
			return mpi_program_needs(file, &h, &p, out) ||
			       mpi_program_contains(file, &h, out);
	return mpi_program_contains(file, &h, out);
}

/* The text of PT_INTERP, which ends with a NUL. */
static int mpi_program_loader_of(struct slice file, char out[PATH_MAX])
{
	Elf64_Ehdr h;
	Elf64_Phdr p;

	if (!mpi_program_header(file, &h))
		return 0;
	for (int i = 0; i < h.e_phnum; i++)
		if (mpi_program_segment(file, &h, i, &p) &&
		    p.p_type == PT_INTERP)
			return p.p_filesz > 1 && p.p_filesz <= PATH_MAX &&
			       mpi_program_read(file, p.p_offset, out,
						p.p_filesz) &&
			       out[p.p_filesz - 1] == '\0';
	return 0;
}

static int mpi_program_look(const char *path, char *out,
			    int (*look)(struct slice file, char *out))
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int found = 0;
	struct stat st;
	void *bytes;

	out[0] = '\0';
	if (fd < 0)
		return 0;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 &&
	    st.st_size < FILE_MAX) {
		bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE,
			     fd, 0);
		if (bytes != MAP_FAILED) {
			found = look(SLICE(bytes, (size_t)st.st_size), out);
			munmap(bytes, (size_t)st.st_size);
		}
	}
	close(fd);
	return found;
}

int mpi_program_library(const char *path, char out[MPI_LIBRARY_MAX])
{
	return mpi_program_look(path, out, mpi_program_library_of);
}

int mpi_program_loader(const char *path, char out[PATH_MAX])
{
	return mpi_program_look(path, out, mpi_program_loader_of);
}
