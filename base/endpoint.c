/* endpoint.c: "host:port" as text. Pure; sockets are in sock.c. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/option.h"
#include "base/sock.h"

static int endpoint_refuse(struct err *e, const char *text, const char *why)
{
	return err_set(e, ERR_USAGE,
		       "endpoint '%s': %s; write HOST:PORT, or [ADDRESS]:PORT "
		       "for IPv6", text, why);
}

/* Splits text into host and port texts; *port is NULL if there is none. */
static int endpoint_split(const char *text, const char **host, size_t *len,
			  const char **port, struct err *e)
{
	const char *colon = strchr(text, ':');

	*port = NULL;
	if (text[0] == '[') {
		const char *close = strchr(text, ']');

		if (!close)
			return endpoint_refuse(e, text, "'[' without ']'");
		*host = text + 1;
		*len = (size_t)(close - text - 1);
		if (close[1] == ':')
			*port = close + 2;
		else if (close[1])
			return endpoint_refuse(e, text,
					       "only :PORT may follow ']'");
		return 0;
	}
	*host = text;
	if (!colon || strchr(colon + 1, ':')) { /* none, or a bare IPv6 */
		*len = strlen(text);
		return 0;
	}
	*len = (size_t)(colon - text);
	*port = colon + 1;
	return 0;
}

int endpoint_parse(struct endpoint *ep, const char *text, uint16_t default_port,
		   struct err *e)
{
	const char *host = text, *port = NULL;
	size_t len = 0;
	long number;
	int rc = endpoint_split(text, &host, &len, &port, e);

	if (rc < 0)
		return rc;
	if (len == 0)
		return endpoint_refuse(e, text, "the host is empty");
	if (len >= SOCK_HOST_MAX)
		return endpoint_refuse(e, text, "the host is too long");
	for (size_t i = 0; i < len; i++) {
		if (isspace((unsigned char)host[i]) ||
		    iscntrl((unsigned char)host[i]) || host[i] == '/')
			return endpoint_refuse(
				e, text,
				"a host name cannot contain this character");
	}
	memcpy(ep->host, host, len);
	ep->host[len] = '\0';
	ep->port = default_port;
	if (!port)
		return 0;
	if (parse_long(port, 0, 65535, "port", &number, NULL) < 0)
		return endpoint_refuse(e, text,
				       "the port is not a number from 0 to "
				       "65535");
	ep->port = (uint16_t)number;
	return 0;
}

char *endpoint_text(const struct endpoint *ep, char *out)
{
	int is_v6 = strchr(ep->host, ':') != NULL;

	snprintf(out, SOCK_TEXT_MAX, "%s%s%s:%u", is_v6 ? "[" : "", ep->host,
		 is_v6 ? "]" : "", ep->port);
	return out;
}
