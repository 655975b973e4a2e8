# dump.sh: `ddprun dump` of 64 ranks of a node, of which 63 wait in an all_reduce: the
# whole command, with and without stacks; and how long it stops one thread.

bench_dump() {
	(
		cd "$work" # c_pause waits there for a file that does not appear
		exec "$O/ddprun" --standalone --nproc-per-node 64 \
			"$O/tests/c_pause" sleep 63
	) >"$work/out" 2>"$work/err" </dev/null &
	dump_job=$!
	timeout 60 tail -n +1 -F "$work/out" 2>/dev/null | grep -q -m 1 '^\[63\]' || true
	say "ddprun dump of 64 ranks on a node; load average $(cut -d' ' -f1 /proc/loadavg)"
	{
		printf 'ddprun dump\t%s dump --agent %d\n' "$O/ddprun" "$dump_job"
		printf 'ddprun dump --no-stacks\t%s dump --no-stacks --agent %d\n' \
			"$O/ddprun" "$dump_job"
	} | "$B/interleave" "$ROUNDS" "ddprun dump"
	echo "goal: under 1000 ms; it shows" \
		"$("$O/ddprun" dump --agent "$dump_job" | grep -c 'nanosleep\|all_reduce #3')" \
		"lines about the call and the sleep"
	kill "$dump_job"
	wait "$dump_job" 2>/dev/null || true
	"$B/bench_stop" 64 >"$work/stop"
	echo "a thread is stopped for $(cut -d ' ' -f 1 "$work/stop") us (median)," \
		"$(cut -d ' ' -f 2 "$work/stop") us (the longest of 64); goal: under 10000"
}
bench_dump
