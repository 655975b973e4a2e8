/* fuzz_proc_tcp: any text is lines of /proc/net/tcp or is skipped. The
 * addresses of a line have a family, and IPv4 addresses are not mapped to
 * IPv6. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/worker/proc_tcp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct sock_addr *of)
{
	struct sock_addr a = *of;

	sock_addr_unmap(&a);
	if ((of->ss.ss_family != AF_INET && of->ss.ss_family != AF_INET6) ||
	    a.ss.ss_family != of->ss.ss_family)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data, *end = p + size, *nl;
	struct proc_tcp s;

	for (; p < end; p = nl + 1) {
		nl = memchr(p, '\n', (size_t)(end - p));
		if (!nl)
			nl = end;
		if (proc_tcp_parse(SLICE(p, (size_t)(nl - p)), &s)) {
			check(&s.own);
			check(&s.peer);
			if (s.state > 0xff)
				abort();
		}
	}
	return 0;
}
