# watch.sh: what the progress watch and the flight recorder cost a step of 1 ms of two
# ranks: the step with both and with DDP_RECORDER=off, in turns, and the CPU time of the
# agent. WATCH_SECONDS=5 for each run.

# watch_job RECORDER NAME
watch_job() {
	DDP_RECORDER=$1 "$O/ddprun" --standalone --nproc-per-node 2 --cpu-bind cores \
		"$B/bench_watch" "${WATCH_SECONDS:-5}" "$watch_turns" </dev/null |
		sed -n 's/^\[0\] //p' >>"$work/$2"
}

# watch_median NAME FIELD
watch_median() {
	cut -d ' ' -f "$2" "$work/$1" | median
}

bench_watch() {
	watch_turns=$("$B/bench_watch" 0 0)
	r=0
	while [ $r -lt "$ROUNDS" ]; do
		watch_job '' on
		watch_job off off
		r=$((r + 1))
	done
	say "progress watch and flight recorder: steps of 1 ms, 2 ranks;" \
		"$ROUNDS runs each; load average $(cut -d' ' -f1 /proc/loadavg)"
	awk -v a="$(watch_median on 1)" -v b="$(watch_median off 1)" 'BEGIN {
		printf "a step takes %.2f us, %.2f without the recorder: %+.2f %%; " \
			"goal: at most 0.5\n", a, b, (a / b - 1) * 100
	}'
	echo "the agent uses $(watch_median on 2) thousandths of a core," \
		"$(watch_median off 2) without the recorder"
}
bench_watch
