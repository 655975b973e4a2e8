/* secret.c: reads secrets from files, and makes the user's key file. */
#include "rendezvous/auth/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/owner.h"
#include "base/random.h"
#include "base/sock.h"

#define WAYS                                                           \
	"give all nodes the same secret in DDP_TOKEN or --token-file " \
	"FILE, or admit everybody with --auth none"

int secret_of_text(struct secret *s, struct slice text, const char *from,
		   struct err *e)
{
	if (text.len < SECRET_MIN || text.len > SECRET_MAX)
		return err_set(e, ERR_USAGE,
			       "%s has %zu bytes: a secret needs %d to %d "
			       "(head -c 24 /dev/urandom | base64 makes one)",
			       from, text.len, SECRET_MIN, SECRET_MAX);
	proof_secret(&s->value, text);
	snprintf(s->from, sizeof(s->from), "%s", from);
	return 0;
}

/* ---- a file ---- */

/* Whether path is a systemd credential. Only the service can enter their
 * folder. From version 254 on they belong to root, and an ACL lets the service
 * read them; its mask appears as the group's mode bits. */
static int secret_is_credential(const char *path)
{
	const char *folder = getenv("CREDENTIALS_DIRECTORY");
	size_t len = folder ? strlen(folder) : 0;

	return len && !strncmp(path, folder, len) && path[len] == '/' &&
	       !strstr(path + len, "/../");
}

/* As Kubernetes mounts its own secrets below this folder. */
#define MOUNTED "/var/run/secrets/ddprun/token"

const char *secret_mounted(void)
{
	return access(MOUNTED, F_OK) == 0 ? MOUNTED : NULL;
}

/* What a descriptor of this process names, as in --token-file <(command). */
static int secret_is_descriptor(const char *path)
{
	return !strncmp(path, "/dev/", 5) || !strncmp(path, "/proc/", 6);
}

/* Refuses a file that another user can replace: by any file of ours, or by an
 * older one, if not by a file of that user. */
static int secret_check_place(const char *path, const char *from, struct err *e)
{
	struct owner_place at;

	if (secret_is_descriptor(path) || owner_find_other(path, &at) <= 0)
		return 0;
	if (S_ISLNK(at.mode) || !(at.mode & 022))
		return err_set(e, ERR_PROOF,
			       "%s can be replaced by user %u, who owns the %s "
			       "%s: move it to a folder of your own", from,
			       (unsigned)at.uid,
			       S_ISLNK(at.mode) ? "link" : "folder", at.path);
	return err_set(e, ERR_PROOF,
		       "%s can be replaced by other users, because they can "
		       "write to the folder %s (mode %04o): run chmod go-w on "
		       "it, or move the file to a folder of your own",
		       from, at.path, (unsigned)(at.mode & 07777));
}

/* others: the mode bits that must not be set. */
static int secret_check_owner(const struct stat *st, mode_t others,
			      const char *from, struct err *e)
{
	const char *advice = strstr(from, MOUNTED)
		? "give the Secret's volume defaultMode: 0400"
		: "run chmod 600 on it if nobody has read it, else make "
		  "another";

	if (st->st_uid != geteuid() && st->st_uid != 0)
		return err_set(e, ERR_PROOF,
			       "%s belongs to user %u, but this process runs "
			       "as user %u, so it is not our secret; " WAYS,
			       from, (unsigned)st->st_uid, (unsigned)geteuid());
	if (st->st_mode & others & 044)
		return err_set(e, ERR_PROOF,
			       "%s is readable by other users (mode %04o), so "
			       "it may not be secret: %s",
			       from, (unsigned)(st->st_mode & 07777), advice);
	if (st->st_mode & others)
		return err_set(e, ERR_PROOF,
			       "%s can be changed by other users (mode %04o), "
			       "so it may not be yours: %s",
			       from, (unsigned)(st->st_mode & 07777), advice);
	return 0;
}

static long secret_read_all(int fd, char *text, size_t size)
{
	size_t n = 0;
	ssize_t got = 1;

	while (n < size && got != 0) {
		got = read(fd, text + n, size - n);
		if (got < 0 && errno != EINTR)
			return -errno;
		n += got > 0 ? (size_t)got : 0;
	}
	return (long)n;
}

/* others: as secret_check_owner; 0: it may be anybody's. */
static int secret_read_secret(struct secret *s, int fd, mode_t others,
			      const char *from, struct err *e)
{
	char text[SECRET_MAX + 2];
	struct stat st;
	long n = fstat(fd, &st) < 0 ? -errno : 0;
	int rc = n < 0 || !others ? 0
				  : secret_check_owner(&st, others, from, e);

	if (rc < 0)
		return rc;
	if (n == 0)
		n = secret_read_all(fd, text, sizeof(text));
	if (n < 0)
		return err_set(e, (int)n, "cannot read %s: %s", from,
			       strerror((int)-n));
	while (n > 0 && strchr(" \t\r\n", text[n - 1]))
		n--;
	rc = secret_of_text(s, SLICE(text, (size_t)n), from, e);
	proof_wipe(text, sizeof(text));
	return rc;
}

int secret_of_file(struct secret *s, const char *path, const char *what,
		   struct err *e)
{
	int is_mounted = secret_is_credential(path) || !strcmp(path, MOUNTED);
	int fd, rc = 0, is_special;
	char from[SECRET_FROM_MAX];
	struct stat st;

