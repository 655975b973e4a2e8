# recorder.sh: what the flight recorder costs: a record beside the smallest
# all_reduce, and that with the recorder off and on, in turn.

# recorder_run off|on: "ns of a record, ns of a 4 B all_reduce", the least
recorder_run() {
	DDP_RECORDER=$1 "$O/ddprun" --standalone --nproc-per-node 2 \
		"$O/tests/bench_recorder" 2>/dev/null | sed 's/^\[0\] //' |
		sort -g -k 2 | head -n 1
}

bench_recorder() {
	say "the flight recorder at a 4 B all_reduce of 2 ranks"
	r=0
	while [ $r -lt "$ROUNDS" ]; do
		for mode in off on; do
			recorder_run $mode >>"$work/recorder.$mode"
		done
		r=$((r + 1))
	done
	record=$(cut -d ' ' -f 1 "$work/recorder.on" | median)
	off=$(cut -d ' ' -f 2 "$work/recorder.off" | median)
	on=$(cut -d ' ' -f 2 "$work/recorder.on" | median)
	echo "a record $record ns; all_reduce off $off ns, on $on ns;" \
		"ratio $(ratio "$on" "$off"); a record is" \
		"$(awk "BEGIN { print 100 * $record / $off }") % of a call"
}

bench_recorder
