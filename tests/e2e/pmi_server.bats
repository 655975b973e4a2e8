# MPI's start-up (PMI-1) served to workers: with a client in bash, and with MPICH.
# covers: launcher/pmi launcher/agent/agent_mpi.c launcher/plan
load ../lib
load ../backend
load ../mpich

# A client of PMI-1: pmi LINE sends it and prints the answer.
setup() {
	lib_setup
	cat >client <<-'E'
		pmi() {
			echo "$1" >&"$PMI_FD"
			IFS= read -r answer <&"$PMI_FD"
			echo "$answer"
		}
		pmi "cmd=init pmi_version=1 pmi_subversion=1" >/dev/null
	E
}

mpich_or_skip() {
	command -v mpicc.mpich >/dev/null || skip "MPICH is not installed (libmpich-dev)"
	cat >mpi.c <<-'E'
		#include <mpi.h>
		#include <signal.h>
		#include <stdio.h>
		#include <stdlib.h>
		#include <string.h>

		static int is(char **argv, const char *what, int rank)
		{
			return argv[1] && !strcmp(argv[1], what) && rank == 1;
		}

		int main(int argc, char **argv)
		{
			int first = *getenv("TORCHELASTIC_RESTART_COUNT") == '0';
			int rank, size, sum, one = 1;

			MPI_Init(&argc, &argv);
			MPI_Comm_rank(MPI_COMM_WORLD, &rank);
			MPI_Comm_size(MPI_COMM_WORLD, &size);
			if (is(argv, "abort", rank))
				MPI_Abort(MPI_COMM_WORLD, 7);
			if (is(argv, "kill", rank) && first)
				raise(SIGKILL);
			MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
			printf("rank %d of %d, sum %d\n", rank, size, sum);
			return MPI_Finalize();
		}
	E
	mpicc.mpich -o mpi mpi.c
}

all_met() { # TEXT N
	local r
	for ((r = 0; r < $2; r++)); do
		has "$1" "rank $r of $2, sum $2\$"
	done
	[ "$(grep -c ' sum ' <<<"$1")" = "$2" ]
}

port() {
	meets "127.0.0.1:$(w_port free)"
}

node() { # NAME OPTION...
	local name=$1
	shift
	start "$name" ddprun --nnodes 2 --rdzv-endpoint "$meet" "$@"
}

