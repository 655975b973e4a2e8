/* test_elastic_saved.c: test_elastic.c with a job that is saved and loaded
 * after each event: a server that reads a journal continues unchanged. */
#define THROUGH_BYTES
#include "tests/unit/rendezvous/round/test_elastic.c"
