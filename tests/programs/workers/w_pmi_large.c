/* w_pmi_large.c: a rank that speaks PMI-1 without an MPI library: puts argv[1]
 * keys with values of 1,000 bytes, enters a barrier, gets those of all other
 * ranks, and checks each. Prints "rank R: N values". */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 2048, VALUE = 1000 };

static FILE *to, *from;
static char name[256];

__attribute__((format(printf, 2, 3)))
static void pmi(char answer[LINE], const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vfprintf(to, format, ap);
	va_end(ap);
	if (fflush(to) || !fgets(answer, LINE, from)) {
		perror("w_pmi_large: PMI_FD");
		exit(1);
	}
}

/* Different for each key, and no two neighbours alike. */
static void make_value(char value[VALUE + 1], int rank, int key)
{
	for (int i = 0; i < VALUE; i++)
		value[i] = (char)('a' + (rank * 7 + key * 5 + i * 3) % 26);
	value[VALUE] = '\0';
}

static void put(int rank, int key)
{
	char answer[LINE], value[VALUE + 1];

	make_value(value, rank, key);
	pmi(answer, "cmd=put kvsname=%s key=%d/%d value=%s\n", name, rank, key,
	    value);
	if (!strstr(answer, "rc=0")) {
		fprintf(stderr, "w_pmi_large: %s", answer);
		exit(1);
	}
}

static void check(int rank, int key)
{
	char answer[LINE], value[VALUE + 1], *at;

	make_value(value, rank, key);
	pmi(answer, "cmd=get kvsname=%s key=%d/%d\n", name, rank, key);
	at = strstr(answer, "value=");
	if (!at || strncmp(at + 6, value, VALUE) || at[6 + VALUE] != '\n') {
		fprintf(stderr, "w_pmi_large: %d/%d: %.60s\n", rank, key,
			answer);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1, rank, size, values = 0;
	char answer[LINE];

	if (!getenv("PMI_FD") || !getenv("PMI_RANK") || !getenv("PMI_SIZE"))
		return 2;
	rank = atoi(getenv("PMI_RANK"));
	size = atoi(getenv("PMI_SIZE"));
	to = fdopen(atoi(getenv("PMI_FD")), "w");
	from = fdopen(dup(atoi(getenv("PMI_FD"))), "r");
	if (!to || !from)
		return 2;
	pmi(answer, "cmd=init pmi_version=1 pmi_subversion=1\n");
	pmi(answer, "cmd=get_my_kvsname\n");
	if (sscanf(answer, "cmd=my_kvsname kvsname=%255s", name) != 1)
		return 1;
	for (int key = 0; key < n; key++)
		put(rank, key);
	pmi(answer, "cmd=barrier_in\n");
	for (int other = 0; other < size; other++)
		for (int key = 0; key < n && other != rank; key++, values++)
			check(other, key);
	printf("rank %d: %d values\n", rank, values);
	pmi(answer, "cmd=finalize\n");
	return 0;
}
