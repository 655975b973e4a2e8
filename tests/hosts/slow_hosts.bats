# A node all of whose ranks are slow.
# covers: rendezvous/stall/slow.c launcher/watch
load ../lib
load netns

setup() {
	lib_setup
	hosts_up 2
	hosts_real
}

@test "a node whose ranks are all slow is named, not one of them" {
	local h slow want
	want='^ddprun: node h2 \(ranks 2 to 3\) slows the job down: the ranks of other nodes wait for it [0-9]+ % of the time; '
	: >slow
	for h in h1 h2; do
		[ $h = h1 ] && slow=none || slow='$RANK'
		start_on $h on_$h env DDP_TEST_WATCH_MS=1500 ddprun --nnodes 2 \
			--node-rank $((${h#h} - 1)) --nproc-per-node 2 \
			--rdzv-endpoint "${at[h1]}:29400" sh -c "exec c_slow $slow"
	done
	await on_h1.err "$want"
	await on_h2.err "$want"
	: >end
	finish on_h1
	finish on_h2
}