@test "workers exchange keys through PMI_FD, in a key space of their attempt" {
	cat >worker <<-'E'
		. ./client
		pmi "cmd=get_my_kvsname"
		pmi "cmd=get key=of$RANK"
		pmi "cmd=put key=of$RANK value=a b $TORCHELASTIC_RESTART_COUNT" >/dev/null
		pmi "cmd=barrier_in" >/dev/null
		pmi "cmd=get key=of1"
		[ $RANK$TORCHELASTIC_RESTART_COUNT != 00 ] || exit 3
		pmi "cmd=finalize" >/dev/null
	E
	expect 0 ddprun --mpi pmi --max-restarts 1 --nproc-per-node 2 --log-dir logs \
		--redirects 3 bash worker
	for a in 0 1; do
		f=$(echo logs/*/attempt_$a/0/stdout.log)
		grep -qxE "cmd=my_kvsname kvsname=ddprun_[0-9a-f]+_$a" "$f"
		grep -qx "cmd=get_result rc=-1 msg=key_of0_not_found value=unknown" "$f"
		grep -qx "cmd=get_result rc=0 msg=success value=a b $a" "$f"
	done
}

# MPICH 5 names its shared memory after it.
@test "each job has a name of its own for its key space, the same on all nodes" {
	local names
	printf '%s\n' '. ./client' 'pmi "cmd=get_my_kvsname" | sed "s/.*=//"' >worker
	for i in 1 2; do
		expect 0 ddprun --mpi pmi --nproc-per-node 2 bash worker
		names+=$(sed 's/.*] //' <<<"$out" | sort -u)$'\n'
	done
	for i in 1 2; do
		port
		node a --mpi pmi bash worker
		node b --mpi pmi bash worker
		finish a
		names+=$(sed 's/.*] //' <<<"$out")$'\n'
		finish b
		names+=$(sed 's/.*] //' <<<"$out")$'\n'
	done
	[ "$(grep -c '^ddprun_' <<<"$names")" = 6 ]
	[ "$(sort -u <<<"$names" | grep -c .)" = 4 ]
}

# A worker that leaves shared memory where MPICH 5 has its own, named after the key
# space by FNV-1a.
leaver() {
	cat >leaver <<-'E'
		. ./client
		name=$(pmi "cmd=get_my_kvsname" | sed 's/.*=//')
		hash=2166136261
		for ((i = 0; i < ${#name}; i++)); do
			printf -v c %d "'${name:i:1}"
			hash=$(((hash ^ c) * 16777619 & 0xffffffff))
		done
		for kind in shm vci; do
			printf -v file /dev/shm/mpich_${kind}_%x_%d $hash $GROUP_RANK
			echo x >$file
			echo "left $file"
		done
		eval "$1"
	E
}

@test "shared memory that MPICH's killed ranks leave is removed" {
	leaver
	expect 137 ddprun --mpi pmi --nproc-per-node 1 --max-restarts 1 bash leaver \
		'kill -KILL $$'
	files=$(sed -n 's/.*left //p' <<<"$out")
	[ "$(sort -u <<<"$files" | grep -c '^/dev/shm/mpich_.*_0$')" = 4 ]
	for file in $files; do [ ! -e "$file" ]; done
	port
	node a --mpi pmi bash leaver 'kill -KILL $$'
	node b --mpi pmi bash leaver 'sleep 1000'
	finish a 137
	files=$(sed -n 's/.*left //p' <<<"$out")
	finish b 137
	files+=$'\n'$(sed -n 's/.*left //p' <<<"$out")
	for file in $files; do [ ! -e "$file" ]; done
	# the guard removes what a killed ddprun cannot
	start job ddprun --mpi pmi --nproc-per-node 1 bash leaver 'sleep 1000'
	await job.out 'left .*vci'
	file=$(sed -n 's/.*left \(.*mpich_shm\)/\1/p' job.out)
	[ -e "$file" ]
	signal job KILL
	finish job -
	nothing_left
	[ ! -e "$file" ]
	rm "${file/shm_/vci_}" # which few programs have
}

@test "256 ranks of a node exchange keys" {
	cat >worker <<-'E'
		. ./client
		pmi "cmd=put key=of$RANK value=$RANK" >/dev/null
		for i in 1 2 3; do pmi "cmd=barrier_in" >/dev/null; done
		pmi "cmd=get key=of$(((RANK + 1) % 256))"
		pmi "cmd=finalize" >/dev/null
	E
	expect 0 ddprun --mpi pmi --nproc-per-node 256 bash worker
	[ "$(grep -c "cmd=get_result rc=0 " <<<"$out")" = 256 ]
	[ "$(sed "s/.*value=//" <<<"$out" | sort -n)" = "$(seq 0 255)" ]
}

# bats test_tags=etcd
@test "two uneven nodes exchange keys and know which ranks share a host" {
	port
	cat >worker <<-'E'
		. ./client
		pmi "cmd=get key=PMI_process_mapping"
		pmi "cmd=put key=of$RANK value=$RANK" >/dev/null
		pmi "cmd=barrier_in" >/dev/null
		for r in 0 1 2; do pmi "cmd=get key=of$r"; done
	E
	node a --mpi pmi --node-rank 0 --nproc-per-node 2 bash worker
	node b --mpi pmi --node-rank 1 --nproc-per-node 1 bash worker
	finish a
	local all=$out
	finish b
	all+=$'\n'$out
	[ "$(grep -cF 'value=(vector,(0,1,2),(1,1,1))' <<<"$all")" = 3 ]
	for r in 0 1 2; do
		[ "$(grep -c "value=$r\$" <<<"$all")" = 3 ]
	done
}

@test "nodes at a barrier find a server that was killed and started again" {
	local server
	port
	cat >worker <<-'E'
		. ./client
		echo up
		[ $RANK = 0 ] || read -r _ <go
		pmi "cmd=put key=of$RANK value=$RANK" >/dev/null
		pmi "cmd=barrier_in"
		pmi "cmd=get key=of1"
	E
	mkfifo go
	DDP_LOG=debug node a --mpi pmi --node-rank 0 bash worker
	node b --mpi pmi --node-rank 1 bash worker
	await a.out 'up$'
	await b.out 'up$'
	# on one host, either node may be the faster one and host the server
	server=$(pgrep -P "${pid[a]},${pid[b]}" -x ddprdzv)
	kill -KILL "$server"
	await a.err 'resumed|reconnected|is back|found again'
	echo >go
	finish a
	has "$out" 'value=1$'
	finish b
	has "$out" 'value=1$'
}

@test "a rank that ended without MPI_Init is named, on one node and on two" {
	cat >worker <<-'E'
		[ $RANK != 0 ] || exit 0
		. ./client
		pmi "cmd=barrier_in"
	E
	expect 66 ddprun --mpi pmi --nproc-per-node 2 bash worker
	has "$err" 'rank 0 ended without MPI_Init, but rank 1 waits for all ranks in an MPI call .*--mpi none$'
	port
	node a --mpi pmi --node-rank 0 bash worker
	node b --mpi pmi --node-rank 1 bash worker
	finish a 66
	finish b 66
	has "$err" 'rank 0 ended without MPI_Init, but rank 1 waits'
}

@test "a rank that fails at a barrier is the failure, not those that wait for it" {
	cat >worker <<-'E'
		[ $RANK = 0 ] && read -r _ <go1 && read -r _ <go2 && exit 9
		. ./client
		echo cmd=barrier_in >&$PMI_FD
		echo >go$RANK
		read -r _ <&$PMI_FD
	E
	mkfifo go1 go2
	expect 9 ddprun --mpi pmi --nproc-per-node 3 bash worker
	has "$err" 'rank 0 .*exited with code 9'
}

@test "an agent does not look for the server when the round is over" {
	port
	cat >worker <<-'E'
		. ./client
		pmi "cmd=barrier_in" >/dev/null
		[ $RANK != 0 ] || exit 3
		trap '' TERM
		while :; do read -r _ <&$PMI_FD; done
	E
	export DDP_LOG=debug
	node a --mpi pmi --node-rank 0 --shutdown-timeout 2 bash worker
	node b --mpi pmi --node-rank 1 --shutdown-timeout 2 bash worker
	finish a 3
	finish b 3
	has "$err" "MPI's exchange among nodes: .*exited with code 3"
	lacks "$err" "MPI's exchange among nodes: calling the server again"
}

# put N SIZE LAST: N keys whose lines in a part have 16 bytes and the value's SIZE
# bytes; the last value has LAST.
put_many='put_many() {
	awk -v n="$1" -v size="$2" -v last="$3" -v rank="$RANK" "BEGIN {
		for (i = 0; i < n; i++)
			printf \"cmd=put key=%d.%06d value=%0*d\\n\", rank, i,
				i < n - 1 ? size : last, i }" >&$PMI_FD &
	head -n "$1" <&$PMI_FD | grep -v rc=0
	wait
}'

@test "keys that fill a node's part of a barrier to its last byte end the job" {
	# 65536 of 16 + 1008 bytes are 64 MiB, without the part's head
	expect 66 ddprun --mpi pmi bash -c ". ./client
		$put_many
		put_many 65536 1008 1008
		pmi cmd=barrier_in"
	lacks "$out" 'put_result'
	has "$err" "the ranks of this node put more than 67108864 bytes before a barrier"
}

@test "nodes exchange keys that no message can hold" {
	port
	printf '%s\n' '. ./client' "$put_many" >worker
	cat >>worker <<-'E'
		# 20 MiB a node: five pieces
		put_many 10240 1008 1008
		pmi cmd=barrier_in
		for ((r = 0; r < 4; r++)); do
			for key in 000000 005000 010239; do
				pmi "cmd=get key=$r.$key" | sed 's/=0*/=/2g'
			done
		done
	E
	node a --mpi pmi --node-rank 0 --nproc-per-node 2 bash worker
	node b --mpi pmi --node-rank 1 --nproc-per-node 2 bash worker
	finish a 0
	lacks "$out" 'put_result'
	[ "$(grep -c 'cmd=get_result .*value=$' <<<"$out")" = 8 ]
	[ "$(grep -c 'cmd=get_result .*value=5000$' <<<"$out")" = 8 ]
	[ "$(grep -c 'cmd=get_result .*value=10239$' <<<"$out")" = 8 ]
	finish b 0
	[ "$(grep -c 'cmd=get_result .*value=10239$' <<<"$out")" = 8 ]
}

# large_nodes N NNODES COMMAND...: starts N nodes, n0 and so on, with 1 or 2 workers each
large_nodes() {
	local n=$1 nnodes=$2
	shift 2
	[ -n "${meet:-}" ] || port
	export DDP_LOG=debug
	for ((i = 0; i < n; i++)); do
		start n$i ddprun --mpi pmi --nnodes "$nnodes" --node-rank $i \
			--rdzv-endpoint "$meet" --nproc-per-node $((1 + i % 2)) "$@"
	done
}

@test "nodes pass a large exchange on to each other, and the server sends it once" {
	large_nodes 6 6 "$O/tests/w_pmi_large" 40
	for i in 0 1 2 3 4 5; do
		finish n$i 0
		[ "$(grep -c ': 320 values' <<<"$out")" = $((1 + i % 2)) ]
		if [ $i = 0 ]; then
			lacks "$err" "MPI's exchange 2: the list"
		else
			has "$err" "MPI's exchange 2: the list came from another node"
		fi
		lacks "$err" "MPI's exchange 1: the list"
	done
}

@test "a node that dies during a large exchange is left out of the next one" {
	printf '%s\n' '[ $GROUP_RANK != 3 ] || kill -KILL $PPID' \
		'exec "$O/tests/w_pmi_large" 80' >worker
	export O
	large_nodes 4 3:4 bash worker
	finish n3 137
	for i in 0 1 2; do
		finish n$i 0
		[ "$(grep -c ': 240 values' <<<"$out")" = $((1 + i % 2)) ]
		[ $i = 0 ] || has "$err" "MPI's exchange 2: the list came from another node"
	done
}

@test "a large exchange goes on when its server was killed and started again" {
	start server ddprdzv --listen 127.0.0.1:0 --journal j
	await server.err ' listening on'
	meet=${line##* }
	mkfifo say
	cat >worker <<-'E'
		echo here
		[ $GROUP_RANK != 2 ] || read -r _ <say
		exec "$O/tests/w_pmi_large" 60
	E
	export O
	large_nodes 4 4 bash worker
	for i in 0 1 2 3; do await n$i.out here; done
	kill -KILL "${pid[server]}"
	finish server 137
	start server ddprdzv --listen "$meet" --journal j
	for i in 0 1 2 3; do await n$i.err 'exchange among nodes: calling the server again'; done
	echo go >say
	for i in 0 1 2 3; do
		finish n$i 0
		[ "$(grep -c ': 300 values' <<<"$out")" = $((1 + i % 2)) ]
		[ $i = 0 ] || has "$err" "MPI's exchange 2: the list came from another node"
	done
	signal server TERM
	finish server
}

@test "ranks of MPICH meet through a session of MPI 4, on one node and on two" {
	mpich_or_skip
	session_program
	mpicc.mpich -o session session.c
	expect 0 ddprun --nproc-per-node 3 ./session
	all_met "$out" 3
	port
	node a --nproc-per-node 2 ./session
	node b --nproc-per-node 1 ./session
	finish a
	both=$out
	finish b
	all_met "$both"$'\n'"$out" 3
}

@test "PMI-2, a line of 1 MB and a spawn are refused" {
	expect 66 ddprun --mpi pmi bash -c 'printf "    52cmd=fullinit;" >&$PMI_FD; read -r _ <&$PMI_FD'
	has "$err" "rank 0 does not speak PMI-1 on PMI_FD: its first bytes are '    52cmd=fullinit;'"
	expect 66 ddprun --mpi pmi bash -c 'head -c 1M /dev/zero | tr "\0" c >&$PMI_FD; read -r _ <&$PMI_FD'
	has "$err" 'rank 0 sent a line of more than 8192 bytes on PMI_FD'
	expect 0 ddprun --mpi pmi bash -c '. ./client
		printf "mcmd=spawn\nnprocs=2\nexecname=a\ntotspawns=1\nspawnssofar=1\n" >&$PMI_FD
		pmi endcmd'
	has "$out" 'cmd=spawn_result rc=-1'
	has "$err" 'warning: rank 0 called MPI_Comm_spawn, which ddprun refuses'
}

@test "MPI_Abort without an exit ends the job with its code and text" {
	expect 5 ddprun --mpi pmi --nproc-per-node 2 bash -c '. ./client
		[ $RANK = 0 ] || pmi "cmd=abort exitcode=5 error_msg=out of luck"
		pmi "cmd=barrier_in"'
	has "$err" 'rank 1 .*: it called MPI_Abort with 5: out of luck'
}

@test "--mpi none, and a program without MPI, get no PMI_FD" {
	for way in auto none; do
		expect 0 ddprun --mpi $way sh -c 'echo "${PMI_FD-no} ${PMI_RANK-no} ${PMI_SIZE-no}"'
		[ "$out" = "[0] no no no" ]
	done
	expect 0 ddprun --mpi pmi --dry-run sh
	has "$out" 'PMI_SIZE=1'
	has "$out" '^  later .* PMI_FD '
}

@test "an unknown way to serve MPI is refused" {
	expect 2 ddprun --mpi hydra true
	has "$err" "--mpi 'hydra': give auto, pmi, pmix or none"
}

@test "libddp in workers that are served PMI has its own world" {
	expect 0 ddprun --mpi pmi --nproc-per-node 2 c_init
}

@test "MPICH's ranks meet on one node, without an option" {
	mpich_or_skip
	for n in 1 2 4; do
		expect 0 ddprun --nproc-per-node $n ./mpi
		all_met "$out" $n
		[ -z "$err" ]
	done
}

@test "MPICH's ranks meet on two uneven nodes" {
	mpich_or_skip
	port
	node a --nproc-per-node 1 ./mpi
	node b --nproc-per-node 2 ./mpi
	finish a
	local all=$out
	finish b
	all_met "$all"$'\n'"$out" 3
}

@test "a killed MPI rank restarts the world" {
	mpich_or_skip
	expect 0 ddprun --max-restarts 1 --nproc-per-node 3 ./mpi kill
	all_met "$out" 3
	has "$err" 'restarting \(1 of 1\): rank 1 .* was killed by signal 9'
	port
	node a --max-restarts 1 ./mpi kill
	node b --max-restarts 1 ./mpi kill
	finish a
	local all=$out
	finish b
	all_met "$all"$'\n'"$out" 2
}

@test "MPI_Abort's code is the exit code, and the page names it" {
	mpich_or_skip
	expect 7 ddprun --nproc-per-node 3 ./mpi abort
	has "$err" 'rank 1 .*: it called MPI_Abort with 7$'
	has "$err" 'exited with code 7'
}

@test "a script in which only rank 0 uses MPI works unchanged" {
	mpich_or_skip
	expect 0 ddprun --nproc-per-node 3 sh -c '[ $RANK != 0 ] || exec ./mpi'
	all_met "$out" 1
	expect 0 ddprun --nproc-per-node 3 --mpi none ./mpi
	[ "$(grep -c 'rank 0 of 1, sum 1' <<<"$out")" = 3 ]
	[ -z "$err" ]
}
