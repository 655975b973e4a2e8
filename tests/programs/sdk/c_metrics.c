/* c_metrics.c: writes scalars for other programs to read.
 *
 *   c_metrics DIR
 */
#include <math.h>
#include <stdio.h>

#include "worker-sdk/ddp.h"

int main(int argc, char **argv)
{
	ddp_metrics *m;

	if (argc != 2 ||
	    ddp_metrics_open(&m, argv[1], DDP_JSONL | DDP_TENSORBOARD)) {
		fprintf(stderr, "c_metrics: %s\n", ddp_last_error());
		return 1;
	}
	for (int i = 0; i < 100; i++)
		ddp_metrics_scalar(m, "loss/train", 1.0 / (i + 1), i);
	ddp_metrics_scalar(m, "odd", (double)NAN, -3);
	ddp_metrics_scalar(m, "odd", (double)INFINITY, 1LL << 40);
	ddp_metrics_scalar(m, "g\xc3\xbcte/\xe6\xb8\xac", 0, 1);
	if (ddp_metrics_close(m)) {
		fprintf(stderr, "c_metrics: %s\n", ddp_last_error());
		return 1;
	}
	return 0;
}
