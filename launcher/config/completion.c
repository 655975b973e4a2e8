/* completion.c: completion scripts from the tables that option_parse uses. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "launcher/config/config.h"
#include "launcher/inspect/dump.h"
#include "launcher/inspect/status.h"
#include "launcher/logs/logs.h"
#include "launcher/top/top.h"

/* A subcommand has its own options, and no program. */
static const struct {
	const char *name;
	const struct option_spec *options;
} subcommands[] = {{"dump", dump_options},
		   {"logs", logs_options},
		   {"status", status_options},
		   {"top", top_options}};

enum { SUBCOMMANDS = sizeof(subcommands) / sizeof(*subcommands) };

/* Lower-case words of an argument's description are values. */
static void completion_print_values(const char *arg, char between)
{
	int some = 0;

	while (*arg) {
		size_t len = strcspn(arg, "|");

		if (islower((unsigned char)*arg)) {
			if (some)
				putchar(between);
			printf("%.*s", (int)len, arg);
			some = 1;
		}
		arg += len;
		arg += *arg == '|';
	}
}

static int completion_has_values(const struct option_spec *s)
{
	return islower((unsigned char)s->arg[0]) || strchr(s->arg, '|') != NULL;
}

/* The case branches of options that take the next word. */
static void completion_print_bash_options(void)
{
	for (const struct option_spec *s = config_options; s->name; s++) {
		if (!option_takes_value(s))
			continue;
		printf("--%s", s->name);
		if (s->letter)
			printf(" | -%c", s->letter);
		printf(") option=--%s ;;\n\t\t\t", s->name);
	}
}

static void completion_print_bash_values(void)
{
	for (const struct option_spec *s = config_options; s->name; s++) {
		if (!option_takes_value(s) || !completion_has_values(s))
			continue;
		printf("\t--%s) value=\"", s->name);
		completion_print_values(s->arg, ' ');
		printf("\" ;;\n");
	}
}

static void completion_print_bash_subcommand(int i)
{
	printf("\t\t\t\tif [ $i = 1 ] && [ \"$name\" = %s ]; then\n"
	       "\t\t\t\t\tmapfile -t COMPREPLY < <(compgen -W \"",
	       subcommands[i].name);
	for (const struct option_spec *s = subcommands[i].options; s->name; s++)
		printf("--%s ", s->name);
	printf("\" -- \"$word\")\n\t\t\t\t\treturn\n\t\t\t\tfi\n");
}

static void completion_print_bash(void)
{
	printf("# bash completion for ddprun, made from its table of options\n"
	       "_ddprun()\n{\n"
	       "\tlocal word=${COMP_WORDS[COMP_CWORD]} i=1 option= name value="
	       "\n\tlocal all=\"");
	for (const struct option_spec *s = config_options; s->name; s++)
		printf("--%s ", s->name);
	printf("\"\n\tCOMPREPLY=()\n"
	       "\t# the option that the word belongs to, or the program"
	       "\n\twhile [ $i -lt $COMP_CWORD ]; do\n"
	       "\t\tif [ -n \"$option\" ]; then\n"
	       "\t\t\t[ \"${COMP_WORDS[i]}\" = = ] || option=\n"
	       "\t\telse\n"
	       "\t\t\tname=${COMP_WORDS[i]//_/-}\n"
	       "\t\t\tcase $name in\n\t\t\t");
	completion_print_bash_options();
	printf("-*) ;;\n"
	       /* these have ddprun's options */
	       "\t\t\tcheck | quick | full | doctor)\n"
	       "\t\t\t\t[ $i -gt 2 ] || { i=$((i + 1)); continue; }"
	       " ;;\n"
	       "\t\t\t*)\n");
	for (int i = 0; i < SUBCOMMANDS; i++)
		completion_print_bash_subcommand(i);
	printf("\t\t\t\tif declare -F _command_offset >/dev/null; then\n"
	       "\t\t\t\t\t_command_offset $i\n"
	       "\t\t\t\tfi\n"
	       "\t\t\t\treturn ;;\n"
	       "\t\t\tesac\n\t\tfi\n\t\ti=$((i + 1))\n\tdone\n"
	       "\t[ \"$word\" != = ] || word=\n"
	       "\tcase $option in\n");
	completion_print_bash_values();
	printf("\t--log-dir)\n"
	       "\t\tmapfile -t COMPREPLY < <(compgen -d -- \"$word\")\n"
	       "\t\treturn ;;\n"
	       "\t'')\n"
	       "\t\tcase $word in\n"
	       "\t\t-*) value=$all ;;\n"
	       "\t\t*)\n"
	       "\t\t\t[ $COMP_CWORD -gt 1 ] || "
	       "value='check doctor dump logs status top install-mpiexec "
	       "install-torchrun'\n"
	       "\t\t\tmapfile -t COMPREPLY < "
	       "<(compgen -c -f -W \"$value\" -- \"$word\")\n"
	       "\t\t\treturn ;;\n"
	       "\t\tesac ;;\n"
	       "\tesac\n"
	       "\tmapfile -t COMPREPLY < "
	       "<(compgen -W \"$value\" -- \"$word\")\n"
	       "}\n"
	       "complete -o default -F _ddprun ddprun\n");
}

