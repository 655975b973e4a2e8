# Several programs in one job: `:` and --multi-prog.
# covers: launcher/agent/agent_acts.c rendezvous/status/job_roles.c launcher/plan/roles.c launcher/config/config_programs.c launcher/plan/plan.c launcher/config/preflight.c
load ../lib
load ../openmpi

# mpi_roles COMPILER: makes ./mpi, whose ranks print their number of program
mpi_roles() {
	cat >mpi.c <<-'E'
		#include <mpi.h>
		#include <stdio.h>

		int main(int argc, char **argv)
		{
			int rank, size, has, *number, sum = 0, one = 1;

			MPI_Init(&argc, &argv);
			MPI_Comm_rank(MPI_COMM_WORLD, &rank);
			MPI_Comm_size(MPI_COMM_WORLD, &size);
			MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &has);
			MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
			printf("%s: rank %d of %d, program %d, sum %d\n", argv[1], rank,
			       size, has ? *number : -1, sum);
			return MPI_Finalize();
		}
	E
	"$1" -o mpi mpi.c
	[ "${HOSTS:-loopback}" != loopback ] || export OMPI_MCA_btl_tcp_if_include=lo
}

# what each worker is
who='echo $RANK/$WORLD_SIZE $ROLE_NAME $ROLE_RANK/$ROLE_WORLD_SIZE $DDP_ROLES'

