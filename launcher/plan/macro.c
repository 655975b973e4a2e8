/* macro.c: looks up macros in the worker's variables. */
#include "launcher/plan/macro.h"

#include <stdio.h>
#include <string.h>

#include "launcher/output/template.h"

#define LOCAL_RANK "local_rank"
#define PORT "port"
#define PEERS_FILE "peers_file"
enum { DIGITS_MAX = 10 };

/* torchrun knows only local_rank, with and without braces. These need braces:
 * $rank in `sh -c` is more likely to be a variable of the script. */
static const struct {
	const char *name, *variable;
} macros[] = {
	{"rank", "RANK"},
	{"world_size", "WORLD_SIZE"},
	{"local_world_size", "LOCAL_WORLD_SIZE"},
	{"node_rank", "GROUP_RANK"},
	{"group_rank", "GROUP_RANK"},
	{"nnodes", "GROUP_WORLD_SIZE"},
	{"group_world_size", "GROUP_WORLD_SIZE"},
	{"role_name", "ROLE_NAME"},
	{"role_rank", "ROLE_RANK"},
	{"role_world_size", "ROLE_WORLD_SIZE"},
	{"master_addr", "MASTER_ADDR"},
	{"master_port", "MASTER_PORT"},
	{"coordinator_port", "JAX_COORDINATOR_PORT"},
	{PORT, "DDP_WORKER_PORT"},
	{PEERS_FILE, "DDP_PEERS_FILE"},
	{"restart_count", "TORCHELASTIC_RESTART_COUNT"},
	{"max_restarts", "TORCHELASTIC_MAX_RESTARTS"},
	{"run_id", "TORCHELASTIC_RUN_ID"},
};
enum { NMACROS = sizeof(macros) / sizeof(*macros) };

/* The variable that a piece of a text stands for, or NULL. */
static const char *macro_variable(const struct template_piece *piece)
{
	/* "$", "{" and "}" belong to the text of one with braces */
	if (!piece->name.len || piece->text.len != piece->name.len + 3)
		return NULL;
	for (int i = 0; i < NMACROS; i++) {
		if (template_names(piece, macros[i].name))
			return macros[i].variable;
	}
	return NULL;
}

/* name: only the macro of that name counts; NULL: all do. */
static int macro_search(const char *text, const char *name)
{
	struct template_piece piece;

	while ((text = strchr(text, '$'))) {
		const char *at = text++;

		if (!template_next(&at, &piece) ||
		    (name && !template_names(&piece, name)))
			continue;
		if (template_names(&piece, LOCAL_RANK) ||
		    macro_variable(&piece))
			return 1;
	}
	return 0;
}

int macro_is_in(const char *text)
{
	return macro_search(text, NULL);
}

int macro_is_port_in(const char *text)
{
	return macro_search(text, PORT);
}

int macro_is_peers_file_in(const char *text)
{
	return macro_search(text, PEERS_FILE);
}

/* The variable's value, or NULL. */
static const char *macro_find(char *const *vars, const char *variable)
{
	size_t len = strlen(variable);

	for (; *vars; vars++) {
		if (strncmp(*vars, variable, len) == 0 && (*vars)[len] == '=')
			return *vars + len + 1;
	}
	return NULL;
}

size_t macro_room(const char *text, char *const *vars)
{
	size_t longest = DIGITS_MAX, room = strlen(text) + 1;

	for (int i = 0; i < NMACROS; i++) {
		const char *value = macro_find(vars, macros[i].variable);

		if (value && strlen(value) > longest)
			longest = strlen(value);
	}
	for (; *text; text++)
		room += *text == '$' ? longest : 0;
	return room;
}

static int macro_is_unknown(const struct macro_values *v, const char *variable)
{
	for (const char *const *name = v->unknown; name && *name; name++) {
		if (strcmp(*name, variable) == 0)
			return 1;
	}
	return 0;
}

/* The value of a piece, in number[] or elsewhere; NULL: it stays as it is. */
static const char *macro_value(const struct template_piece *piece,
			       const struct macro_values *v,
			       char number[DIGITS_MAX + 1])
{
	const char *variable = macro_variable(piece);

	if (template_names(piece, LOCAL_RANK)) {
		snprintf(number, DIGITS_MAX + 1, "%u", v->local_rank);
		return number;
	}
	if (!variable || macro_is_unknown(v, variable))
		return NULL;
	return macro_find(v->vars, variable);
}

char *macro_expand(const char *text, const struct macro_values *v, char *out)
{
	char number[DIGITS_MAX + 1];
	struct template_piece piece;

	if (!macro_is_in(text))
		return stpcpy(out, text) + 1;
	while (template_next(&text, &piece)) {
		const char *value = macro_value(&piece, v, number);

		out = value ? stpcpy(out, value)
			    : mempcpy(out, piece.text.data, piece.text.len);
	}
	*out++ = '\0';
	return out;
}
