/* fuzz_hosts: any text is a list of hosts or a clean error, for -H and as a
 * hostfile. Accepted names are safe for ssh and a shell, and the list is the
 * same when it is written and read again. */
#include <stdint.h>
#include <stdlib.h>

#include "launcher/env/host_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_name(const char *name)
{
	const char *host = strrchr(name, '@');

	host = host ? host + 1 : name;
	if (!*host || *name == '-' || *host == '-' ||
	    strlen(name) > HOST_LIST_NAME_MAX ||
	    strpbrk(name, "'`\";&<>|(){}[]$*?!\\#, \t\r\n"))
		abort();
}

/* The hosts, as lines of a hostfile. */
static void write_out(const struct host_list *l, struct buf *b)
{
	for (uint32_t i = 0; i < l->count; i++) {
		const char *name = host_list_name(l, i);
		const char *at = strrchr(name, '@');
		const char *host = at ? at + 1 : name;
		int ip6 = strchr(host, ':') != NULL;

		check_name(name);
		buf_printf(b, "%.*s%s%s%s", (int)(host - name), name,
			   ip6 ? "[" : "", host, ip6 ? "]" : "");
		if (l->hosts[i].slots)
			buf_printf(b, " slots=%u", l->hosts[i].slots);
		buf_printf(b, "\n");
	}
}

static void check(struct host_list *l, int rc, const struct err *e)
{
	struct host_list same;
	struct err why = ERR_INIT;
	struct buf b;

	if (rc) {
		if (e->code != rc || !e->text[0])
			abort();
		host_list_release(l);
		return;
	}
	buf_init(&b, 64 << 20);
	host_list_init(&same);
	write_out(l, &b);
	if (host_list_parse_file(&same, SLICE(b.data, b.len), "again", &why) ||
	    same.count != l->count)
		abort();
	for (uint32_t i = 0; i < l->count; i++)
		if (strcmp(host_list_name(l, i), host_list_name(&same, i)) ||
		    l->hosts[i].slots != same.hosts[i].slots)
			abort();
	host_list_release(&same);
	host_list_release(l);
	buf_release(&b);
}

static const char *words;

static const char *get(const char *name)
{
	return strcmp(name, words[0] == 'c' ? "LSB_MCPU_HOSTS" : "LSB_HOSTS")
		? NULL : words + 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice text = {(const char *)data, size};
	struct err e = ERR_INIT;
	struct host_list l;
	char *copy = malloc(size + 2);
	int rc;

	host_list_init(&l);
	rc = host_list_parse(&l, text, &e);
	check(&l, rc, &e);
	rc = host_list_parse_file(&l, text, "file", &e);
	check(&l, rc, &e);
	memcpy(copy, data, size);
	memcpy(copy + size, "", 1);
	words = copy;
	rc = size ? host_list_scheduler(&l, get, &e) : 0;
	if (rc)
		check(&l, rc < 0 ? rc : 0, &e);
	free(copy);
	return 0;
}
