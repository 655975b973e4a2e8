/* test_restarts_saved.c: test_restarts.c with a job that is saved and loaded
 * after each event: a server that reads a journal continues unchanged. */
#define THROUGH_BYTES
#include "tests/unit/rendezvous/round/test_restarts.c"
