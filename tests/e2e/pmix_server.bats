# PMIx served to workers, by a helper process over libpmix, with Debian's Open MPI.
# covers: launcher/pmix launcher/pmi launcher/agent/agent_mpi.c launcher/plan
load ../lib
load ../backend
load ../openmpi

two_nodes() { # STATUS OPTION...: the output of both is in $out
	local want=$1 all
	shift
	meets "127.0.0.1:$(w_port free)"
	start a ddprun --nnodes 2 --rdzv-endpoint "$meet" --node-rank 0 "$@"
	start b ddprun --nnodes 2 --rdzv-endpoint "$meet" --node-rank 1 "$@"
	finish a "$want"
	all=$out
	finish b "$want"
	out=$all$'\n'$out
}

helper_of() { # NAME: the pid of its helper
	pgrep -P "${pid[$1]}" -x ddprun-pmix
}

# Files of Open MPI and libpmix, except those of an agent that lives (its pid is in
# the name): it is another test's.
files_left() {
	local path agent
	find /dev/shm /tmp "$T" -maxdepth 2 -newer mpi \
		\( -name 'ddprun_pmix_*' -o -name 'vader_segment.*' -o -name 'pmix*dstor*' \) 2>/dev/null |
		while read -r path; do
			agent=${path#*ddprun_pmix_}
			[ "$agent" != "$path" ] && [ -e "/proc/${agent%%_*}" ] || echo "$path"
		done
}

no_files_left() {
	local left end=$((SECONDS + 10))
	while left=$(files_left) && [ -n "$left" ]; do
		[ $SECONDS -lt $end ] || { echo "left: $left" && return 1; }
	done
}

@test "Open MPI's ranks meet on one node, without an option" {
	openmpi_or_skip
	for n in 1 2 4; do
		expect 0 ddprun --nproc-per-node $n ./mpi
		all_met "$out" $n
		[ -z "$err" ]
	done
	no_files_left
}

@test "Open MPI's ranks meet on two uneven nodes" {
	openmpi_or_skip
	meets "127.0.0.1:$(w_port free)"
	start a ddprun --nnodes 2 --rdzv-endpoint "$meet" --node-rank 0 --nproc-per-node 2 ./mpi
	start b ddprun --nnodes 2 --rdzv-endpoint "$meet" --node-rank 1 --nproc-per-node 1 ./mpi
	finish a
	local all=$out
	finish b
	all_met "$all"$'\n'"$out" 3
}

@test "ranks get the data of ranks on other nodes without a fence" {
	openmpi_or_skip
	export OMPI_MCA_pmix_base_async_modex=1 OMPI_MCA_pmix_base_collect_data=0
	# one rank on each node: docs/mpi.md says how several may fail
	DDP_LOG=debug two_nodes 0 ./mpi
	all_met "$out" 2
	has "$(cat a.err b.err)" 'PMIx: node [01] asks for the data of rank [01]$'
}

@test "ranks get that data from a server that was killed and started again" {
	openmpi_or_skip
	export OMPI_MCA_pmix_base_async_modex=1 OMPI_MCA_pmix_base_collect_data=0
	export DDP_LOG=debug
	mkfifo gate
	meets "127.0.0.1:$(w_port free)"
	start a ddprun --nnodes 2 --rdzv-endpoint "$meet" --node-rank 0 ./mpi gate
	start b ddprun --nnodes 2 --rdzv-endpoint "$meet" --node-rank 1 ./mpi gate
	await a.out 'up$'
	await b.out 'up$'
	kill -KILL "$(pgrep -P "${pid[a]},${pid[b]}" -x ddprdzv)"
	await a.err "MPI's letters among nodes: calling the server again"
	await b.err "MPI's letters among nodes: calling the server again"
	: >gate
	finish a
	local all=$out
	finish b
	all_met "$all"$'\n'"$out" 2
	has "$(cat a.err b.err)" 'PMIx: node [01] asks for the data of rank [01]$'
}

@test "workers find the server, in a world of their attempt, and no PMI" {
	pmix_or_skip
	cat >worker <<-'E'
		echo "$PMIX_NAMESPACE $PMIX_RANK ${PMI_RANK-no} ${PMI_FD-no} ${PMI_SIZE-no}"
		[ $RANK$TORCHELASTIC_RESTART_COUNT != 00 ] || exit 3
	E
	PMIX_RANK=7 PMI_RANK=7 PMI_SIZE=9 expect 0 ddprun --standalone --mpi pmix \
		--max-restarts 1 --nproc-per-node 2 bash worker
	has "$out" '^\[0\] ddprun_[0-9a-f]{16}_0 0 no no no$'
	has "$out" '^\[0\] ddprun_[0-9a-f]{16}_1 0 no no no$'
	has "$out" '^\[1\] ddprun_[0-9a-f]{16}_1 1 no no no$'
	for way in auto none pmi; do
		expect 0 ddprun --mpi $way sh -c 'echo "${PMIX_RANK-no} ${PMIX_NAMESPACE-no}"'
		[ "$out" = "[0] no no" ]
	done
}

@test "256 ranks of a node have their places in one world" {
	pmix_or_skip
	expect 0 ddprun --mpi pmix --nproc-per-node 256 sh -c 'echo "$PMIX_NAMESPACE:$PMIX_RANK"'
	[ "$(sed 's/.*://' <<<"$out" | sort -n)" = "$(seq 0 255)" ]
	[ "$(sed 's/.*] //; s/:.*//' <<<"$out" | sort -u | wc -l)" = 1 ]
}

@test "--dry-run names each variable of PMIx, and shows those that are known" {
	pmix_or_skip
	export PMIX_RANK=7 PMIX_SERVER_URI4=other
	ddprun --mpi pmix env | grep -oE '\b(PMIX|OMPI)_[A-Z0-9a-z_]+=' | tr -d = | sort -u >names
	[ "$(wc -l <names)" -ge 10 ]
	expect 0 ddprun --mpi pmix --nproc-per-node 2 --dry-run true
	has "$out" '^  changed  PMIX_RANK=0$'
	has "$out" '^  changed  PMIX_RANK=1$'
	lacks "$out" '^  removed  PMIX_SERVER_URI4$'
	while read -r name; do
		[ "$name" = PMIX_RANK ] || has "$out" "^  later .* $name "
	done <names
	expect 0 ddprun --mpi pmix --nnodes 2 --dry-run true
	has "$out" '^  later .* PMIX_RANK '
	expect 0 ddprun --mpi none --dry-run true
	has "$out" '^  removed  PMIX_SERVER_URI4$'
	lacks "$out" 'later.*PMIX'
}

@test "without a fabric, Open MPI's ranks do not load its transports; the user decides" {
	! ls -d /sys/class/infiniband/* /sys/class/cxi/* /dev/hfi1* /dev/ipath* 2>/dev/null ||
		skip "this host has a fabric"
	mtl='echo "mtl ${OMPI_MCA_mtl-unset}"'
	export HOME=$T
	expect 0 ddprun --mpi pmix sh -c "$mtl"
	has "$out" '^\[0\] mtl \^ofi,psm,psm2$'
	expect 0 ddprun --mpi pmix --mca mtl psm2 sh -c "$mtl"
	has "$out" '^\[0\] mtl psm2$'
	expect 0 env OMPI_MCA_pml=cm ddprun --mpi pmix sh -c "$mtl"
	has "$out" '^\[0\] mtl unset$'
	expect 0 ddprun --mpi none sh -c "$mtl"
	has "$out" '^\[0\] mtl unset$'
	mkdir .openmpi
	echo 'pml = cm' >.openmpi/mca-params.conf
	expect 0 ddprun --mpi pmix sh -c "$mtl"
	has "$out" '^\[0\] mtl unset$'
}

@test "Open MPI's ranks yield their CPU while they wait, if they are more than the CPUs" {
	openmpi_or_skip
	cat >yields.c <<-'E'
		#include <mpi.h>
		#include <stdbool.h>
		#include <stdio.h>

		int main(int argc, char **argv)
		{
			int level, at, count;
			bool yields[8] = {0}; /* Open MPI writes a byte */
			MPI_T_cvar_handle h;

			MPI_T_init_thread(MPI_THREAD_SINGLE, &level);
			MPI_Init(&argc, &argv);
			if (!MPI_T_cvar_get_index("mpi_yield_when_idle", &at) &&
			    !MPI_T_cvar_handle_alloc(at, NULL, &h, &count))
				MPI_T_cvar_read(h, yields);
			printf("yields %d\n", yields[0]);
			return MPI_Finalize();
		}
	E
	mpicc.openmpi -o yields yields.c
	local cpu=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
	expect 0 taskset -c "$cpu" ddprun --nproc-per-node 2 ./yields
	[ "$(grep -c 'yields 1$' <<<"$out")" = 2 ]
	expect 0 taskset -c "$cpu" ddprun --nproc-per-node 2 --dry-run ./yields
	has "$out" '^  later .* OMPI_MCA_mpi_oversubscribe '
	expect 0 taskset -c "$cpu" ddprun --nproc-per-node 1 ./yields
	has "$out" 'yields 0$'
	expect 0 taskset -c "$cpu" ddprun --mca mpi_yield_when_idle 0 --nproc-per-node 2 ./yields
	[ "$(grep -c 'yields 0$' <<<"$out")" = 2 ]
}

