/* slurm_conf.c: reads AuthType and AuthInfo from slurm.conf. */
#include "rendezvous/auth/slurm_conf.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"

enum { TEXT_MAX = 1 << 20 };

static struct slurm_conf loaded;

/* ---- the text ---- */

static const char blanks[] = " \t\r";

/* The line's value if it has that key. Keys ignore case, and blanks may
 * surround the equals sign. */
static int slurm_conf_value_of(struct slice line, const char *key,
			       struct slice *value)
{
	size_t n = strlen(key), at = 0, end;

	while (at < line.len && strchr(blanks, line.data[at]))
		at++;
	if (line.len - at < n || strncasecmp(line.data + at, key, n) != 0)
		return 0;
	at += n;
	while (at < line.len && strchr(blanks, line.data[at]))
		at++;
	if (at == line.len || line.data[at] != '=')
		return 0;
	at++;
	while (at < line.len && strchr(blanks, line.data[at]))
		at++;
	if (at < line.len && line.data[at] == '"')
		at++;
	end = at;
	while (end < line.len && !strchr(" \t\r\"#", line.data[end]))
		end++;
	*value = SLICE(line.data + at, end - at);
	return 1;
}

/* "socket=/run/munge/munge.socket.2,ttl=60" */
static void slurm_conf_parse_socket(struct slurm_conf *c, struct slice info)
{
	static const char word[] = "socket=";
	size_t n = sizeof(word) - 1, len;

	for (size_t at = 0; at < info.len; at += len + 1) {
		const char *item = info.data + at;
		const char *end = memchr(item, ',', info.len - at);

		len = end ? (size_t)(end - item) : info.len - at;
		if (len > n && strncasecmp(item, word, n) == 0 &&
		    len - n < sizeof(c->munge_socket))
			snprintf(c->munge_socket, sizeof(c->munge_socket),
				 "%.*s", (int)(len - n), item + n);
	}
}

static int slurm_conf_is_munge(struct slice plugin)
{
	static const char name[] = "auth/munge";

	return plugin.len == sizeof(name) - 1 &&
	       strncasecmp(plugin.data, name, plugin.len) == 0;
}

void slurm_conf_parse(struct slurm_conf *c, struct slice text)
{
	struct slice value;
	size_t len;

	*c = (struct slurm_conf){0};
	for (size_t at = 0; at < text.len; at += len + 1) {
		const char *line = text.data + at;
		const char *end = memchr(line, '\n', text.len - at);

		len = end ? (size_t)(end - line) : text.len - at;
		if (slurm_conf_value_of(SLICE(line, len), "AuthType", &value))
			c->without_munge = !slurm_conf_is_munge(value);
		else if (slurm_conf_value_of(SLICE(line, len), "AuthInfo",
					     &value))
			slurm_conf_parse_socket(c, value);
	}
	if (c->without_munge)
		c->munge_socket[0] = '\0';
}

/* ---- the file ---- */

static int slurm_conf_read_file(const char *path, char *text)
{
	long len = file_read_text(path, text, TEXT_MAX);

	if (len <= 0)
		return 0;
	slurm_conf_parse(&loaded, SLICE(text, (size_t)len));
	return 1;
}

static void slurm_conf_load_once(void)
{
	/* the last: slurmd's copy of what slurmctld sent */
	static const char *const usual[] = {
		"/etc/slurm/slurm.conf", "/usr/local/etc/slurm.conf",
		"/run/slurm/conf/slurm.conf",
	};
	const char *given = getenv("SLURM_CONF");
	char *text = malloc(TEXT_MAX);

	if (text && given && *given) {
		slurm_conf_read_file(given, text);
	} else if (text) {
		for (size_t i = 0; i < sizeof(usual) / sizeof(*usual); i++) {
			if (slurm_conf_read_file(usual[i], text))
				break;
		}
	}
	free(text);
}

const struct slurm_conf *slurm_conf_load(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, slurm_conf_load_once);
	return &loaded;
}
