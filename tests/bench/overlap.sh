# overlap.sh: a step whose gradients are averaged while the backward pass goes
# on, over the larger of the pass alone and the averaging alone (1.00 would be
# all hidden). The pass waits, as one on an accelerator; or keeps every CPU
# busy, where there is nothing to hide in: then it should cost no more than one
# after the other.

# overlap_row NAME HOSTS ARGS...
overlap_row() {
	row=$1 hosts=$2
	shift 2
	printf '%-34s' "$row"
	DDP_TEST_HOSTS=$hosts "$O/ddprun" --standalone --nproc-per-node 2 \
		"$O/tests/bench_overlap" "$@" | sed 's/^\[0\] //'
}

bench_overlap() {
	say "a backward pass and the averaging of its gradients, ms"
	printf '%-34s%8s %8s %8s %8s %8s\n' "64 MiB, 2 ranks" pass average \
		"in turn" reducer "/ max"
	for hosts in 1 2; do
		for ms in 60 120; do
			overlap_row "$hosts host(s), waiting" $hosts 64 $ms wait
			overlap_row "$hosts host(s), waiting, thread" $hosts 64 $ms wait progress
		done
		overlap_row "$hosts host(s), busy" $hosts 64 60 busy
		overlap_row "$hosts host(s), busy, thread" $hosts 64 60 busy progress
	done
}
bench_overlap
