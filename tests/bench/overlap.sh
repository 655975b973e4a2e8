# overlap.sh: a synthetic backward pass whose computing takes as long as its
# communication: together they should take as long as one of them.
. "$here/two_hosts.sh"

# Reads lines "overlap COMPUTE COMMUNICATE AFTER TOGETHER CPU". Where there is a goal
# it is for the longer of the two, and beside it stands what is possible: where a
# rank computes on each CPU, the communication's share of the CPU comes on top.
overlap_line() {
	awk -v what="$1" -v goal="${2:-}" '
	/overlap/ { sub(/.*overlap /, ""); print }' | sort -n -k 4 |
	awk -v what="$1" -v goal="${2:-}" '
	{ line[NR] = $0 }
	END {
		if (!NR) { print what ": failed"; exit }
		split(line[int((NR + 1) / 2)], v, " ")
		max = v[1] > v[2] ? v[1] : v[2]
		bound = v[1] + v[5] > v[2] ? v[1] + v[5] : v[2]
		printf "%-34s compute %.1f ms, communication %.1f, one after " \
			"the other %.1f, together %.1f: %.2f x the longer, " \
			"%.2f x the sum", what, v[1], v[2], v[3], v[4], \
			v[4] / max, v[4] / (v[1] + v[2])
		if (what !~ /idle/)
			printf ", %.2f x what the CPU allows (%.1f ms of it)", \
				v[4] / bound, v[5]
		if (goal)
			printf "; goal: at most %s x: %s", goal, \
				v[4] / max <= goal ? "met" : "MISSED"
		print ""
	}'
}

overlap_rounds() {
	r=0
	while [ $r -lt "$ROUNDS" ]; do
		"$@" 2>"$work/overlap.err" || cat "$work/overlap.err" >&2
		r=$((r + 1))
	done
}

bench_overlap() {
	say "overlap: a backward pass that computes as long as it communicates;" \
		"medians of $ROUNDS rounds;" \
		"load average $(cut -d' ' -f1 /proc/loadavg)"
	if two_hosts_up; then
		for rate in 1gbit 4gbit; do
			wire $rate
			overlap_rounds both_hosts 1 "$O/bench/bench_overlap" 16 \
				device | overlap_line "two hosts, $rate, CPU idle" \
				1.1
			overlap_rounds both_hosts 1 "$O/bench/bench_overlap" 16 |
				overlap_line "two hosts, $rate, CPU computes" 1.1
		done
		two_hosts_down
	fi
	overlap_rounds timeout -k 1 120 "$O/ddprun" --standalone \
		--nproc-per-node 2 "$O/bench/bench_overlap" 64 |
		overlap_line "one host, 2 ranks on $(nproc) CPUs"
	for layout in arena spans; do
		overlap_rounds timeout -k 1 120 "$O/ddprun" --standalone \
			--nproc-per-node 2 "$O/bench/bench_overlap" 64 $layout |
			overlap_line "the same, GPT-2's tensors, $layout"
	done
	echo "On one host communicating is work for the same CPUs: with a rank on" \
		"each of them nothing can overlap, and the sum is the bound."
}
bench_overlap