@test "the timers of PMIx's ranks are late by as much as there are ranks for a CPU" {
	pmix_or_skip
	cat >slack.py <<-E
		print('slack', open('/proc/self/timerslack_ns').read())
	E
	local cpu=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
	local job="taskset -c $cpu ddprun --mpi pmix --nproc-per-node"
	expect 0 $job 4 python3 slack.py
	[ "$(grep -c 'slack 200000$' <<<"$out")" = 4 ]
	expect 0 $job 4 --preload os python3 slack.py
	[ "$(grep -c 'slack 200000$' <<<"$out")" = 4 ]
	expect 0 $job 1 python3 slack.py
	has "$out" 'slack 50000$'
	expect 0 ${job/pmix/none} 4 python3 slack.py
	[ "$(grep -c 'slack 50000$' <<<"$out")" = 4 ]
	cat >own.py <<-E
		import ctypes, os, sys
		ctypes.CDLL(None).prctl(29, 70000, 0, 0, 0) # PR_SET_TIMERSLACK
		os.execvp(sys.argv[1], sys.argv[1:])
	E
	expect 0 python3 own.py $job 4 python3 slack.py
	[ "$(grep -c 'slack 70000$' <<<"$out")" = 4 ]
}

@test "ranks of Open MPI do not load hwloc's plugins for OpenCL and X" {
	openmpi_or_skip
	cat >plugins.c <<-E
		#include <mpi.h>
		#include <stdio.h>
		#include <stdlib.h>
		#include <string.h>

		int main(int argc, char **argv)
		{
			const char *list = getenv("HWLOC_PLUGINS_BLACKLIST");
			char line[4096];
			FILE *f;

			MPI_Init(&argc, &argv);
			f = fopen("/proc/self/maps", "r");
			printf("without %s\\n", list ? list : "none");
			while (f && fgets(line, sizeof(line), f))
				if (strstr(line, "hwloc_gl") ||
				    strstr(line, "hwloc_opencl"))
					printf("loads %s", line);
			return MPI_Finalize();
		}
	E
	mpicc.openmpi -o plugins plugins.c
	unset ${!HWLOC_*}
	expect 0 ddprun --nproc-per-node 2 ./plugins
	[ "$(grep -c 'without hwloc_gl.so,hwloc_opencl.so,' <<<"$out")" = 2 ]
	lacks "$out" 'loads'
	HWLOC_HIDE_ERRORS=1 expect 0 ddprun --nproc-per-node 2 ./plugins
	[ "$(grep -c 'without none' <<<"$out")" = 2 ]
}

