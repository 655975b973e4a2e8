/* other_world.c: knows the variables of other frameworks. */
#include "launcher/plan/other_world.h"

#include <stdio.h>
#include <string.h>

#include "launcher/plan/framework.h"

/* A name that ends with '_' matches every name that begins with it. */
static const char *const names[] = {
	"TF_CONFIG", "PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM",
	"PADDLE_TRAINER_ENDPOINTS", "PADDLE_CURRENT_ENDPOINT",
	"HOROVOD_CONTROLLER", "HOROVOD_GLOO_",
};

static int other_world_is_listed(const char *var)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		size_t len = strlen(names[i]);

		if (strncmp(var, names[i], len) == 0 &&
		    (names[i][len - 1] == '_' || var[len] == '='))
			return 1;
	}
	return 0;
}

int other_world_is_hidden(const char *var, uint32_t nproc)
{
	return nproc > 1 && other_world_is_listed(var);
}

/* Writes the names, with commas; returns how many there are. */
static int other_world_put_names(char *const *vars, unsigned frameworks,
				 char *out, size_t size)
{
	size_t n = 0;
	int count = 0;

	*out = '\0';
	for (; *vars; vars++) {
		if (!other_world_is_listed(*vars) ||
		    framework_sets(frameworks, *vars))
			continue;
		if (n < size)
			n += (size_t)snprintf(out + n, size - n, "%s%.*s",
					      count ? ", " : "",
					      (int)strcspn(*vars, "="), *vars);
		count++;
	}
	return count;
}

const char *other_world_text(char *const *vars, unsigned frameworks,
			     uint32_t nproc, uint32_t world_size, char *out)
{
	char list[256];
	int n = other_world_put_names(vars, frameworks, list, sizeof(list));

	if (!n || world_size <= 1)
		return NULL;
	if (nproc > 1)
		snprintf(out, OTHER_WORLD_TEXT_MAX,
			 "%s %s not passed on to the workers: all %u of this "
			 "node would take the same place in another job; let "
			 "each worker set its own (docs/environment.txt)",
			 list, n == 1 ? "is" : "are", nproc);
	else
		snprintf(out, OTHER_WORLD_TEXT_MAX,
			 "%s %s passed on to the workers, because this node "
			 "has only one: unset %s of another job "
			 "(docs/environment.txt)", list,
			 n == 1 ? "is" : "are",
			 n == 1 ? "it if it is" : "them if they are");
	return out;
}
