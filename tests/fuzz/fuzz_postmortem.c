/* fuzz_postmortem: whatever the kernel's files and log contain, the results
 * stay within their bounds. The first byte chooses the file. */
#include <stdint.h>
#include <stdlib.h>

#include "launcher/failure/postmortem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_cgroup(const char *text)
{
	static struct cgroup c;
	const char *mounts = strchr(text, '#');
	char *membership = mounts ? strndup(text, (size_t)(mounts - text))
				  : strdup(text);

	cgroup_parse(&c, membership, mounts ? mounts + 1 : "");
	if (c.version && c.mounted > strlen(c.dir))
		abort();
	cgroup_count(text, "oom_kill");
	free(membership);
}

static void fuzz_log(const char *data, size_t size)
{
	static struct kernel_log log;
	struct kernel_kill kill;
	const char *xid;

	log.n = 0;
	kernel_log_add(&log, data, size);
	kernel_log_add(&log, data, size / 2);
	kernel_log_killed(&log, 1, &kill);
	xid = kernel_log_xid(&log);
	if (xid && strlen(xid) >= KERNEL_LOG_LINE_MAX)
		abort();
}

static void fuzz_core(const char *pattern)
{
	const struct core_process of = {.pid = 4711, .signal = 11, .cwd = "/c",
				   .host = "h"};
	struct buf out = BUF_INIT(1 << 20);

	core_file_glob(&out, pattern, 1, &of);
	if (!out.failed && out.data[0] != '/')
		abort();
	buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size < 1)
		return 0;
	text = strndup((const char *)data + 1, size - 1);
	switch (data[0] % 3) {
	case 0:
		fuzz_cgroup(text);
		break;
	case 1:
		fuzz_log((const char *)data + 1, size - 1);
		break;
	default:
		fuzz_core(text);
	}
	free(text);
	return 0;
}
