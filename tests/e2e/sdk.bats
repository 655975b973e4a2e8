# covers: worker-sdk/api worker-sdk/comm worker-sdk/kv rendezvous/client
bats_require_minimum_version 1.5.0
load ../lib
load ranks

# libddp from the outside: what it exports, how it starts, its store, and each rank's
# error when one misbehaves. sdk_collectives.bats has the results of its collectives.

root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)

# NAME MODE CULPRIT N TIMEOUT_MS: begins it; those that only wait do so together
begin_fault() {
	start "$1" "${deaf[@]}" \
		ddprun --standalone --nproc-per-node "$4" c_fault "$2" "$3" "$5"
}

# MODE CULPRIT N TIMEOUT_MS STATUS
fault() {
	begin_fault fault "${@:1:4}"
	end_fault fault "$5"
}

@test "only ddp_ names are visible, in the shared and the static library" {
	local names
	[ -z "${SAN:-}" ] || skip "sanitizers add names of their own"
	names=$(nm -D --defined-only "$O/libddp.so" | awk '{print $3}')
	grep -qx ddp_init@@DDP_0.1 <<<"$names"
	run -1 grep -Ev '^(ddp_[a-z_]+@@DDP_0.1|DDP_0.1)$' <<<"$names"
	names=$(nm -g --defined-only "$O/libddp.a" | awk 'NF == 3 {print $3}')
	grep -qx ddp_init <<<"$names"
	run -1 grep -Ev '^ddp_[a-z_]+$' <<<"$names"
}

@test "ddp.h compiles alone, in C and in C++" {
	echo '#include "ddp.h"' >one.c
	echo 'int main(void) { return ddp_type_size(DDP_F64) != 8; }' >>one.c
	cp one.c one.cc
	${CC:-gcc} -std=c11 -pedantic -Wall -Wextra -Werror -fsyntax-only \
		-I "$root/worker-sdk" one.c
	if command -v g++ >/dev/null; then
		g++ -std=c++11 -pedantic -Wall -Wextra -Werror -fsyntax-only \
			-I "$root/worker-sdk" one.cc
	fi
	[ -z "${SAN:-}" ] || return 0
	${CC:-gcc} -I "$root/worker-sdk" -o one one.c "$O/libddp.so"
	LD_LIBRARY_PATH=$O ./one
}

@test "the manual's example compiles and prints what the manual says" {
	[ -z "${SAN:-}" ] || skip "the linker would need the sanitizers"
	sed -n '/^#include <ddp.h>$/,/^}$/p' "$root/docs/man/ddp.3" |
		sed 's/\\e/\\/g' >mean.c
	${CC:-gcc} -Wall -Werror -I "$root/worker-sdk" -o mean mean.c \
		"$O/libddp.a" -lz
	expect 0 ddprun --standalone --nproc-per-node 2 ./mean
	[ "$(sort <<<"$out")" = "$(grep -E '^\[[01]\]' "$root/docs/man/ddp.3")" ]
}

@test "without a launcher a program is a world of one" {
	expect 0 c_init
	[ "$out" = "rank 0 of 1, local 0 of 1, node 0 of 1, attempt 0, backend cpu, leader 0" ]
	expect 0 c_collectives 40000
	expect 0 c_store
}

@test "a group is made after the string of ddp_options is gone" {
	ranks_ok 2 c_collectives groups cpu 10
}

@test "the store works alone, with one rank, with four ranks" {
	ranks_ok 1 c_store
	ranks_ok 4 c_store
	ranks_ok 1 c_store thread
	ranks_ok 3 c_store thread
}

@test "the other ranks learn how a rank ended before ddp_init" {
	fault exit 1 3 0 1
	# waiting ranks learn it at once; later ones find the round over
	has "$out" "^\[[02]\] rank [02]: -20004 .*: rank 1 \(local rank 1\) on .*, pid [0-9]+, exited with code 0 before it reached"
	fault fail 2 3 0 3
	has "$out" "^\[[01]\] rank [01]: -2000[47] .*: rank 2 \(local rank 2\) on .*, pid [0-9]+, exited with code 3"
}

@test "a rank killed during all_reduce is named on one host" {
	local r
	fault kill 1 3 0 137
	for r in 0 2; do
		has "${said[$r]}" "rank $r: -20004 in .* ms: all_reduce #3 \(f32 x 40000, avg\): rank 1 on .* is gone: rank 1 .* was killed by signal 9 \(SIGKILL\)"
	done
}

@test "a rank killed during all_reduce is named between hosts" {
	local r
	DDP_TEST_HOSTS=4 fault kill 1 4 0 137
	for r in 0 2 3; do
		has "${said[$r]}" "rank $r: -20004 in .* ms: all_reduce #3 .*rank 1 .* was killed by signal 9 \(SIGKILL\)"
	done
	# and if it led no rank: its leader notifies the other host's
	DDP_TEST_HOSTS=2 fault kill 3 4 0 137
	for r in 0 1 2; do
		has "${said[$r]}" "rank $r: -20004 in .* ms: all_reduce #3 .*rank 3 .* was killed by signal 9 \(SIGKILL\)"
	done
}

