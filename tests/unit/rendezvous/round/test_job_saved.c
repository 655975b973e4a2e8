/* test_job_saved.c: all of test_round.c with a job that is saved and loaded
 * after each event: who reads a journal goes on as if nothing had been. */
#define THROUGH_BYTES
#include "tests/unit/rendezvous/round/test_job.c"