/* Escapes text for zsh's _arguments, inside '...' and [...]. */
static void completion_print_zsh_text(const char *text)
{
	for (; *text; text++) {
		if (*text == '\'')
			printf("'\\''");
		else if (strchr("[]:\\", *text))
			printf("\\%c", *text);
		else
			putchar(*text);
	}
}

static void completion_print_zsh_options(const struct option_spec *table)
{
	char help[OPTION_HELP_MAX];

	for (const struct option_spec *s = table; s->name; s++) {
		if (s->letter)
			printf("\t'(-%c --%s)'{-%c%s,--%s%s}'[", s->letter,
			       s->name, s->letter,
			       option_takes_value(s) ? "+" : "", s->name,
			       option_takes_value(s) ? "=" : "");
		else
			printf("\t'--%s%s[", s->name,
			       option_takes_value(s) ? "=" : "");
		completion_print_zsh_text(option_help(s, help));
		putchar(']');
		if (option_takes_value(s)) {
			putchar(':');
			completion_print_zsh_text(s->arg);
			putchar(':');
			if (strcmp(s->arg, "DIR") == 0)
				printf("_files -/");
			else if (completion_has_values(s)) {
				putchar('(');
				completion_print_values(s->arg, ' ');
				putchar(')');
			}
		}
		printf("' \\\n");
	}
}

static void completion_print_zsh(void)
{
	printf("#compdef ddprun\n"
	       "# zsh completion for ddprun, made from its table of options\n");
	for (int i = 0; i < SUBCOMMANDS; i++) {
		printf("if (( CURRENT > 2 )) && [[ $words[2] == %s ]]; then\n"
		       "\tshift words\n\t(( CURRENT-- ))\n\t_arguments -S "
		       "\\\n", subcommands[i].name);
		completion_print_zsh_options(subcommands[i].options);
		printf("\t&& return\nfi\n");
	}
	printf("if (( CURRENT > 2 )) && [[ $words[2] == (check|doctor) ]]; "
	       "then\n"
	       "\tshift words\n\t(( CURRENT-- ))\nfi\n"
	       "_arguments -S \\\n");
	completion_print_zsh_options(config_options);
	printf("\t'(-):program:{_command_names -e || _files}' \\\n"
	       "\t'*::arguments:_normal'\n");
}

/* Text in fish's single quotes. */
static void completion_print_fish_text(const char *text)
{
	putchar('\'');
	for (; *text; text++) {
		if (strchr("'\\", *text))
			putchar('\\');
		putchar(*text);
	}
	putchar('\'');
}

static void completion_print_fish_options(const struct option_spec *table,
					  const char *where)
{
	char help[OPTION_HELP_MAX];

	for (const struct option_spec *s = table; s->name; s++) {
		printf("complete -c ddprun -n '%s' -l %s", where, s->name);
		if (s->letter)
			printf(" -s %c", s->letter);
		if (option_takes_value(s) && strcmp(s->arg, "DIR") == 0) {
			printf(" -x -a '(__fish_complete_directories)'");
		} else if (option_takes_value(s) && completion_has_values(s)) {
			printf(" -x -a '");
			completion_print_values(s->arg, ' ');
			putchar('\'');
		} else if (option_takes_value(s)) {
			printf(" -r");
		}
		printf(" -d ");
		completion_print_fish_text(option_help(s, help));
		putchar('\n');
	}
}

static void completion_print_fish(void)
{
	char where[64];

	printf("# fish completion for ddprun, made from its table of options\n"
	       "# the command line so far: is its first word that command?\n"
	       "function __ddprun_command\n"
	       "\tset -l words (commandline -opc)\n"
	       "\tset -q words[2]; and contains -- $words[2] $argv\n"
	       "end\n"
	       "function __ddprun_first\n"
	       "\ttest (count (commandline -opc)) = 1\n"
	       "end\n"
	       "complete -c ddprun -n __ddprun_first -a 'check doctor dump "
	       "logs status top install-mpiexec install-torchrun'\n"
	       "complete -c ddprun -n 'not __ddprun_command dump logs status "
	       "top' -a '(__fish_complete_command)'\n");
	for (int i = 0; i < SUBCOMMANDS; i++) {
		snprintf(where, sizeof(where), "__ddprun_command %s",
			 subcommands[i].name);
		completion_print_fish_options(subcommands[i].options, where);
	}
	completion_print_fish_options(
		config_options,
		"not __ddprun_command dump logs status top");
}

void config_print_completion(const char *shell)
{
	if (shell[0] == 'b')
		completion_print_bash();
	else if (shell[0] == 'f')
		completion_print_fish();
	else
		completion_print_zsh();
}
