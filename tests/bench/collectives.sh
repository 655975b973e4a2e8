# collectives.sh: libddp's collectives on this host, in nccl-tests' columns,
# beside Open MPI and MPICH (the same program, built with their mpicc), gloo and plain
# memory copies; all run in turn in each round.
#   COLLECTIVE_RANKS="2 4"   COLLECTIVE_ONLY="all_reduce 4"
#   COLLECTIVE_PREFIX="chrt -f 10": for all of them, on a machine with other work; not
#   with more ranks than CPUs, because some of them never yield

# collect RANKS WHO COMMAND...: one round; lines "who operation bytes place us
# wrong". A candidate that hangs or fails is omitted from this round.
collect() {
	n=$1 who=$2
	shift 2
	timeout -k 1 120 ${COLLECTIVE_PREFIX:-} "$@" </dev/null 2>"$work/coll.err" |
		sed -n "s/^\(\[0\] \)*\([a-z_/-]* [0-9]* [a-z]* [0-9.]* [0-9]*\)$/$who \2/p" \
			>"$work/coll.round"
	[ -s "$work/coll.round" ] ||
		echo "$who, $n ranks: $(tail -n 1 "$work/coll.err")" >&2
	cat "$work/coll.round" >>"$work/coll.$n"
}

# If each rank can have a CPU of its own, all candidates bind ranks to CPUs, as mpirun
# does by default; otherwise none does.
collective_round() {
	bind= openmpi_bind="--bind-to none" mpich_bind=
	if [ "$1" -le "$(nproc)" ]; then
		bind="--cpu-bind cores" openmpi_bind="--bind-to core"
		mpich_bind="-bind-to core"
	fi
	collect "$1" ours "$O/ddprun" --standalone --nproc-per-node "$1" \
		$bind "$O/bench/bench_collectives" $COLLECTIVE_ONLY
	[ -z "$openmpi" ] || collect "$1" openmpi mpirun.openmpi \
		--oversubscribe $openmpi_bind -n "$1" "$work/bench_openmpi" \
		$COLLECTIVE_ONLY
	[ -z "$mpich" ] || collect "$1" mpich mpiexec.hydra $mpich_bind \
		-n "$1" "$work/bench_mpich" $COLLECTIVE_ONLY
	[ -z "$python" ] || [ -n "$COLLECTIVE_ONLY" ] ||
		OMP_NUM_THREADS=1 collect "$1" gloo "$O/ddprun" --standalone \
			--nproc-per-node "$1" $bind "$python" \
			"$here/collectives_gloo.py"
	collect "$1" floor "$B/memory" "$1" 4 16 64 256 1024 4096 16384 65536 \
		262144 1048576 4194304 16777216 67108864 268435456
}

bench_collectives() {
	openmpi= mpich=
	COLLECTIVE_ONLY=${COLLECTIVE_ONLY:-}
	! with_mpi openmpi bench_collectives "$work/bench_openmpi" ||
		! have mpirun.openmpi openmpi-bin || openmpi=1
	! with_mpi mpich bench_collectives "$work/bench_mpich" ||
		! have mpiexec.hydra mpich || mpich=1
	python=$(torch_python)
	[ -n "$python" ] || echo "no python with torch, left out: gloo"
	for n in ${COLLECTIVE_RANKS:-2 4}; do
		: >"$work/coll.$n"
		r=0
		while [ $r -lt "$ROUNDS" ]; do
			collective_round "$n"
			r=$((r + 1))
		done
		say "collectives, $n ranks on $(nproc) CPUs," \
			"medians of $ROUNDS rounds;" \
			"load average $(cut -d' ' -f1 /proc/loadavg)"
		awk -v n="$n" -f "$here/collectives.awk" "$work/coll.$n"
	done
}
bench_collectives