@test "libddp in workers that are served PMIx has its own world" {
	pmix_or_skip
	expect 0 ddprun --mpi pmix --nproc-per-node 2 c_init
}

@test "libddp without variables but PMIx's gets its rank and world from the server" {
	pmix_or_skip
	# leaks of PMIx's library are not ours
	echo leak:libpmix >lsan
	export LSAN_OPTIONS=suppressions=$T/lsan:print_suppressions=0
	expect 0 ddprun --standalone --mpi pmix --nproc-per-node 3 bash -c '
		unset ${!DDP_*} ${!RANK*} ${!LOCAL_*} ${!WORLD_*} ${!GROUP_*} ${!ROLE_*} \
			${!MASTER_*} ${!TORCH*} ${!OMPI_*}
		exec c_guest'
	for rank in 0 1 2; do
		has "$out" "rank $rank of 3, local $rank of 3, node 0 of 1: ok\$"
	done
}

@test "a killed rank of Open MPI restarts the world" {
	openmpi_or_skip
	expect 0 ddprun --max-restarts 1 --nproc-per-node 3 ./mpi kill
	all_met "$out" 3
	has "$err" 'restarting \(1 of 1\): rank 1 .* was killed by signal 9'
	two_nodes 0 --max-restarts 1 ./mpi kill
	all_met "$out" 2
	nothing_left
	no_files_left
}

