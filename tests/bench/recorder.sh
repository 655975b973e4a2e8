# recorder.sh: the cost of the flight recorder in the shortest collective: an
# all_reduce of 4 B by two ranks with it and with DDP_RECORDER=off, in turns.

recorder_one() {
	DDP_RECORDER=$1 timeout -k 1 60 "$O/ddprun" --standalone \
		--nproc-per-node 2 --cpu-bind cores \
		"$O/bench/bench_collectives" all_reduce 4 2>/dev/null </dev/null |
		sed -n 's/^\(\[0\] \)*all_reduce 4 [a-z]* \([0-9.]*\) 0$/\2/p' \
			>>"$work/recorder.$2"
}

bench_recorder() {
	r=0
	while [ $r -lt $((ROUNDS * 5)) ]; do
		recorder_one '' on
		recorder_one off off
		r=$((r + 1))
	done
	say "flight recorder: all_reduce of 4 B, 2 ranks; $((ROUNDS * 10))" \
		"runs each; load average $(cut -d' ' -f1 /proc/loadavg)"
	on=$(median <"$work/recorder.on") off=$(median <"$work/recorder.off")
	echo "medians: with it $on us, off $off us: ratio $(
		awk -v a="$on" -v b="$off" 'BEGIN { printf "%.3f", a / b }');" \
		"goal: under 1.02"
	on=$(sort -g "$work/recorder.on" | head -n 1)
	off=$(sort -g "$work/recorder.off" | head -n 1)
	echo "fastest: with it $on us, off $off us: ratio $(
		awk -v a="$on" -v b="$off" 'BEGIN { printf "%.3f", a / b }')"
}
bench_recorder
