# check.sh: `ddprun check` of 16 hosts (namespaces on a bridge that share this machine's
# CPUs), quick and full, and what each part of it takes.
. "$here/bridge.sh"

# check_all quick|full: $work/said has what the first node prints
check_all() {
	check_pids=
	for i in $(seq 2 16); do
		on_bridge "$i" ddprun check "$1" --nnodes 16 --auth secret \
			--rdzv-endpoint 10.80.0.1:29400 >/dev/null 2>"$work/err.$i" &
		check_pids="$check_pids $!"
	done
	on_bridge 1 ddprun check "$1" --nnodes 16 --auth secret \
		--rdzv-endpoint 10.80.0.1:29400 >"$work/said" 2>"$work/err.1" || true
	for p in $check_pids; do
		wait "$p" || true
	done
}

bench_check() {
	bridge_up 16 || return 0
	for kind in quick full; do
		goal=2
		[ $kind = quick ] || goal=30
		r=0
		while [ $r -lt "$ROUNDS" ]; do
			check_all $kind
			sed -n 's/^  took \([0-9.]*\) s: \(.*\)/\1 \2/p' "$work/said" \
				>>"$work/$kind"
			r=$((r + 1))
		done
		say "ddprun check, $kind, of 16 hosts on $(nproc) CPUs;" \
			"load average $(cut -d' ' -f1 /proc/loadavg)"
		sort -g "$work/$kind" | awk -v goal=$goal '{ line[NR] = $0 }
		END {
			if (NR == 0)
				exit 1
			m = line[int((NR + 1) / 2)]
			took = m
			sub(/ .*/, "", took)
			sub(/[^ ]* /, "", m)
			printf "median of %d: %s s (%s); goal: at most %d s\n",
				NR, took, m, goal
		}' || head -n 3 "$work"/err.*
	done
	bridge_down
}
bench_check
