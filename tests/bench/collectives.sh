# collectives.sh: libddp's collectives on this host, in nccl-tests' columns, and
# the same program with Open MPI where it can be built.

# collect N LABEL COMMAND...: one round, lines "operation bytes us wrong" kept
collect() {
	n=$1 label=$2
	shift 2
	"$@" 2>/dev/null | sed 's/^\[0\] //' >>"$work/coll.$label.$n"
}

collective_rounds() {
	r=0
	while [ $r -lt "$ROUNDS" ]; do
		collect "$1" ours "$O/ddprun" --standalone --nproc-per-node "$1" \
			"$O/tests/bench_collectives"
		[ -z "$mpi" ] || collect "$1" mpi mpirun.openmpi --oversubscribe \
			-n "$1" "$work/bench_mpi"
		r=$((r + 1))
	done
}

# Medians of the rounds; busbw as nccl-tests derives it from algbw = size / time.
collective_table() {
	[ -n "$mpi" ] || : >"$work/coll.mpi.$1"
	awk -v n="$1" '
	function median(list,   v, m, i, j, t) {
		m = split(list, v, " ")
		for (i = 2; i <= m; i++)
			for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) {
				t = v[j]; v[j] = v[j - 1]; v[j - 1] = t
			}
		return v[int((m + 1) / 2)]
	}
	{ key = $1 " " $2 }
	FILENAME ~ /ours/ {
		if (!(key in ours)) order[++rows] = key
		ours[key] = ours[key] " " $3
		wrong[key] += $4
	}
	FILENAME ~ /mpi/ { mpi[key] = mpi[key] " " $3 }
	END {
		printf "%-16s %10s %10s %10s %10s %6s %12s %6s\n", "operation", \
			"size (B)", "time (us)", "algbw GB/s", "busbw GB/s", \
			"#wrong", "Open MPI us", "ratio"
		for (i = 1; i <= rows; i++) {
			key = order[i]
			split(key, part, " ")
			us = median(ours[key])
			alg = part[2] / us / 1000
			factor = part[1] == "all_reduce" ? 2 * (n - 1) / n : \
				part[1] == "broadcast" ? 1 : (n - 1) / n
			printf "%-16s %10d %10.1f %10.2f %10.2f %6d", part[1], \
				part[2], us, alg, alg * factor, wrong[key]
			if (key in mpi)
				printf " %12.1f %6.2f", median(mpi[key]), \
					us / median(mpi[key])
			printf "\n"
		}
	}' "$work/coll.ours.$1" "$work/coll.mpi.$1"
}

bench_collectives() {
	mpi=
	if have mpicc.openmpi "Open MPI (libopenmpi-dev openmpi-bin)" &&
		have mpirun.openmpi "Open MPI (openmpi-bin)"; then
		mpicc.openmpi -std=gnu11 -O2 -DWITH_MPI -o "$work/bench_mpi" \
			"$here/../programs/bench_collectives.c" && mpi=1
	fi
	for n in 2 4; do
		collective_rounds $n
		say "collectives of f32, $n ranks on $(nproc) CPUs, medians of $ROUNDS"
		collective_table $n
	done
}
bench_collectives
