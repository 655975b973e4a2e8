/* generate: the man page's OPTIONS, from ddprun's table. Not installed. */
#include <stdio.h>

#include "launcher/config/config.h"

/* Prints text in mdoc, one sentence per line. */
static void print_mdoc(const char *text)
{
	enum { COLUMNS = 60 };
	int column = 0;

	for (const char *p = text; *p; p++) {
		if (*p == ' ' && (p[-1] == '.' || column > COLUMNS)) {
			putchar('\n');
			column = 0;
			continue;
		}
		/* at a line's start these would be a request */
		if (column++ == 0 && (*p == '.' || *p == '\''))
			printf("\\&");
		if (*p == '-')
			putchar('\\');
		putchar(*p);
	}
	putchar('\n');
}

static void print_name(const char *name)
{
	for (; *name; name++) {
		if (*name == '-')
			putchar('\\');
		putchar(*name);
	}
}

static void print_man(void)
{
	char help[OPTION_HELP_MAX];

	for (const struct option_spec *s = config_options; s->name; s++) {
		printf(".It ");
		if (s->letter)
			printf("Fl %c , ", s->letter);
		printf("Fl \\-");
		print_name(s->name);
		if (option_takes_value(s)) {
			printf(" Ar ");
			print_name(s->arg);
		}
		putchar('\n');
		print_mdoc(option_help(s, help));
		if (s->more)
			print_mdoc(s->more);
	}
}

int main(void)
{
	print_man();
	return 0;
}
