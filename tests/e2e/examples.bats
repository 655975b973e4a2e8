load ../lib

# The programs of docs/sdk.md: they are what it says, and they run.

root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)

@test "docs/sdk.md has the first example word for word" {
	sed -n '/^```c$/,/^```$/p' "$root/docs/sdk.md" |
		sed '1d; /^```$/,$d' >shown.c
	cmp shown.c "$root/worker-sdk/examples/fit_line.c"
}

@test "the first example finds the line on any number of ranks" {
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

@test "and between hosts" {
	expect 0 env DDP_TEST_HOSTS=2 ddprun --standalone --nproc-per-node 4 \
		"$O/examples/by_hand" 1001
	[ "$(grep -c latency <<<"$out")" = 3 ]
}
