# init.sh: the cost of joining: from a rank's exec to the end of its ddp_init, the
# median over the ranks and then over the rounds; beside MPI_Init for 4 ranks.

# init_round WHO RANKS COMMAND...: the median of the ranks into a file
init_round() {
	who=$1 n=$2
	shift 2
	timeout -k 1 60 "$@" 2>/dev/null </dev/null |
		sed -n 's/^\(\[[0-9]*\] \)*\([0-9.]*\)$/\2/p' >"$work/init.ranks"
	if [ "$(wc -l <"$work/init.ranks")" = "$n" ]; then
		median <"$work/init.ranks" >>"$work/init.$who.$n"
	else
		echo "$who, $n ranks: failed" >&2
	fi
}

# init_line WHO RANKS [GOAL MS]
init_line() {
	[ -s "$work/init.$1.$2" ] || return 0
	ms=$(median <"$work/init.$1.$2")
	printf '%-12s %4d ranks %10.2f ms' "$1" "$2" "$ms"
	[ -z "${3:-}" ] || printf '   goal: under %s ms: %s' "$3" \
		"$(awk -v a="$ms" -v b="$3" 'BEGIN { print a < b ? "met" : "MISSED" }')"
	echo
}

bench_init() {
	for mpi in openmpi mpich; do
		with_mpi $mpi bench_init "$work/init_$mpi" || true
	done
	r=0
	while [ $r -lt "$ROUNDS" ]; do
		for n in 2 4 16 64; do
			init_round ddp_init $n "$O/ddprun" --standalone \
				--nproc-per-node $n "$O/bench/bench_init"
		done
		[ ! -x "$work/init_openmpi" ] || init_round "Open-MPI" 4 \
			mpirun.openmpi --oversubscribe -n 4 "$work/init_openmpi"
		[ ! -x "$work/init_mpich" ] || init_round "MPICH" 4 \
			mpiexec.hydra -n 4 "$work/init_mpich"
		r=$((r + 1))
	done
	say "from exec to the end of ddp_init, medians of $ROUNDS rounds;" \
		"load average $(cut -d' ' -f1 /proc/loadavg)"
	init_line ddp_init 2
	init_line ddp_init 4 5
	init_line ddp_init 16
	init_line ddp_init 64 50
	init_line Open-MPI 4
	init_line MPICH 4
}
bench_init