	snprintf(from, sizeof(from), "%s %s", what, path);
	if (!is_mounted)
		rc = secret_check_place(path, from, e);
	/* before open, which waits for a pipe's writer */
	if (rc == 0 && !secret_is_descriptor(path) && stat(path, &st) == 0 &&
	    !S_ISREG(st.st_mode))
		rc = secret_check_owner(&st, 077, from, e);
	if (rc < 0)
		return rc;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return err_set(e, -errno, "cannot open %s: %s", from,
			       strerror(errno));
	is_special = secret_is_descriptor(path) && fstat(fd, &st) == 0 &&
		     !S_ISREG(st.st_mode);
	rc = secret_read_secret(s, fd,
				is_special ? 0 : is_mounted ? 037 : 077, from,
				e);
	close(fd);
	return rc;
}

/* ---- the user's key file ---- */

static int secret_find_folder(char *out, size_t size, struct err *e)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	int n = -1;

	if (config && config[0] == '/')
		n = snprintf(out, size, "%s/ddprun", config);
	else if (home && home[0] == '/')
		n = snprintf(out, size, "%s/.config/ddprun", home);
	if (n > 0 && (size_t)n < size)
		return 0;
	return err_set(e, ERR_PROOF,
		       "this user's key file has no place: neither HOME nor "
		       "XDG_CONFIG_HOME names a folder; " WAYS);
}

/* Makes the folder and its parent, but not the home directory: even if root
 * could make it, a missing home is no place for a secret. */
static int secret_make_folder(const char *folder)
{
	char above[PATH_MAX];
	int rc = 0;

	snprintf(above, sizeof(above), "%s", folder);
	*strrchr(above, '/') = '\0';
	if (*above && mkdir(above, 0700) < 0 && errno != EEXIST)
		rc = -errno;
	if (rc == 0 && mkdir(folder, 0700) < 0 && errno != EEXIST)
		rc = -errno;
	return rc;
}

/* For file systems without hard links, which are assumed not to be shared
 * between hosts: a lock orders the processes of this host. */
static int secret_rename_first(const char *folder, const char *temporary,
			       const char *path)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;

	if (fd < 0)
		return -errno;
	while (flock(fd, LOCK_EX) < 0 && rc == 0)
		rc = errno == EINTR ? 0 : -errno;
	if (rc == 0 && access(path, F_OK) < 0 && rename(temporary, path) < 0)
		rc = -errno;
	close(fd);
	return rc;
}

/* Gives the complete file its name; the first process to do so wins. */
static int secret_link_first(const char *folder, const char *temporary,
			     const char *path)
{
	if (link(temporary, path) == 0 || errno == EEXIST)
		return 0;
	if (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS)
		return secret_rename_first(folder, temporary, path);
	return -errno;
}

static int secret_write_key(int fd)
{
	struct proof key;
	char text[PROOF_HEX_SIZE + 1];
	int rc = random_bytes(key.bytes, sizeof(key.bytes), NULL);

	proof_to_hex(text, &key);
	strcat(text, "\n");
	if (rc >= 0 && fchmod(fd, 0600) < 0)
		rc = -errno;
	if (rc >= 0)
		rc = file_write_all(fd, text, strlen(text));
	if (rc >= 0 && fsync(fd) < 0)
		rc = -errno;
	proof_wipe(&key, sizeof(key));
	proof_wipe(text, sizeof(text));
	return rc;
}

static int secret_make_key(const char *folder, const char *path)
{
	char temporary[PATH_MAX], name[33];
	int fd, rc = secret_make_folder(folder);

	if (rc == 0)
		rc = random_hex(name, 16, NULL);
	if (rc < 0)
		return rc;
	if (snprintf(temporary, sizeof(temporary), "%s/.key-%s", folder,
		     name) >= (int)sizeof(temporary))
		return -ENAMETOOLONG;
	fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	rc = secret_write_key(fd);
	close(fd);
	if (rc >= 0)
		rc = secret_link_first(folder, temporary, path);
	unlink(temporary);
	return rc;
}

int secret_of_user(struct secret *s, struct err *e)
{
	char folder[PATH_MAX - 64], path[PATH_MAX], host[SOCK_HOST_MAX];
	char from[SECRET_FROM_MAX];
	int rc = secret_find_folder(folder, sizeof(folder), e);

	if (rc < 0)
		return rc;
	snprintf(path, sizeof(path), "%s/key", folder);
	snprintf(from, sizeof(from), "the key file %.*s", SECRET_FROM_MAX - 20,
		 path);
	rc = secret_check_place(path, from, e);
	if (rc < 0)
		return rc;
	if (access(path, F_OK) < 0 && errno == ENOENT) {
		rc = secret_make_key(folder, path);
		if (rc < 0) {
			sock_host_name(host);
			return err_set(e, ERR_PROOF,
				       "cannot create this user's key file %s "
				       "on %s: %s; " WAYS,
				       path, host, strerror(-rc));
		}
	}
	return secret_of_file(s, path, "the key file", e);
}

/* ---- tenants ---- */

enum { NAME_MAX_BYTES = 64 };

/* The client has not been authenticated yet, so the tenant's name must be one
 * plain word. */
static int secret_is_tenant_name(const char *name, size_t n)
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

int secret_of_tenant(const char *folder, struct slice job, struct proof *secret,
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
	if (!secret_is_tenant_name(job.data, n))
		return err_set(e, ERR_PROOF, "there is no tenant of that name");
	snprintf(path, sizeof(path), "%s/%.*s", folder, (int)n, job.data);
	/* opening a pipe would block */
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return err_set(e, ERR_PROOF,
			       "the token %s is not a regular file", path);
	rc = secret_of_file(&s, path, "the token", e);
	if (rc < 0)
		return rc;
	*secret = s.value;
	proof_wipe(&s, sizeof(s));
	return 1;
}
