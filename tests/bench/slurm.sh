# slurm.sh: from the command to the last worker's first instruction, on a Slurm of
# four nodes (namespaces): srun alone with a task a node, srun ddprun with two
# workers a node, and Open MPI with as many over the same Slurm and over ssh.
# The goals: srun's own time plus 30 ms, and half of mpirun's.

slurm_table() {
	base=$(slurm_median srun)
	for kind in "$@"; do
		ms=$(slurm_median "$kind")
		[ -n "$ms" ] || continue
		printf '%-34s %7.1f ms  %+7.1f to srun  x %s\n' \
			"$(echo "$kind" | tr _ ' ')" "$ms" \
			"$(awk -v a="$ms" -v b="$base" 'BEGIN {print a - b}')" \
			"$(ratio "$ms" "$base")"
	done
}

slurm_median() {
	sed -n "s/^$1 //p" "$work/slurm.ms" | median
}

bench_slurm() {
	have srun "Slurm" && have /usr/sbin/sshd "sshd" || return 0
	if ! bash "$here/slurm_rounds.bash" "$ROUNDS" "$work/slurm.ms" \
		2>"$work/slurm.err"; then
		echo "no Slurm of one's own here, left out:" \
			"$(tail -n 1 "$work/slurm.err")"
		return 0
	fi
	say "a step of 4 nodes until all workers run; medians of $ROUNDS rounds;" \
		"load average $(cut -d' ' -f1 /proc/loadavg)"
	slurm_table srun srun_ddprun ddprun mpirun_over_Slurm mpirun_over_ssh
	ours=$(slurm_median srun_ddprun)
	for kind in mpirun_over_Slurm mpirun_over_ssh; do
		ms=$(slurm_median $kind)
		[ -z "$ms" ] || echo "ddprun/$(echo $kind | tr _ ' ')" \
			"$(ratio "$ours" "$ms")   goal: 0.5"
	done
	awk -v a="$ours" -v b="$(slurm_median srun)" \
		'BEGIN {printf "ddprun beyond srun: %.1f ms   goal: 30\n", a - b}'
	say "the same as a job of its own, from the login node"
	sed -n 's/^job_//p' "$work/slurm.ms" >"$work/slurm.job"
	mv "$work/slurm.job" "$work/slurm.ms"
	slurm_table srun srun_ddprun
}
bench_slurm
