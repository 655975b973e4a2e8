/* c_locale.c: a worker in its user's locale: libddp's output must be the same
 * in each. Prints 1.5 in that locale's format, then in an error.
 *
 *   c_locale DIR
 */
#include <locale.h>
#include <stdio.h>

#include "base/error.h"
#include "worker-sdk/ddp.h"

int main(int argc, char **argv)
{
	ddp_metrics *m;
	struct err e;
	ddp_comm *c;

	if (argc != 2 || !setlocale(LC_ALL, ""))
		return 2;
	printf("%.1f\n", 1.5);
	if (ddp_init(&c, NULL) ||
	    ddp_metrics_open(&m, argv[1], DDP_JSONL) ||
	    ddp_metrics_scalar(m, "loss", 0.25, 1) || ddp_metrics_close(m)) {
		printf("%s\n", ddp_last_error());
		return 1;
	}
	err_set(&e, ERR_TIMEOUT, "error %.1f s", 1.5);
	printf("%s\n", e.text);
	ddp_finalize(c);
	return 0;
}
