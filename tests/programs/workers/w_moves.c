/* w_moves.c: moves itself into its parent's process group, then executes the
 * program that it is given: w_moves PROGRAM [ARGUMENT...] */
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 2 || setpgid(0, getpgid(getppid())) < 0) {
		perror("w_moves");
		return 1;
	}
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 127;
}
