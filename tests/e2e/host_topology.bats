# hwloc's description of the host, which a helper finds once for all of MPI's ranks.
# covers: launcher/pmi/host_topology.c launcher/pmi/topology_helper.c launcher/agent/agent_mpi.c
load ../lib

# prog: a program that needs libmpich.so.12 and libhwloc.so.15, which are stand-ins: that of
# hwloc writes what the variable TEXT says, or does what WHAT says.
setup() {
	lib_setup
	cat >hwloc.c <<-'E'
		#include <signal.h>
		#include <stdlib.h>
		#include <string.h>
		#include <unistd.h>

		int hwloc_topology_init(void **t) { *t = &t; return 0; }
		int hwloc_topology_set_flags(void *t, unsigned long f) { return 0; }
		int hwloc_topology_set_all_types_filter(void *t, int f) { return 0; }

		int hwloc_topology_load(void *t)
		{
			const char *what = getenv("WHAT");

			if (what && !strcmp(what, "crash"))
				abort();
			if (what && !strcmp(what, "hang")) {
				signal(SIGALRM, SIG_IGN);
				write(2, "hangs\n", 6);
				for (;;)
					pause();
			}
			return what && !strcmp(what, "fail") ? -1 : 0;
		}

		int hwloc_topology_export_xmlbuffer(void *t, char **x, int *n,
						    unsigned long f)
		{
			*x = getenv("TEXT");
			*n = strlen(*x) + 1;
			return 0;
		}
	E
	cat >prog.c <<-'E'
		#include <stdio.h>
		#include <stdlib.h>

		int nothing(void), hwloc_topology_load(void *);
		int (*used)(void *) = hwloc_topology_load;

		int main(void)
		{
			const char *path = getenv("HWLOC_XMLFILE");
			const char *ours = getenv("HWLOC_THISSYSTEM");
			FILE *f = path ? fopen(path, "r") : NULL;
			char text[80] = "none";

			if (f && !fgets(text, sizeof(text), f))
				return 1;
			printf("rank %s: %s, %s\n", getenv("RANK"), text, ours ? ours : "no");
			return nothing();
		}
	E
	echo 'int nothing(void) { return 0; }' >nothing.c
	cc -shared -fPIC -Wl,-soname,libhwloc.so.15 -o libhwloc.so.15 hwloc.c
	cc -shared -fPIC -Wl,-soname,libmpich.so.12 -o libmpich.so.12 nothing.c
	cc -o prog prog.c ./libmpich.so.12 ./libhwloc.so.15 -Wl,-rpath,"$PWD"
	export TEXT='<topology/>'
	unset ${!HWLOC_*}
}

ranks_print() { # N TEXT
	local r
	for ((r = 0; r < $1; r++)); do
		has "$out" "rank $r: $2\$"
	done
}

@test "MPI's ranks read the host's topology from one file, also after a restart" {
	expect 0 ddprun --nproc-per-node 3 ./prog
	ranks_print 3 '<topology/>, 1'
	[ -z "$err" ]
	echo '[ $RANK$TORCHELASTIC_RESTART_COUNT != 10 ] || exit 3; exec ./prog' >again
	cat >shell.c <<-'E'
		#include <unistd.h>
		int nothing(void), hwloc_topology_load(void *);
		int (*used)(void *) = hwloc_topology_load;
		int main(void) { nothing(); return execlp("sh", "sh", "again", NULL); }
	E
	cc -o shell shell.c ./libmpich.so.12 ./libhwloc.so.15 -Wl,-rpath,"$PWD"
	expect 0 ddprun --nproc-per-node 2 --max-restarts 1 ./shell
	has "$out" 'rank 1: <topology/>, 1$'
}

@test "a rank that is alone on its host, and a program without MPI or hwloc, have no file" {
	expect 0 ddprun --nproc-per-node 1 ./prog
	ranks_print 1 'none, no'
	expect 0 ddprun --nproc-per-node 2 --mpi none ./prog
	ranks_print 2 'none, no'
	sed -i '/used/d; s/hwloc_topology_load(void \*)/unused(void)/' prog.c
	cc -o prog prog.c ./libmpich.so.12 -Wl,-rpath,"$PWD"
	expect 0 ddprun --nproc-per-node 2 ./prog
	ranks_print 2 'none, no'
}

@test "a user's own variable of hwloc is left alone" {
	HWLOC_COMPONENTS=-x86 expect 0 ddprun --nproc-per-node 2 ./prog
	ranks_print 2 'none, no'
	echo user >user.xml
	HWLOC_XMLFILE=user.xml expect 0 ddprun --nproc-per-node 2 ./prog
	has "$out" 'rank 0: user$'
}

@test "the ranks start without the file if hwloc crashes or fails" {
	for what in crash fail; do
		WHAT=$what expect 0 ddprun --nproc-per-node 2 ./prog
		ranks_print 2 'none, no'
		[ -z "$err" ]
	done
}

@test "a job that waits for hwloc can be stopped" {
	WHAT=hang start job ddprun --nproc-per-node 2 ./prog
	await job.err hangs
	signal job TERM
	finish job 143
}

@test "a rank's hwloc reads the file as the host itself" {
	command -v mpicc.mpich >/dev/null || skip "MPICH is not installed (libmpich-dev)"
	[ -e /usr/include/hwloc.h ] || skip "hwloc.h is not installed (libhwloc-dev)"
	cat >real.c <<-'E'
		#include <hwloc.h>
		#include <mpi.h>
		#include <stdio.h>

		int main(int argc, char **argv)
		{
			hwloc_topology_t t;

			MPI_Init(&argc, &argv);
			hwloc_topology_init(&t);
			if (hwloc_topology_load(t) || !hwloc_topology_is_thissystem(t))
				return 1;
			printf("depth %d, %d cpus, %d cores\n", hwloc_topology_get_depth(t),
			       hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PU),
			       hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_CORE));
			hwloc_topology_destroy(t);
			return MPI_Finalize();
		}
	E
	mpicc.mpich -o real real.c -lhwloc
	expect 0 ddprun --nproc-per-node 2 ./real
	local shared=$out
	HWLOC_HIDE_ERRORS=1 expect 0 ddprun --nproc-per-node 2 ./real
	[ "$shared" = "$out" ] || [ "$(sort <<<"$shared")" = "$(sort <<<"$out")" ]
	has "$out" 'depth'
}
