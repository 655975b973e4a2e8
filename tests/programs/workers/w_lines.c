/* w_lines.c: w_lines COUNT: writes COUNT lines to each of stdout and stderr, in
 * pieces of odd sizes. Line i of rank r is "r i LENGTH x...x", so that a reader
 * can check it. w_lines bytes MIB FILE: writes MIB MiB to stdout, and a line to
 * FILE after each MiB. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 400 };

static unsigned int seed = 1;

static unsigned int draw(unsigned int below)
{
	seed = seed * 1103515245u + 12345u;
	return (seed >> 8) % below;
}

static void put(int fd, const char *p, size_t n)
{
	while (n) {
		size_t part = 1 + draw((unsigned int)n);
		ssize_t done = write(fd, p, part);

		if (done < 0)
			_exit(1);
		p += done;
		n -= (size_t)done;
	}
}

static size_t make_line(char *line, const char *rank, long i)
{
	size_t xs = draw(LINE_MAX_BYTES - 100);
	int n = snprintf(line, LINE_MAX_BYTES, "%s %ld %zu ", rank, i, xs);

	memset(line + n, 'x', xs);
	line[(size_t)n + xs] = '\n';
	return (size_t)n + xs + 1;
}

static void lines(const char *rank, long count)
{
	char line[LINE_MAX_BYTES];

	for (long i = 0; i < count; i++) {
		put(STDOUT_FILENO, line, make_line(line, rank, i));
		put(STDERR_FILENO, line, make_line(line, rank, i));
	}
}

static void bytes(const char *rank, long mib, const char *path)
{
	char line[LINE_MAX_BYTES];
	long sum = 0, said = 0;
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);

	for (long i = 0; sum < mib << 20; i++) {
		size_t n = make_line(line, rank, i);

		put(STDOUT_FILENO, line, n);
		sum += (long)n;
		if (sum >> 20 > said) {
			said = sum >> 20;
			dprintf(fd, "%ld MiB\n", said);
		}
	}
}

int main(int argc, char **argv)
{
	const char *rank = getenv("RANK");

	if (!rank || argc < 2)
		return 2;
	seed = (unsigned int)atoi(rank) + 1;
	if (argc > 3)
		bytes(rank, atol(argv[2]), argv[3]);
	else
		lines(rank, atol(argv[1]));
	return 0;
}
