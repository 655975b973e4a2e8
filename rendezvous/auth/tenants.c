/* tenants.c: finds the token file for a job's name. The client has not been
 * authenticated yet, so the tenant's name must be one plain word. */
#include "rendezvous/auth/tenants.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "rendezvous/auth/secret.h"

enum { NAME_MAX_BYTES = 64 };

static int tenants_is_plain_name(const char *name, size_t n)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";

	/* no leading dot: excludes "." and ".." */
	if (n < 1 || n > NAME_MAX_BYTES || name[0] == '.')
		return 0;
	for (size_t i = 0; i < n; i++)
		if (!name[i] || !strchr(plain, name[i]))
			return 0;
	return 1;
}

int tenants_secret(const char *folder, struct slice job, struct proof *secret,
		   struct err *e)
{
	const char *slash = memchr(job.data, '/', job.len);
	size_t n = slash ? (size_t)(slash - job.data) : 0;
	char path[PATH_MAX];
	struct secret s;
	struct stat st;
	int rc;

	if (!slash)
		return 0;
	if (!tenants_is_plain_name(job.data, n))
		return err_set(e, ERR_PROOF, "no tenant has that name");
	snprintf(path, sizeof(path), "%s/%.*s", folder, (int)n, job.data);
	/* opening a pipe would block */
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return err_set(e, ERR_PROOF, "the token %s is no file", path);
	rc = secret_of_file(&s, path, "the token", e);
	if (rc < 0)
		return rc;
	*secret = s.value;
	proof_wipe(&s, sizeof(s));
	return 1;
}
