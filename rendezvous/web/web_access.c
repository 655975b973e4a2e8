/* web_access.c: the token, the cookie and the Host header. */
#include <string.h>
#include <strings.h>

#include "rendezvous/web/web_internal.h"

int web_access_is_token(const char *given, const char *token)
{
	size_t n = strlen(token);
	unsigned differ = 0;

	if (!given || strlen(given) != n)
		return 0;
	for (size_t i = 0; i < n; i++)
		differ |= (unsigned char)(given[i] ^ token[i]);
	return differ == 0;
}

/* "localhost" and names below it are never looked up in DNS. */
static int web_access_is_localhost(const char *name)
{
	static const char local[] = "localhost";
	size_t n = strlen(name), len = sizeof(local) - 1;

	return n >= len && strcasecmp(name + n - len, local) == 0 &&
	       (n == len || name[n - len - 1] == '.');
}

int web_access_is_host(const struct web_access *a, const char *host)
{
	struct endpoint ep;
	struct sock_addr number;

	if (!host || !*host || endpoint_parse(&ep, host, 80, NULL) < 0)
		return 0;
	return sock_addr_number(ep.host, ep.port, &number) ||
	       web_access_is_localhost(ep.host) ||
	       strcasecmp(ep.host, a->host) == 0 ||
	       strcasecmp(ep.host, a->own_name) == 0;
}

/* Whether `cookies` ("a=b; c=d") has our cookie. */
static int web_access_has_cookie(const struct web_access *a,
				 const char *cookies)
{
	size_t len = strlen(a->cookie_name);

	while (*cookies) {
		char value[WEB_TOKEN_SIZE];
		size_t n;

		cookies += strspn(cookies, "; \t");
		n = strcspn(cookies, "; \t");
		if (n == len + 1 + sizeof(value) - 1 && cookies[len] == '=' &&
		    memcmp(cookies, a->cookie_name, len) == 0) {
			memcpy(value, cookies + len + 1, sizeof(value) - 1);
			value[sizeof(value) - 1] = '\0';
			if (web_access_is_token(value, a->cookie))
				return 1;
		}
		cookies += n;
	}
	return 0;
}

int web_access_is_granted(const struct web_access *a, const char *cookies,
			  const char *authorization)
{
	static const char bearer[] = "Bearer ";
	size_t n = sizeof(bearer) - 1;

	return (cookies && web_access_has_cookie(a, cookies)) ||
	       (authorization && strncasecmp(authorization, bearer, n) == 0 &&
		web_access_is_token(authorization + n, a->token));
}