@test "programs behind ':' are roles of one world" {
	expect 0 ddprun --log-line-prefix-template '${role_name}: ' -n 2 --role learner sh -c "$who" : \
		-n 3 -x A='b c' --role actor sh -c "$who; echo \$A" : -n 1 --wrap 'env W=1' sh -c 'echo $ROLE_NAME $W $A'
	[ "$(sort <<<"$out")" = "actor: 2/6 actor 0/3 learner=0-1 actor=2-4 sh=5
actor: 3/6 actor 1/3 learner=0-1 actor=2-4 sh=5
actor: 4/6 actor 2/3 learner=0-1 actor=2-4 sh=5
actor: b c
actor: b c
actor: b c
learner: 0/6 learner 0/2 learner=0-1 actor=2-4 sh=5
learner: 1/6 learner 1/2 learner=0-1 actor=2-4 sh=5
sh: sh 1" ]
	[ -z "$err" ]
}

@test "a file in Slurm's format names the programs" {
	cat >conf <<-'END'
		# task ids, program, arguments
		1,3  sh -c 'echo b $ROLE_RANK of $ROLE_WORLD_SIZE: $*' %t '%t' \
		     %o ${local_rank}
		*    --role rest sh -c 'echo rest $ROLE_RANK of $ROLE_WORLD_SIZE'
	END
	expect 0 ddprun -n 5 --multi-prog conf
	[ "$(sort <<<"$out")" = '[0] rest 0 of 3
[1] b 0 of 2: %t 0 1
[2] rest 1 of 3
[3] b 1 of 2: %t 1 3
[4] rest 2 of 3' ]
	# without * the file says how many there are
	printf '0 echo a\n1-2 echo b\n' >conf
	expect 0 ddprun --multi-prog conf
	[ "$(sort <<<"$out")" = $'[0] a\n[1] b\n[2] b' ]
}

@test "nothing starts unless each rank has a program and each program a rank" {
	local left='touch started'
	expect 2 ddprun -n 2 sh -c "$left" : -n 0 false
	has "$err" 'false: -n 0: a program needs a worker'
	expect 127 ddprun -n 2 sh -c "$left" : -n 1 ./nope
	has "$err" "role nope: cannot run './nope': No such file"
	expect 127 ddprun -n 2 sh -c "$left" : -n 1 --wrap nope true
	has "$err" "role true: cannot run 'nope'"
	expect 2 ddprun -n 2 sh -c "$left" : -n 1 --nnodes 2 true
	has "$err" "--nnodes after a ':' applies to the whole job"
	expect 2 ddprun --role-optional sh -c "$left"
	has "$err" '--role-optional needs a job of several programs'
	printf '0 sh -c "touch started"\n2 true\n' >conf
	expect 2 ddprun --multi-prog conf
	has "$err" 'rank 1 of 3 has no program'
	expect 2 ddprun -n 2 --multi-prog conf
	has "$err" 'role true \(true\) has rank 2, but the job has 2 workers'
	printf '0 sh -c "touch started"\n0-1 true\n' >conf
	expect 2 ddprun --multi-prog conf
	has "$err" 'line 2: rank 0 has a program already, sh'
	expect 2 ddprun --multi-prog conf true
	has "$err" "so 'true' cannot be another one"
	expect 2 ddprun --multi-prog none
	has "$err" "cannot read '.*none': No such file"
	expect 2 ddprun --nnodes 2 --rdzv-endpoint localhost:1 -n 2 sh -c "$left" : -n 1 true
	has "$err" '2 nodes cannot share them evenly; give --nproc-per-node'
	[ ! -e started ]
}

@test "the page and its report name the role and the program that failed" {
	expect 3 ddprun --log-dir logs -n 1 sleep 1000 : -n 2 --role actor sh -c 'test $RANK = 1 || exec sleep 1000; exit 3'
	has "$err" '^\|  rank +1 of 3'
	has "$err" '^\|  role +actor, program sh$'
	has "$(cat logs/*/attempt_0/report.json)" '"role":.*"actor"'
	has "$(cat logs/*/attempt_0/report.json)" '"program":.*"sh"'
	nothing_left
}

@test "a worker of an optional role that fails is left out" {
	mkfifo go
	exec 7<>go
	start job ddprun -n 2 sh -c 'read -r _ <go; echo on' : \
		-n 2 --role eval --role-optional sh -c '[ $ROLE_RANK != 0 ] || exit 3'
	await job.err 'continues without it$'
	printf '\n\n' >&7
	exec 7>&-
	finish job
	[ "$(sort <<<"$out")" = $'[0] on\n[1] on' ]
	has "$err" 'rank 2 of role eval \(pid [0-9]+\) exited with code 3; the role is optional: the job continues without it'
	expect 4 ddprun -n 2 sh -c 'exit 4' : -n 1 --role eval --role-optional sleep 1000
	has "$err" '^\|  role +sh, program sh$'
	nothing_left
}

# tries CODE...: a worker that exits with each code in turn
tries='echo x >>tries; n=$(($(wc -l <tries))); echo "try $n" $*; shift $((n - 1)); exit $1'

@test "a worker of an optional role that fails is started again alone, then left out" {
	local failed='rank 1 of role eval \(pid [0-9]+\) exited with code'
	mkfifo go
	start job ddprun --max-restarts 2 -n 1 sh -c 'read -r _ <go; echo on $TORCHELASTIC_RESTART_COUNT' : \
		-n 1 --role eval --role-optional sh -c "$tries" sh 1 2 3
	await job.err "$failed 3; "
	echo >go
	finish job
	[ "$(sort <<<"$out")" = $'[0] on 0\n[1] try 1 1 2 3\n[1] try 2 1 2 3\n[1] try 3 1 2 3' ]
	has "$err" "$failed 1; it was started again alone, restart 1 of 2\$"
	has "$err" "$failed 2; it was started again alone, restart 2 of 2\$"
	has "$err" "$failed 3; the role is optional: the job continues without it\$"
	# it may succeed then
	rm tries
	expect 0 ddprun --max-restarts 2 -n 1 true : -n 1 --role eval --role-optional sh -c "$tries" sh 1 0
	has "$err" "$failed 1; it was started again alone, restart 1 of 2\$"
	lacks "$err" 'restart 2 of 2|continues'
}

@test "processes that a worker left behind end before it is started again alone" {
	expect 0 ddprun --max-restarts 1 -n 1 true : -n 1 --role eval --role-optional \
		sh -c 'if [ ! -e pid ]; then sleep 1000 & echo $! >pid; exit 1; fi
			while kill -0 $(cat pid) 2>/dev/null; do sleep 0.02; done'
	has "$err" 'exited with code 1; it was started again alone, restart 1 of 1$'
	lacks "$err" 'continues'
	nothing_left
}

@test "a restart of the whole job resets the restarts of its workers" {
	mkfifo go
	start job ddprun --max-restarts 1 \
		-n 1 sh -c 'read -r _ <go; [ $TORCHELASTIC_RESTART_COUNT = 1 ]' : \
		-n 1 --role eval --role-optional sh -c "$tries" sh 1 2 3 4
	await job.err 'exited with code 2; the role is optional'
	echo >go
	await job.err 'exited with code 4; the role is optional'
	echo >go
	finish job
	[ "$(grep -c 'started again alone, restart 1 of 1$' <<<"$err")" = 2 ]
	[ "$(grep -c 'continues without it$' <<<"$err")" = 2 ]
}

@test "the other nodes log that a worker was started again or left out" {
	local job=(--rdzv-endpoint "127.0.0.1:$(w_port free)" --nnodes 2 --nproc-per-node 1 --max-restarts 1)
	local programs=(-n 1 sh -c 'read -r _ <go' : -n 1 --role eval --role-optional sh -c 'exit 7')
	mkfifo go
	start a ddprun "${job[@]}" --node-rank 0 --on-event 'cat >>events' "${programs[@]}"
	start b ddprun "${job[@]}" --node-rank 1 "${programs[@]}"
	await a.err 'node 1 \([^ ]+\): rank 1 of role eval \(pid [0-9]+\) exited with code 7; it was started again alone, restart 1 of 1$'
	await a.err 'node 1 \([^ ]+\): rank 1 of role eval \(pid [0-9]+\) exited with code 7; the role is optional: the job continues without it$'
	await events left_out
	echo >go
	finish a
	finish b
	has "$err" '^ddprun: warning: rank 1 of role eval .*; it was started again alone'
	lacks "$err" 'node 1 \('
	[ "$(python3 -c 'import json
e = json.JSONDecoder(); s = open("events").read(); x = []
while s.strip():
	o, n = e.raw_decode(s.lstrip()); s = s.lstrip()[n:]; x.append(o)
print(sorted((o["event"], o["rank"]) for o in x))')" = "[('left_out', 1), ('started_again', 1)]" ]
}

@test "a worker that was in libddp's world is not started again alone" {
	expect 0 ddprun --max-restarts 1 -n 1 c_init : -n 1 --role eval --role-optional sh -c 'c_init; exit 5'
	has "$err" 'rank 1 of role eval \(pid [0-9]+\) exited with code 5; the role is optional: the job continues without it, because it has called ddp_init, and cannot join that world again$'
	lacks "$err" 'started again'
}

@test "GPUs are shared by what each program needs" {
	export CUDA_VISIBLE_DEVICES=4,5,6
	expect 0 ddprun -n 1 --gpus-per-proc 2 --role a sh -c 'echo $CUDA_VISIBLE_DEVICES' : \
		-n 1 --role b sh -c 'echo $CUDA_VISIBLE_DEVICES' : -n 1 --role c --gpus-per-proc 1 sh -c 'echo $CUDA_VISIBLE_DEVICES'
	[ "$(sort <<<"$out")" = $'[0] 4,5\n[1] 4,5,6\n[2] 6' ]
	expect 66 ddprun -n 2 --gpus-per-proc 2 --role a touch started : -n 1 true
	has "$err" 'the 3 workers of this node need 4 GPUs, but CUDA_VISIBLE_DEVICES has 3'
	[ ! -e started ]
}

@test "a dry run shows each worker's role" {
	expect 0 ddprun --dry-run -n 1 true : -n 1 --role b echo x
	has "$out" '^rank 0, local rank 0, role true, host '
	has "$out" '^rank 1, local rank 1, role b, host '
	has "$out" "DDP_ROLES='true=0 b=1'"
	expect 0 ddprun --dry-run --nnodes 2 --nproc-per-node 1 -n 1 true : -n 1 --role b --wrap env -x A=1 echo x
	has "$out" '^roles true=0 b=1, host .* with 1 of them'
	has "$out" '^role b$'
	has "$out" 'argv     echo x'
}

@test "nodes may have different numbers of workers" {
	local job=(--rdzv-endpoint "127.0.0.1:$(w_port free)" --nnodes 2)
	local programs=(-n 2 --role l sh -c "$who" : -n 3 --role a sh -c "$who")
	start a ddprun "${job[@]}" --node-rank 0 --nproc-per-node 1 "${programs[@]}"
	start b ddprun "${job[@]}" --node-rank 1 --nproc-per-node 4 "${programs[@]}"
	finish a
	[ "$out" = '[0] 0/5 l 0/2 l=0-1 a=2-4' ]
	finish b
	[ "$(sort <<<"$out")" = '[1] 1/5 l 1/2 l=0-1 a=2-4
[2] 2/5 a 0/3 l=0-1 a=2-4
[3] 3/5 a 1/3 l=0-1 a=2-4
[4] 4/5 a 2/3 l=0-1 a=2-4' ]
}

@test "nodes that have another number of workers than the programs start none" {
	local job=(--rdzv-endpoint "127.0.0.1:$(w_port free)" --nnodes 2)
	start a ddprun "${job[@]}" --node-rank 0 --nproc-per-node 1 -n 2 touch a : -n 3 touch b
	start b ddprun "${job[@]}" --node-rank 1 --nproc-per-node 3 -n 2 touch a : -n 3 touch b
	finish a -
	[ "$status" != 0 ]
	has "$err" 'has rank 4, but the job has 4 workers'
	finish b -
	has "$err" 'has rank 4, but the job has 4 workers'
	[ ! -e a ] && [ ! -e b ]
}

# refused_node PATTERN FIRST... -- SECOND...: two nodes of one job whose options
# differ: the second is refused, both terminals say why, and the first goes on
# with a third that has the same as it
refused_node() {
	local pattern=$1 first=() job
	shift
	job=(--rdzv-endpoint "127.0.0.1:$(w_port free)" --nnodes 2 --nproc-per-node 1)
	while [ "$1" != -- ]; do
		first+=("$1")
		shift
	done
	shift
	DDP_LOG=debug start a ddprun "${job[@]}" "${first[@]}"
	await a.err '1 of 2 nodes have joined'
	expect 77 ddprun "${job[@]}" "$@"
	has "$err" "^ddprun: error: $pattern"
	await a.err "it may not join: $pattern"
	expect 0 ddprun "${job[@]}" "${first[@]}"
	finish a
}

@test "a node with other programs is refused, and both terminals name them" {
	refused_node "[^ ]+ has roles a=0 c=1, but [^ ]+ has roles a=0 b=1 in job 'none' at .*: give all nodes the same, or this one its own --rdzv-id" \
		-n 1 --role a true : -n 1 --role b true -- -n 1 --role a true : -n 1 --role c true
	refused_node "[^ ]+ has no roles, but [^ ]+ has roles a=0 b=1 in job" \
		-n 1 --role a true : -n 1 --role b true -- true
	refused_node "[^ ]+ has --role-optional b, but [^ ]+ has no --role-optional in job" \
		-n 1 --role a true : -n 1 --role b true -- -n 1 --role a true : -n 1 --role b --role-optional true
}

@test "a node with another --env or --mpi is refused, and both terminals name it" {
	refused_node "[^ ]+ has no --env, but [^ ]+ has --env tf in job 'none' at " --env tf true -- true
	refused_node "[^ ]+ has --env jax,tf, but [^ ]+ has --env tf in job" --env tf true -- --env tf,jax true
	refused_node "[^ ]+ has --mpi none, but [^ ]+ has --mpi pmi in job" --mpi pmi true -- --mpi none true
}

@test "status and top show the roles of a job" {
	local at=127.0.0.1:$(w_port free)
	mkfifo go
	exec 7<>go
	start job ddprun --rdzv-id j --rdzv-endpoint "$at" -n 2 --role learner sh -c 'echo here; read -r _ <go' : \
		-n 1 --role eval --role-optional sh -c 'echo here; read -r _ <go'
	for rank in 0 1 2; do
		await job.out "\\[$rank\\] here"
	done
	expect 0 ddprun status --job j --rdzv-endpoint "$at"
	has "$out" '^  roles learner \(0-1\), eval \(2; optional\)$'
	expect 0 ddprun status --json --job j --rdzv-endpoint "$at"
	[ "$(python3 -c 'import json, sys
j, = json.load(open(sys.argv[1]))["jobs"]
print([(r["name"], r["ranks"], r["optional"]) for r in j["roles"]], j["nodes"][0]["role"])' program.out)" = \
		"[('learner', '0-1', False), ('eval', '2', True)] default" ]
	# ranks are reported some seconds after the start
	expect 0 sh -c 'until ddprun top --once --job j --rdzv-endpoint "$1" >top && grep -q "^    2" top; do sleep 0.1; done' sh "$at"
	has "$(<top)" '^ RANK ROLE       '
	has "$(<top)" '^    1 learner    '
	has "$(<top)" '^    2 eval       '
	printf '\n\n\n' >&7
	exec 7>&-
	finish job
}

@test "status shows a node's --role" {
	local at=127.0.0.1:$(w_port free)
	mkfifo go
	exec 7<>go
	start job ddprun --rdzv-id j --rdzv-endpoint "$at" --role trainer sh -c 'echo here; read -r _ <go'
	await job.out here
	expect 0 ddprun status --job j --rdzv-endpoint "$at"
	has "$out" '^  node 0 .*  role trainer$'
	expect 0 ddprun status --json --job j --rdzv-endpoint "$at"
	has "$out" '"roles":[[:space:]]*\[\]'
	printf '\n' >&7
	exec 7>&-
	finish job
}

@test "libddp has one world of all programs, and a group for each role" {
	expect 0 ddprun -n 2 --role l c_roles : -n 3 --role a c_roles
	[ "$(sort <<<"$out")" = '[0] l: rank 0 of 2, 2 of all 5
[1] l: rank 1 of 2, 2 of all 5
[2] a: rank 0 of 3, 3 of all 5
[3] a: rank 1 of 3, 3 of all 5
[4] a: rank 2 of 3, 3 of all 5' ]
	expect 0 ddprun --nproc-per-node 2 c_roles
	[ "$(sort <<<"$out")" = '[0] default: rank 0 of 2, 2 of all 2
[1] default: rank 1 of 2, 2 of all 2' ]
}

@test "MPICH has one world of all programs, and MPI_APPNUM" {
	command -v mpicc.mpich >/dev/null || skip "MPICH is not installed (libmpich-dev)"
	mpi_roles mpicc.mpich
	expect 0 ddprun --log-line-prefix-template '' -n 1 ./mpi a : -n 2 ./mpi b
	[ "$(sort <<<"$out")" = 'a: rank 0 of 3, program 0, sum 3
b: rank 1 of 3, program 1, sum 3
b: rank 2 of 3, program 1, sum 3' ]
	ddprun install-mpiexec bin >/dev/null
	expect 0 bin/mpiexec -n 1 ./mpi a : -n 1 ./mpi b
	[ "$(sort <<<"$out")" = 'a: rank 0 of 2, program 0, sum 2
b: rank 1 of 2, program 1, sum 2' ]
	expect 2 ddprun -n 1 ./mpi a : -n 1 --role eval --role-optional ./mpi b
	has "$err" 'role eval is optional, but the job uses MPI, whose world cannot lose a rank'
}

@test "Open MPI has one world of all programs on two nodes, and MPI_APPNUM" {
	openmpi_or_skip
	mpi_roles mpicc.openmpi
	local job=(--log-line-prefix-template '' --rdzv-endpoint "127.0.0.1:$(w_port free)" --nnodes 2)
	start a ddprun "${job[@]}" --node-rank 0 --nproc-per-node 2 -n 1 ./mpi a : -n 2 ./mpi b
	start b ddprun "${job[@]}" --node-rank 1 --nproc-per-node 1 -n 1 ./mpi a : -n 2 ./mpi b
	finish a
	[ "$(sort <<<"$out")" = 'a: rank 0 of 3, program 0, sum 3
b: rank 1 of 3, program 1, sum 3' ]
	finish b
	[ "$out" = 'b: rank 2 of 3, program 1, sum 3' ]
}