@test "a missing rank is named at the deadline" {
	local r
	fault late 1 3 2000 79
	for r in 0 2; do
		has "${said[$r]}" "rank $r: -20006 in [0-9]+ ms: all_reduce #3 \(f32 x 40000, avg\): rank 1 on .* has not arrived for [0-9.]+ s"
	done
	# the rank that came first; the other learns of it
	has "$out" 'rank [02]: -20006 in ([2-9][0-9]{3}|[0-9]{5,}) ms'
}

@test "a missing rank is named on all hosts, whatever the ranks there wait for" {
	local r
	# its own host's leader is the first to know; those of the other host
	# wait for theirs, which waits for that one
	DDP_TEST_HOSTS=2 begin_fault one late 3 4 2000
	DDP_TEST_HOSTS=2 begin_fault other late 2 4 2000
	end_fault one 79
	for r in 0 1 2; do
		has "${said[$r]}" "rank $r: -20006 in .* ms: all_reduce #3 .*: rank 3 on .* has not arrived for"
	done
	# its host's ranks miss a leader, and cannot notify the others
	end_fault other 79
	has "${said[3]}" "rank 3: -20006 in .* ms: all_reduce #3 .*: rank 2 on .* has not arrived for"
	for r in 0 1; do
		has "${said[$r]}" "rank $r: -2000[46] in .* ms: all_reduce #3 .* rank 2 on "
	done
}

@test "a rank that left with ddp_finalize is named" {
	local r
	begin_fault one leave 0 3 0
	DDP_TEST_HOSTS=3 begin_fault three leave 0 3 0
	end_fault one 1
	for r in 1 2; do
		has "${said[$r]}" "rank $r: -20004 .*: all_reduce #3 .*: rank 0 on .* left with ddp_finalize"
	done
	end_fault three 1
	for r in 1 2; do
		has "${said[$r]}" "rank $r: -20004 .*: all_reduce #3 .*: rank 0 on .* closed its connection"
	done
}

@test "ranks that make different calls learn what each called" {
	local r
	fault differ 2 3 0 1
	for r in 0 1 2; do
		has "${said[$r]}" "rank $r: -20001 .* called all_reduce #3 \(f32 x 40000, avg\)"
		has "${said[$r]}" "rank 2 on .* called broadcast #3 \(i64 x 7, root 0\)"
	done
	DDP_TEST_HOSTS=3 fault differ 2 3 0 1
	has "$out" "rank [0-2]: -20001 .* called .*all_reduce #3"
	has "$out" "rank [0-2]: -20001 .*broadcast #3 \(i64 x 7, root 0\)"
}

@test "ranks with another libddp or backend are named" {
	expect 1 "${deaf[@]}" ddprun --standalone --nproc-per-node 2 sh -c '
		[ $RANK = 0 ] || export DDP_TEST_VERSION=0.0.9
		exec c_init'
	has "$out" "^\[0\] -20002: rank 1 on .* runs libddp 0.0.9, rank 0 on .* runs [0-9.]+: start all ranks with the same libddp"
}

@test "an incomplete environment is an error that names what is missing" {
	RANK=0 expect 1 c_init
	[ "$out" = "-20002: RANK is set but WORLD_SIZE is not: start this program with ddprun or torchrun, or unset RANK to run alone" ]
	# PyTorch users set these by hand
	export RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 \
		GROUP_RANK=0 GROUP_WORLD_SIZE=1
	expect 1 c_init
	has "$out" "^-20002: RANK is set but MASTER_ADDR is not: start"
	# nothing listens there
	export DDP_RDZV_ENDPOINT=127.0.0.1:$(w_port free) DDP_JOB_ID=x DDP_ROUND=0
	expect 1 c_init
	has "$out" "$DDP_RDZV_ENDPOINT: .*Connection refused"
}

@test "a worker of a round that is over is refused" {
	expect 0 ddprun --standalone env DDP_ROUND=7 sh -c 'c_init || true'
	has "$out" "^\[0\] -20007: "
}

@test "missing backends are errors" {
	expect 1 c_init nccl
	has "$out" "^-20002: backend nccl: .* use cpu or auto"
	DDP_BACKEND=gloo expect 1 c_init
	has "$out" "^-20002: backend 'gloo' is unknown: use cpu, nccl or auto"
	expect 0 c_init auto
	has "$out" 'backend cpu'
}

@test "a forked child that calls ddp_finalize does not end its rank" {
	fault fork 0 3 0 0
	local r
	for r in 0 1 2; do
		has "${said[$r]}" "rank $r: 0 in"
	done
}
