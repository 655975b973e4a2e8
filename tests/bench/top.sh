# top.sh: a redraw of `ddprun top`, and what it costs a node to be watched: the CPU time
# of ddprun and ddprdzv of a job of eight sleeping workers, for TOP_SECONDS (20) without
# and with a `ddprun top` on a terminal.

# top_cpu: nanoseconds of CPU of the job's ddprun and ddprdzv so far
top_cpu() {
	cat "/proc/$top_job/schedstat" \
		"/proc/$(pgrep -P "$top_job" -x ddprdzv)/schedstat" |
		awk '{ sum += $1 } END { printf "%.0f\n", sum }'
}

# top_share: the thousandths of a core that they use
top_share() {
	top_before=$(top_cpu)
	sleep "${TOP_SECONDS:-20}"
	awk -v a="$top_before" -v b="$(top_cpu)" -v s="${TOP_SECONDS:-20}" \
		'BEGIN { printf "%.3f\n", (b - a) / s / 1e6 }'
}

bench_top() {
	say "top: a redraw, and its cost for a node; load average $(cut -d' ' -f1 /proc/loadavg)"
	for n in 1024 4096; do
		printf '%6d ranks: a redraw takes %s ms' "$n" \
			"$("$B/bench_top" "$n" 101 | cut -d ' ' -f 1)"
		if [ "$n" = 1024 ]; then
			echo '; goal: under 20'
		else
			echo
		fi
	done
	"$O/ddprun" --standalone --nproc-per-node 8 "$B/sleeper" >"$work/out" 2>&1 &
	top_job=$!
	timeout 20 tail -n +1 -F "$work/out" 2>/dev/null | grep -q -m 8 'pid ' || true
	alone=$(top_share)
	script -qfc "stty rows 50 cols 200; exec '$O/ddprun' top" /dev/null \
		>"$work/screen" 2>&1 </dev/null &
	top_watcher=$!
	timeout 20 tail -c +1 -F "$work/screen" 2>/dev/null | grep -q -m 1 RANK || true
	watched=$(top_share)
	echo "8 workers: a node's ddprun and ddprdzv use $alone thousandths of a core," \
		"$watched with top: $(awk -v a="$alone" -v b="$watched" \
			'BEGIN { printf "%.3f", b - a }') more; goal: under 1"
	kill "$top_watcher" "$top_job" 2>/dev/null || true
	wait "$top_watcher" "$top_job" 2>/dev/null || true
}
bench_top
