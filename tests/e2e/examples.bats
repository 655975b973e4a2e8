# covers: worker-sdk/examples worker-sdk/api
load ../lib

# The programs of docs/sdk.md match the page, and they run.

root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)

@test "docs/sdk.md contains the first example word for word" {
	sed -n '/^```c$/,/^```$/p' "$root/docs/sdk.md" |
		sed '1d; /^```$/,$d' >shown.c
	cmp shown.c "$root/worker-sdk/examples/fit_line.c"
}

@test "the examples are C and C++, without a warning" {
	local f std
	for f in "$root"/worker-sdk/examples/*.c; do
		gcc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror \
			-fsyntax-only -I "$root/worker-sdk" "$f"
		for std in c++11 c++20; do
			g++ -x c++ -std=$std -Wall -Wextra -Werror \
				-fsyntax-only -I "$root/worker-sdk" "$f"
		done
	done
}

# nvcc compiles C++, in which a compound literal has no address.
@test "the lines that the docs give to NCCL programs are C++" {
	local doc
	for doc in sdk sdk-nccl; do
		{
			echo '#include <ddp.h>'
			echo 'typedef struct { char b[128]; } ncclUniqueId;'
			echo 'typedef struct x *ncclComm_t;'
			echo 'int ncclCommInitRank(ncclComm_t *, int, ncclUniqueId, int);'
			echo 'ddp_comm *world; ncclUniqueId id; ncclComm_t comm;'
			echo 'void f(void) {'
			grep -h -B3 -A1 '^ *ddp_nccl_unique_id' "$root/docs/$doc.md" |
				grep ';$'
			echo '}'
		} >snippet.cc
		grep -c ';$' snippet.cc
		has "$(cat snippet.cc)" ddp_init
		g++ -Wall -Wextra -Werror -fsyntax-only \
			-I "$root/worker-sdk" snippet.cc
	done
}

@test "the first example fits the same line on any number of ranks" {
	local n
	for n in 1 2 3; do
		expect 0 ddprun --standalone --nproc-per-node $n \
			"$O/examples/fit_line"
		[ "$out" = "[0] y = 2.00x + 1.00" ]
	done
	expect 0 "$O/examples/fit_line"
	[ "$out" = "y = 2.00x + 1.00" ]
}

# The program checks each sum that it makes by hand.
@test "reduce and all_reduce by hand agree with the library's" {
	local n count
	for n in 1 2 3; do
		for count in 0 1 1001; do
			expect 0 ddprun --standalone --nproc-per-node $n \
				"$O/examples/by_hand" $count
			has "$out" ddp_all_reduce
		done
	done
	[ "$(grep -c latency <<<"$out")" = 2 ]
}

@test "reduce and all_reduce by hand agree with the library's between hosts" {
	expect 0 env DDP_TEST_HOSTS=2 ddprun --standalone --nproc-per-node 4 \
		"$O/examples/by_hand" 1001
	[ "$(grep -c latency <<<"$out")" = 3 ]
}

# The program compares the parameters with those of the whole optimizer. SHARE: values of
# state on each rank, WHOLE: without ZeRO.
zero1() { # RANKS OPTIMIZER PARAMETERS SHARE WHOLE
	expect 0 ddprun --standalone --nproc-per-node "$1" \
		"$O/examples/zero1" "$2" "$3"
	has "$out" "^\[0\] $2, $3 parameters, $1 ranks: .* rank: $4 values in place of $5\$"
	awk '{gsub(",|;", ""); for (i = 1; i < NF; i++) if ($i == "then")
		exit !($(i + 1) < $(i - 1) / 10)}' <<<"$out"
}

@test "a share of the optimizer's state on each rank trains the same parameters" {
	zero1 1 sgd 101 101 101
	zero1 2 sgd 101 51 102
	zero1 3 sgd 1 1 3
	zero1 4 adam 101 52 208
}
