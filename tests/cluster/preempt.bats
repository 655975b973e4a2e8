# preempt.bats: how a Slurm job ends early and resumes: preemption, the time limit,
# scancel; one notice for all workers, and requeueing.
# covers: slurm launcher/agent

bats_require_minimum_version 1.5.0
load cluster

setup_file() { slurm_preempt=1 cluster_up; }
teardown_file() { cluster_down; }
setup() { cluster_join; }
teardown() { cluster_leave; }

# Workers that run until a notice, and print it; in a job that was requeued
# they finish at once. Slurm signals them as well here: a worker that exits with 0
# before its ddprun has the signal would count as finished, and a trap that the second
# signal interrupts would run, and print, twice.
cat_worker='echo "up $RANK run ${SLURM_RESTART_COUNT:-0}"
	[ -z "${SLURM_RESTART_COUNT:-}" ] || exit 0
	trap "trap \"\" TERM; echo told; exit 143" TERM
	trap "trap \"\" USR1; echo warned; exit 138" USR1
	eval "$IDLE"'

losses() { # LOG
	sed -n 's/^{"step":\([0-9]*\),.*"loss":\([^,}]*\)}$/\1 \2/p' "$1"
}

# submit PARTITION DDPRUN_OPTIONS [SBATCH_OPTION...]: a job of two nodes with such
# workers; its number is in $job
submit() {
	local partition=$1 options=$2
	shift 2
	printf '%s\n' "$cat_worker" >worker.sh
	cat >batch.sh <<-EOF
	#!/bin/sh
	ddprun --nproc-per-node 1 $options bash $T/worker.sh
	echo "batch: \$?"
	EOF
	rm -f batch.log
	slurm 0 sbatch --parsable --open-mode=append -w h1,h2 -N 2 \
		-p "$partition" -o "$T/batch.log" "$@" batch.sh
	job=$out
}

runs() { # until both run
	await batch.log '^\[0\] up 0 run 0'
	await batch.log '^\[1\] up 1 run 0'
}

# again CAUSE: it is requeued, and finishes in its second run
again() {
	await batch.log "^ddprun: Slurm's job $job $1: it is requeued\$"
	await batch.log '^\[0\] up 0 run 1'
	await batch.log '^\[1\] up 1 run 1'
	await batch.log "^ddprun: started in Slurm step $job.0 \(restart 1\): using"
	await batch.log '^batch: 0$'
}

# take_nodes: a job of higher priority needs all nodes; its log is taken.log
take_nodes() {
	slurm 0 sbatch -N 3 --exclusive -o "$T/taken.log" --wrap 'echo taken'
}

@test "a job that Slurm would preempt by ending it stops, is requeued and resumes" {
	submit lost '--requeue-on preempt,timeout'
	runs
	take_nodes
	again 'was preempted'
	[ "$(grep -c '\] told$' batch.log)" = 2 ]
	# by which of the two depends on whose was first
	has "$(<batch.log)" '^ddprun: (got|node 1 .* received) SIGTERM: stopping 2 workers'
	has "$(<taken.log)" taken
}

