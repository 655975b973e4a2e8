/* stamp.c: a worker that says when it runs, and returns: adds the time, in
 * microseconds since 1970, as a line to the file that it is given. */
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct timespec t;
	char line[32];
	int n, fd;

	clock_gettime(CLOCK_REALTIME, &t);
	n = snprintf(line, sizeof(line), "%lld\n",
		     (long long)t.tv_sec * 1000000 + t.tv_nsec / 1000);
	fd = argc > 1 ? open(argv[1], O_WRONLY | O_APPEND) : -1;
	return fd < 0 || write(fd, line, (size_t)n) != n;
}
