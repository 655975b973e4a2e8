/* process_memory.c: process_vm_readv; symbols by the GNU hash table that the
 * dynamic linker uses as well. Every loop has an end: the memory may be
 * garbage. */
#include "launcher/python/process_memory.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

enum {
	SEGMENTS_MAX = 64,
	DYNAMIC_MAX = 256,
	CHAIN_MAX = 4096,
	NAME_MAX_READ = 64,
	PATH_LINE_MAX = 4352,
};

int process_memory_read(pid_t pid, uint64_t at, void *to, size_t size)
{
	struct iovec into = {to, size};
	struct iovec from = {(void *)(uintptr_t)at, size};
	ssize_t n = process_vm_readv(pid, &into, 1, &from, 1, 0);

	if (n < 0)
		return -errno;
	return (size_t)n == size ? 0 : -EFAULT;
}

int process_memory_each_module(pid_t pid, process_memory_on_module *on_module,
			       void *arg)
{
	char path[64], line[PATH_LINE_MAX];
	unsigned long long from, offset;
	int at = 0, more = 1;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	if (!maps)
		return -errno;
	while (more && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%llx-%*x %*s %llx %*s %*s %n", &from, &offset,
			   &at) != 2 ||
		    offset || line[at] != '/')
			continue;
		line[strcspn(line, "\n")] = '\0';
		more = on_module(arg, from, line + at);
	}
	fclose(maps);
	return 0;
}

struct module {
	pid_t pid;
	uint64_t bias, symbols, names, hash;
};

/* Finds its load bias (load address less link address), and where its dynamic
 * section is, or 0. */
static uint64_t module_find_dynamic(struct module *m, uint64_t at)
{
	Elf64_Phdr part[SEGMENTS_MAX];
	uint64_t dynamic = 0, first = UINT64_MAX;
	Elf64_Ehdr head;

	if (process_memory_read(m->pid, at, &head, sizeof(head)) < 0 ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
	    head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    head.e_phentsize != sizeof(*part) || head.e_phnum > SEGMENTS_MAX ||
	    process_memory_read(m->pid, at + head.e_phoff, part,
				head.e_phnum * sizeof(*part)) < 0)
		return 0;
	for (int i = 0; i < head.e_phnum; i++) {
		if (part[i].p_type == PT_LOAD && part[i].p_vaddr < first)
			first = part[i].p_vaddr & ~(uint64_t)4095;
		if (part[i].p_type == PT_DYNAMIC)
			dynamic = part[i].p_vaddr;
	}
	m->bias = at - first;
	return dynamic ? dynamic + m->bias : 0;
}

/* Some dynamic linkers leave the addresses as they were linked. */
static uint64_t module_address(const struct module *m, uint64_t value)
{
	return value < m->bias ? value + m->bias : value;
}

static int module_read(struct module *m, uint64_t at)
{
	uint64_t dynamic = module_find_dynamic(m, at);
	Elf64_Dyn d;

	for (unsigned i = 0; dynamic && i < DYNAMIC_MAX; i++) {
		if (process_memory_read(m->pid, dynamic + i * sizeof(d), &d,
					sizeof(d)) < 0 ||
		    d.d_tag == DT_NULL)
			break;
		if (d.d_tag == DT_SYMTAB)
			m->symbols = module_address(m, d.d_un.d_ptr);
		else if (d.d_tag == DT_STRTAB)
			m->names = module_address(m, d.d_un.d_ptr);
		else if (d.d_tag == DT_GNU_HASH)
			m->hash = module_address(m, d.d_un.d_ptr);
	}
	return m->symbols && m->names && m->hash;
}

/* The address of symbol number i if that is its name, else 0. */
static uint64_t module_symbol_at(const struct module *m, uint64_t i,
				 const char *name)
{
	size_t size = strlen(name) + 1;
	char found[NAME_MAX_READ];
	Elf64_Sym s;

	if (size > sizeof(found) ||
	    process_memory_read(m->pid, m->symbols + i * sizeof(s), &s,
				sizeof(s)) < 0 ||
	    s.st_shndx == SHN_UNDEF ||
	    process_memory_read(m->pid, m->names + s.st_name, found, size) <
		    0 ||
	    memcmp(found, name, size) != 0)
		return 0;
	return s.st_value + m->bias;
}

static uint32_t module_hash(const char *name)
{
	uint32_t h = 5381;

	for (; *name; name++)
		h = h * 33 + (unsigned char)*name;
	return h;
}

uint64_t process_memory_symbol(pid_t pid, uint64_t at, const char *name)
{
	/* in the order of the table's head */
	struct {
		uint32_t buckets, first, bloom_words, bloom_shift;
	} head;
	struct module m = {.pid = pid};
	uint32_t hash = module_hash(name), i, x;
	uint64_t buckets, found;

	if (!module_read(&m, at) ||
	    process_memory_read(pid, m.hash, &head, sizeof(head)) < 0 ||
	    !head.buckets)
		return 0;
	buckets = m.hash + sizeof(head) +
		  (uint64_t)head.bloom_words * sizeof(uint64_t);
	if (process_memory_read(pid, buckets + hash % head.buckets * sizeof(i),
				&i, sizeof(i)) < 0 ||
	    i < head.first)
		return 0;
	for (int n = 0; n < CHAIN_MAX; n++, i++) {
		uint64_t chain = buckets + (uint64_t)head.buckets * sizeof(x) +
				 (uint64_t)(i - head.first) * sizeof(x);

		if (process_memory_read(pid, chain, &x, sizeof(x)) < 0)
			return 0;
		/* the lowest bit marks the end of the chain */
		found = (x | 1) == (hash | 1) ? module_symbol_at(&m, i, name)
					      : 0;
		if (found || x & 1)
			return found;
	}
	return 0;
}