@test "Open MPI's MPI_Abort: its code is the exit code, and the page names it" {
	openmpi_or_skip
	expect 7 ddprun --nproc-per-node 3 ./mpi abort
	has "$err" 'rank 1 .*: it called MPI_Abort with 7$'
	has "$err" 'exited with code 7'
}

@test "an error of Open MPI 4 is in its rank's stderr, and in the first line" {
	openmpi_or_skip
	cat >truncated.c <<-E
		#include <mpi.h>
		int main(int argc, char **argv)
		{
			int a[9] = {0}, b[1], rank;
			MPI_Request r;
			MPI_Init(&argc, &argv);
			MPI_Comm_rank(MPI_COMM_WORLD, &rank);
			if (rank == 1) {
				MPI_Isend(a, 9, MPI_INT, 1, 1, MPI_COMM_WORLD, &r);
				MPI_Recv(b, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			}
			MPI_Barrier(MPI_COMM_WORLD);
			return MPI_Finalize();
		}
	E
	mpicc.openmpi -o truncated truncated.c
	expect 15 ddprun --nproc-per-node 2 --log-dir logs --tee 3 ./truncated
	has "$err" '^\[1\] .*MPI_ERR_TRUNCATE: message truncated$'
	has "$err" 'rank 1 .*: it called MPI_Abort with 15: An error occurred in MPI_Recv: MPI_ERR_TRUNCATE: message truncated$'
	grep -q 'MPI_ERR_TRUNCATE' logs/*/attempt_0/1/stderr.log
}

@test "a helper that is killed is the cause of the failure, and of a restart" {
	openmpi_or_skip
	start job ddprun --nproc-per-node 2 ./mpi wait
	await job.out '\[1\] up$'
	local helper
	helper=$(helper_of job)
	kill -KILL "$helper"
	finish job 137
	has "$err" "rank [01] .*: the process that served PMIx on this node \(pid $helper\) was killed by SIGKILL"
	start job ddprun --max-restarts 1 --nproc-per-node 2 ./mpi wait
	await job.out '\[1\] up$'
	kill -KILL "$(helper_of job)"
	finish job
	all_met "$out" 2
	has "$err" 'restarting \(1 of 1\): .*the process that served PMIx on this node'
	nothing_left
	no_files_left
}

# Lets each helper wait until the test opens the fifo "gate"; it adds a line to
# "reached" before.
gate_up() {
	cat >gate.c <<-'E'
		#include <dlfcn.h>
		#include <fcntl.h>
		#include <string.h>
		#include <sys/prctl.h>
		#include <unistd.h>

		int hwloc_topology_load(void *topology)
		{
			int (*load)(void *), fd;
			char name[16] = "";
			void *at;

			prctl(PR_GET_NAME, name);
			if (strcmp(name, "ddprun-pmix") == 0) {
				fd = open("reached", O_WRONLY | O_APPEND);
				write(fd, "reached\n", 8);
				close(fd);
				close(open("gate", O_RDONLY));
			}
			at = dlsym(dlopen("libhwloc.so.15", RTLD_NOW), "hwloc_topology_load");
			memcpy(&load, &at, sizeof(at));
			return load(topology);
		}
	E
	cc -shared -fPIC -o gate.so gate.c
	mkfifo gate
	: >reached
	export LD_PRELOAD=$T/gate.so ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0
}

@test "a helper that is killed before the workers are started fails the job by name" {
	pmix_or_skip
	gate_up
	start job ddprun --mpi pmix --nproc-per-node 2 sh -c 'echo started'
	await reached reached
	local helper
	helper=$(helper_of job)
	kill -KILL "$helper"
	finish job 66
	[ -z "$out" ]
	has "$err" "could not start its workers: the process that served PMIx on this node \(pid $helper\) was killed by SIGKILL"
	nothing_left
}

@test "a PMIx server that does not start within 15 s is reported, with what to do" {
	pmix_or_skip
	gate_up
	# writes down each limit; 15 s are as long as 1 s
	cat >hurry.c <<-'E'
		#include <fcntl.h>
		#include <stdio.h>
		#include <sys/time.h>
		#include <unistd.h>

		unsigned alarm(unsigned s)
		{
			struct itimerval t = {.it_value.tv_sec = s > 3 ? s - 14 : s};
			int fd = open("limits", O_WRONLY | O_CREAT | O_APPEND, 0600);

			dprintf(fd, "%u\n", s);
			close(fd);
			setitimer(ITIMER_REAL, &t, NULL);
			return 0;
		}
	E
	cc -shared -fPIC -o hurry.so hurry.c
	export LD_PRELOAD=$LD_PRELOAD:$T/hurry.so
	start job sh -c 'trap "" ALRM; exec "$@"' - \
		ddprun --mpi pmix --nproc-per-node 2 sh -c 'echo started'
	await reached reached
	finish job 66
	[ -z "$out" ]
	has "$err" 'could not start its workers: the PMIx server of libpmix\.so\.2 on this node did not start within 15 s \(try again, or update that library; --mpi none starts worlds of one\)'
	nothing_left
	[ "$(<limits)" = 15 ]
	# that of a server that has started is lifted
	rm limits
	start job ddprun --mpi pmix --nproc-per-node 2 true
	: >gate
	finish job
	[ "$(head -2 limits | xargs)" = '15 0' ]
}

@test "neither the helper nor its files outlive an agent that is killed before it starts" {
	pmix_or_skip
	gate_up
	start job ddprun --mpi pmix --nproc-per-node 2 sh -c 'echo started'
	await reached reached
	local helper folder
	helper=$(helper_of job)
	folder=$(echo /dev/shm/ddprun_pmix_"${pid[job]}"_*)
	[ -d "$folder" ]
	signal job STOP # it must not see the helper's end
	kill -KILL "$helper"
	signal job KILL
	finish job 137
	nothing_left
	[ ! -e "$folder" ]
}

@test "workers get a stop that came before they were started" {
	pmix_or_skip
	gate_up
	start job ddprun --mpi pmix --nproc-per-node 2 tail -f /dev/null
	await reached reached
	signal job TERM
	await job.err 'got SIGTERM'
	: >gate
	finish job 143
	nothing_left
}

@test "the helper and its files do not outlive an agent that is killed" {
	openmpi_or_skip
	start job ddprun --nproc-per-node 2 ./mpi wait
	await job.out '\[1\] up$'
	local helper
	helper=$(helper_of job)
	signal job KILL
	finish job 137
	await_end "$helper"
	nothing_left
	no_files_left
}

@test "a stop signal reaches Open MPI's ranks, and the helper ends after them" {
	openmpi_or_skip
	start job ddprun --nproc-per-node 2 ./mpi wait
	await job.out '\[1\] up$'
	kill -TERM "$(helper_of job)" # it is for the ranks
	signal job TERM
	finish job 143
	nothing_left
	no_files_left
}

@test "a rank that ended without Open MPI's MPI_Init is named, on one node and on two" {
	openmpi_or_skip
	expect 66 ddprun --mpi pmix --nproc-per-node 2 sh -c '[ $RANK = 0 ] || exec ./mpi'
	has "$err" 'rank 0 ended without MPI_Init, but rank 1 waits for all ranks in an MPI call .*--mpi none$'
	two_nodes 66 --mpi pmix sh -c '[ $RANK = 0 ] || exec ./mpi'
	has "$err" 'rank 0 ended without MPI_Init, but rank 1 waits'
	expect 0 ddprun --mpi pmix --nproc-per-node 2 true
	# ranks without a launcher race to make and remove Open MPI's folder in TMPDIR
	expect 0 ddprun --mpi none --nproc-per-node 3 sh -c \
		'TMPDIR=$(mktemp -d) exec ./mpi'
	[ "$(grep -c 'rank 0 of 1, sum 1' <<<"$out")" = 3 ]
}

@test "MPI_Comm_spawn of Open MPI is refused, and logged" {
	openmpi_or_skip
	expect - ddprun --nproc-per-node 1 ./mpi spawn
	[ "$status" != 0 ]
	has "$err" 'warning: rank 0 asked PMIx for something that ddprun refuses: MPI_Comm_spawn: start all processes at once'
}

# What a host without libpmix, or with a broken one, does.
hide_libpmix() {
	mkdir hidden
	echo nothing >hidden/libpmix.so.2
	export LD_LIBRARY_PATH=$T/hidden
}

@test "without libpmix, --mpi pmix is refused before anything starts" {
	hide_libpmix
	expect 71 ddprun --mpi pmix sh -c 'echo started'
	[ -z "$out" ]
	has "$err" '^ddprun: error: --mpi pmix: ddprun cannot serve PMIx, which Open MPI needs to start: .*libpmix\.so\.2: .* \(install libpmix \(Debian: libpmix2\), or add the folder of libpmix\.so\.2 to LD_LIBRARY_PATH\)$'
	[ "$(wc -l <<<"$err")" = 1 ]
}

@test "without libpmix, several worlds of one get one warning; several nodes an error" {
	openmpi_or_skip
	hide_libpmix
	cat >nothing.c <<-'E'
		int main(void) { return 0; }
	E
	mpicc.openmpi -Wl,--no-as-needed -o nothing nothing.c
	expect 0 ddprun --nproc-per-node 2 ./nothing
	has "$err" '^ddprun: warning: .*/nothing is an MPI program \(it needs libmpi\.so\.40\), and its 2 processes are 2 MPI worlds of one process: ddprun cannot serve PMIx, .*install libpmix \(Debian: libpmix2'
	[ "$(wc -l <<<"$err")" = 1 ]
	expect 0 ddprun ./nothing
	[ -z "$err" ]
	two_nodes 71 ./nothing
	has "$err" 'ddprun cannot serve PMIx, .*--mpi none runs its processes as worlds of one'
}

@test "our declarations of PMIx are those of the library's headers" {
	pkg-config --exists pmix || skip "PMIx's headers are not installed (libpmix-dev)"
	cat >abi.c <<-'E'
		#include <pmix_server.h>
		#include <stddef.h>
		#include "pmi/pmix_abi.h"
		#define SAME(what) _Static_assert(what, #what)
		#define AT(member) SAME(offsetof(struct pmix_abi_module, member) == \
					offsetof(pmix_server_module_t, member))
		SAME(PMIX_ABI_KEY_BYTES == PMIX_MAX_KEYLEN + 1);
		SAME(PMIX_ABI_NAMESPACE_BYTES == PMIX_MAX_NSLEN + 1);
		SAME(PMIX_ABI_BOOL == PMIX_BOOL && PMIX_ABI_STRING == PMIX_STRING);
		SAME(PMIX_ABI_INT == PMIX_INT && PMIX_ABI_UINT16 == PMIX_UINT16);
		SAME(PMIX_ABI_UINT32 == PMIX_UINT32 && PMIX_ABI_INFO == PMIX_INFO);
		SAME(PMIX_ABI_DATA_ARRAY == PMIX_DATA_ARRAY && PMIX_ABI_RANK == PMIX_PROC_RANK);
		SAME(PMIX_ABI_SUCCESS == PMIX_SUCCESS && PMIX_ABI_ERROR == PMIX_ERROR);
		SAME(PMIX_ABI_ERR_NOMEM == PMIX_ERR_NOMEM);
		SAME(PMIX_ABI_ERR_NOT_SUPPORTED == PMIX_ERR_NOT_SUPPORTED);
		SAME(PMIX_ABI_OPERATION_SUCCEEDED == PMIX_OPERATION_SUCCEEDED);
		SAME(PMIX_ABI_GLOBAL == PMIX_GLOBAL && PMIX_ABI_RANK_WILDCARD == PMIX_RANK_WILDCARD);
		SAME(sizeof(struct pmix_abi_proc) == sizeof(pmix_proc_t));
		SAME(offsetof(struct pmix_abi_proc, rank) == offsetof(pmix_proc_t, rank));
		SAME(sizeof(struct pmix_abi_value) == sizeof(pmix_value_t));
		SAME(offsetof(struct pmix_abi_value, data) == offsetof(pmix_value_t, data));
		SAME(sizeof(struct pmix_abi_info) == sizeof(pmix_info_t));
		SAME(offsetof(struct pmix_abi_info, flags) == offsetof(pmix_info_t, flags));
		SAME(offsetof(struct pmix_abi_info, value) == offsetof(pmix_info_t, value));
		SAME(sizeof(struct pmix_abi_array) == sizeof(pmix_data_array_t));
		SAME(offsetof(struct pmix_abi_array, size) == offsetof(pmix_data_array_t, size));
		SAME(offsetof(struct pmix_abi_array, array) == offsetof(pmix_data_array_t, array));
		SAME(sizeof(struct pmix_abi_module) >= sizeof(pmix_server_module_t));
		AT(client_connected); AT(client_finalized); AT(abort); AT(fence_nb);
		AT(log);
		AT(direct_modex); AT(spawn); AT(register_events); AT(deregister_events);
		AT(job_control); AT(client_connected2);
	E
	cc -fsyntax-only -I"${lib_tests%/*}" $(pkg-config --cflags pmix) abi.c
	# each key that the helper names is one of the library's
	grep -oh '"pmix\.[a-z.]*"' "${lib_tests%/*}"/launcher/pmix/pmix_register.c | sort -u >keys
	[ "$(wc -l <keys)" -ge 25 ]
	while read -r key; do
		grep -rqF "$key" $(pkg-config --cflags-only-I pmix | tr ' ' '\n' |
			sed -n 's/^-I//p') || { echo "no key $key" && return 1; }
	done <keys
}
