/* test_job_stop_saved.c: all of test_told.c with a job that is saved and loaded
 * after each event: who reads a journal goes on as if nothing had been. */
#define THROUGH_BYTES
#include "tests/unit/rendezvous/round/test_job_stop.c"
