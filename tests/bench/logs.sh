# logs.sh: workers that write lines at a given rate.

# row TO LABEL WORDS...: makes one run and appends listen's output to its file:
# seconds, lines, CPU seconds, MiB, torn lines.
logs_row() {
	to=$1 label=$2
	shift 2
	"$B/listen" "$to" talker "$@" >>"$work/logs.$label" 2>"$work/logs.err" ||
		cat "$work/logs.err"
}

# Prints the table of the runs: medians, and the ratio of lines a second to ours.
logs_table() {
	expected=$1
	printf '%-20s %4s %12s %10s %12s %9s %6s %6s\n' launcher runs lines/s \
		"of ddprun" "CPU (cores)" "peak MiB" lost torn
	for label in ddprun hydra openmpi; do
		file=$work/logs.$label
		[ -s "$file" ] || continue
		rate=$(awk '{ print $2 / $1 }' "$file" | median)
		[ $label = ddprun ] && ours=$rate
		awk -v e="$expected" '{
			n = e - $2; if (n > lost) lost = n
			if ($5 > torn) torn = $5
		} END { printf "%6d %6d\n", lost, torn }' "$file" >"$work/lost"
		printf '%-20s %4d %12.0f %10s %12.2f %9.1f %s\n' $label \
			"$(wc -l <"$file")" "$rate" "$(ratio "$rate" "$ours")" \
			"$(awk '{ print $3 / $1 }' "$file" | median)" \
			"$(awk '{ print $4 }' "$file" | median)" "$(cat "$work/lost")"
		rm -f "$file"
	done
}

# logs_case TITLE TO LINES-PER-WORKER [RATE]
logs_case() {
	say "$1"
	to=$2
	shift 2
	round=0
	while [ $round -lt "$rounds" ]; do
		logs_row "$to" ddprun "$O/ddprun" --standalone \
			--nproc-per-node "$workers" "$B/talker" "$@"
		[ -z "$hydra" ] || logs_row "$to" hydra mpiexec.hydra \
			-prepend-rank -n "$workers" "$B/talker" "$@"
		[ -z "$openmpi" ] || logs_row "$to" openmpi mpirun.openmpi \
			--tag-output --oversubscribe -n "$workers" "$B/talker" "$@"
		round=$((round + 1))
	done
	logs_table $((workers * $1))
}

bench_logs() {
	workers=64
	rounds=${LOGS_ROUNDS:-$((ROUNDS < 3 ? ROUNDS : 3))}
	hydra=; openmpi=
	have mpiexec.hydra "hydra (mpich)" && hydra=1
	have mpirun.openmpi "mpirun (openmpi-bin)" && openmpi=1
	logs_case "64 workers, 10,000 lines/s each offered for 3 s, a pipe" \
		fast 30000 10000
	logs_case "64 workers as fast as they can, into a file" \
		"$work/logs.file" 20000
	logs_case "64 workers as fast as they can, read at 8 MB/s" slow:8 3000
	# slower than the workers write
	logs_case "64 workers, 10,000 lines/s each offered for 10 s, read at 32 MB/s" \
		slow:32 100000 10000
	# mpirun sometimes hangs when many programs end at once
	workers=256 openmpi=
	logs_case "256 workers as fast as they can, a pipe" \
		fast 10000
}
bench_logs