@test "a preempted and requeued run of two nodes has the losses of an uninterrupted one" {
	local common="--data $T/data --epochs 40 --eval-every 0" reader last
	mkdir data two.0
	t_idx data 20000 100
	expect 0 ddprun --standalone --nproc-per-node 2 mnist_mlp $common \
		--log-dir one --checkpoint one.ckpt
	# its log is a pipe: it cannot run ahead of its reader by more than that holds
	mkfifo two.0/metrics.jsonl
	exec 6<>two.0/metrics.jsonl
	cat >batch.sh <<-EOF
	#!/bin/sh
	ddprun --nproc-per-node 1 --requeue-on preempt mnist_mlp $common \\
		--log-dir $T/two.\${SLURM_RESTART_COUNT:-0} \\
		--checkpoint $T/two.ckpt --resume
	echo "batch: \$?"
	EOF
	slurm 0 sbatch --parsable --open-mode=append -w h1,h2 -N 2 -p low \
		-o "$T/batch.log" batch.sh
	job=$out
	: >seen
	while read -r -t 60 -u 6 line; do
		printf '%s\n' "$line" >>seen
		[[ $line != '{"step":300,'* ]] || break
	done
	take_nodes
	await batch.log 'SIGTERM: stopping 2 workers'
	cat <&6 >>seen 3>&- 4>&- 6>&- &
	reader=$!
	await batch.log '^(\[0\] )?stopped on request after step [0-9]+'
	last=${line##*step } last=${last%%;*}
	await seen "^{\"step\":$last,"
	await batch.log "^ddprun: Slurm's job $job was preempted: it is requeued\$"
	await batch.log '^(\[0\] )?resuming from .*two.ckpt after epoch'
	await batch.log '^batch: 0$'
	kill $reader
	wait $reader || true
	exec 6>&-
	cmp <(losses one/metrics.jsonl) <(losses seen; losses two.1/metrics.jsonl)
	cmp one.ckpt two.ckpt
}

@test "SIGUSR1 of --signal notifies all workers, and the job is requeued" {
	submit all '--requeue-on timeout'
	runs
	slurm 0 scancel -s USR1 "$job"
	again 'has used up its time'
	[ "$(grep -c '\] warned$' batch.log)" = 2 ]
}

job_is() { # STATE
	slurm 0 scontrol show job "$job"
	grep -q "^   JobState=$1 " <<<"$out"
}

@test "a warned job that Slurm shows as SIGNALING is requeued" {
	# slurmctld waits for the answer of the third node's slurmd
	submit all '--requeue-on timeout --nnodes 2 --stop-before 0' \
		-w h1,h2,h3 -N 3
	runs
	slurm_signal h3 slurmd_h3 STOP
	on_login cont scancel -s CONT "$job"
	slurm_wait job_is SIGNALING
	on_login warning scancel -s USR1 "$job"
	await batch.log "^ddprun: Slurm's job $job " || touch failed
	slurm_signal h3 slurmd_h3 CONT
	finish cont -
	finish warning -
	[ ! -e failed ]
	again 'has used up its time'
}

@test "before the time limit the workers are notified, and the job is requeued" {
	# Slurm counts in minutes
	submit all '--requeue-on timeout --stop-before 56' -t 1
	runs
	again 'has used up its time'
	[ "$(grep -c '\] told$' batch.log)" = 2 ]
	has "$(<batch.log)" "^ddprun: the time of Slurm's job $job ends in [0-9]+ s: stopping 2 workers$"
}

@test "scancel is not a preemption: all workers stop, and nothing is requeued" {
	submit all '--requeue-on preempt,timeout'
	runs
	slurm 0 scancel "$job"
	await batch.log "^ddprun: Slurm's job $job was cancelled \(JobState=[A-Z]+ Reason=[^ ]+\): it is not requeued\$"
	[ "$(grep -c '\] told$' batch.log)" = 2 ]
}

@test "neither a failure nor a step that a user signalled is requeued" {
	cat_worker='[ $RANK = 0 ] || exit 3; eval "$IDLE"'
	submit all '--requeue-on preempt,timeout'
	await batch.log '^batch: 3$'
	[ "$(grep -c requeued batch.log)" = 0 ]
	cat_worker='echo up $RANK run 0; exec tail -f /dev/null'
	submit all '--requeue-on preempt,timeout'
	runs
	# a node that scancel reaches late may have no such step any more
	slurm - scancel -s TERM "$job.0"
	await batch.log "^ddprun: Slurm's job $job was neither preempted nor out of time \(JobState=RUNNING Reason=None\): it is not requeued\$"
	await batch.log '^batch: 143$'
}

@test "a second scancel ends the grace period on all nodes" {
	cat_worker='trap "echo told; trap \"\" TERM" TERM; echo "up $RANK run 0"
		eval "$IDLE"'
	submit all '--shutdown-timeout 100'
	runs
	slurm 0 scancel -s TERM "$job.0"
	await batch.log '^\[0\] told'
	await batch.log '^\[1\] told'
	# an immediate repetition is srun's copy of the signal; so wait until it counts
	until grep -q '^ddprun: killing 1 worker$' batch.log; do
		slurm - scancel -s TERM "$job.0"
	done
	await batch.log '^batch: 143$'
	[ "$(grep -c '^ddprun: killing 1 worker$' batch.log)" = 2 ]
}

@test "a job that cannot be requeued fails before it starts" {
	slurm 2 salloc -N 1 ddprun --requeue-on timeout true
	has "$err" "^ddprun: error: --requeue-on timeout: Slurm's job [0-9]+ has no script to restart with; omit the option, or start ddprun in a batch script\$"
	slurm 2 ddprun --requeue-on timeout true
	has "$err" "^ddprun: error: --requeue-on timeout: this is not a Slurm job; leave it out"
	slurm 2 salloc -N 1 ddprun --requeue-on sunday true
	has "$err" "^ddprun: error: --requeue-on 'sunday': give preempt, timeout, or both"
}

@test "under --no-kill an elastic job continues with fewer nodes" {
	on_login job salloc -N 3 ddprun --nnodes 2:3 --nproc-per-node 1 \
		--last-call-timeout 60 sh -c 'echo "at $(hostname) $WORLD_SIZE $PPID"
		[ $WORLD_SIZE = 2 ] || exec tail -f /dev/null'
	await "$T/job.out" ' at h1 3'
	await "$T/job.out" ' at h2 3'
	await "$T/job.out" ' at h3 3 [0-9]+'
	start_on h3 killer kill -KILL "${line##* }"
	finish killer
	finish job -
	has "$err" 'srun --nodes=3 .*--no-kill '
	has "$err" '^ddprun: regrouping: node 2 \(h3\) was lost'
	has "$out" '^\[0\] at h1 2'
	has "$out" '^\[1\] at h2 2'
}

@test "the SIGTERM that srun -K sends to a ddprun does not hide a worker's exit code" {
	# the ddpruns that remain when the first has exited get it
	batch 5 -N 3 <<-'EOF'
	ddprun --nproc-per-node 1 bash -c '[ $RANK != 1 ] || exit 5
		eval "$IDLE"'
	EOF
}

@test "a job that Slurm preempts and ends without a grace period is requeued" {
	submit now '--requeue-on preempt'
	runs
	take_nodes
	again 'was preempted'
	[ "$(grep -c '\] told$' batch.log)" = 2 ]
}

@test "a job that Slurm requeues after the grace period is not requeued twice" {
	cat_worker='echo "up $RANK run ${SLURM_RESTART_COUNT:-0}"
		[ -z "${SLURM_RESTART_COUNT:-}" ] || exit 0
		trap "" TERM; eval "$IDLE"'
	submit soon '--requeue-on preempt --shutdown-timeout 100'
	runs
	take_nodes
	await batch.log '^\[0\] up 0 run 1'
	await batch.log '^\[1\] up 1 run 1'
	await batch.log '^batch: 0$'
	[ "$(grep -c 'it is requeued$' batch.log)" = 0 ]
}

@test "a task of an array is requeued without the others" {
	submit all '--requeue-on timeout' --array=1-2 -o "$T/batch.%a" -w h1 -N 1
	touch batch.1 batch.2
	await batch.1 '^\[0\] up 0 run 0'
	await batch.2 '^\[0\] up 0 run 0'
	slurm 0 scancel -s USR1 "${job}_2"
	await batch.2 "^ddprun: Slurm's job ${job}_2 has used up its time: it is requeued\$"
	await batch.2 '^\[0\] up 0 run 1'
	await batch.2 '^batch: 0$'
	[ "$(grep -c 'up 0' batch.1)" = 1 ]
	slurm 0 scancel "${job}_1"
	await batch.1 '^\[0\] told'
	await batch.1 'was cancelled \(JobState=[A-Z]+ Reason=[^ ]+\): it is not requeued$'
}

@test "ddprun warns about sbatch --signal=USR1@55" {
	submit all '--requeue-on timeout --stop-before 0' -t 1 --signal=USR1@55
	runs
	again 'has used up its time'
	[ "$(grep -c '\] warned$' batch.log)" = 2 ]
}

@test "the template of a preemptible job works" {
	mkdir bin data
	t_idx data 640 64
	# waits in its first run until the notice
	cat >bin/mnist_mlp <<-EOF
	#!/bin/bash
	[ -n "\${SLURM_RESTART_COUNT:-}" ] || {
		echo "up \$RANK run 0"
		trap "exit 0" TERM
		eval "\$IDLE"
	}
	exec $O/mnist_mlp "\$@"
	EOF
	chmod +x bin/mnist_mlp
	slurm 0 env DDP_DATA="$T/data" PATH="$T/bin:$PATH" sbatch --parsable \
		-p lost -w h1,h2 --gpus-per-node 1 -o "$T/batch.log" \
		"$BATS_TEST_DIRNAME/../../slurm/preemptible.sbatch"
	job=$out
	touch batch.log
	runs
	take_nodes
	await batch.log "^ddprun: Slurm's job $job was preempted: it is requeued\$"
	await batch.log '^(\[0\] )?test accuracy [0-9.]+ %'
	has "$(<batch.log)" "^ddprun: in Slurm's job $job \(restart 1\), of 2 nodes: srun "
	[ -s "mnist.$job.state" ]
}
