# failures.bats: failures around a ddprun job under Slurm: daemons that end, scancel,
# and killed batch scripts and ddpruns. Nothing is left on any node.
# covers: slurm launcher/agent launcher/worker

bats_require_minimum_version 1.5.0
load cluster

setup_file() { cluster_up; }
teardown_file() { cluster_down; }
setup() { cluster_join; }

teardown() {
	nothing_left || touch failed
	cluster_leave
	[ ! -e failed ]
}

# Two nodes whose rank 0 waits for `go`; `up` shows that it does.
start_waiting() {
	mkfifo up go
	on_login job srun -w h1,h2 --ntasks-per-node 1 ddprun --nproc-per-node 1 \
		sh -c '[ $RANK != 0 ] || { echo >up; read x <go; }; echo "done $RANK"'
	read -r _ <up
}

went_through() {
	echo >go
	finish job
	has "$out" '^\[0\] done 0$'
	has "$out" '^\[1\] done 1$'
}

@test "a job survives a restart of slurmctld" {
	start_waiting
	slurm_kill h1 slurmctld TERM
	slurm_again slurmctld
	went_through
	slurm_wait slurm_idle h1 3
}

@test "a job survives when a node's slurmd is killed" {
	start_waiting
	slurm_kill h2 slurmd_h2 KILL
	went_through
	slurm_again slurmd_h2
	slurm 0 srun -w h1,h2 --ntasks-per-node 1 ddprun --nproc-per-node 1 \
		sh -c 'echo "again $RANK"'
	has "$out" '^\[1\] again 1$'
	slurm_wait slurm_idle h1 3
}

# Workers that print when a signal ended them.
polite="bash -c 'trap \"echo bye; exit 0\" TERM; echo up; eval \"\$IDLE\"'"

@test "scancel of a step does not affect the next step of the job" {
	cat >batch.sh <<-EOF
	#!/bin/sh
	ddprun --nproc-per-node 1 --shutdown-timeout 4 $polite
	echo "the first: \$?"
	ddprun --nproc-per-node 1 sh -c 'echo second; exec tail -f /dev/null'
	echo "the second: \$?"
	exec ddprun --nproc-per-node 1 sh -c 'echo "next \$RANK"'
	EOF
	slurm 0 sbatch -N 2 --parsable -o "$T/batch.log" batch.sh
	id=$out
	await batch.log '^\[0\] up'
	await batch.log '^\[1\] up'
	# a node that scancel reaches late may have no such step any more
	slurm - scancel --signal=TERM "$id.0"
	await batch.log '^\[0\] second'
	await batch.log '^\[1\] second'
	slurm 0 scancel "$id.1" # without grace
	job_over "$id" COMPLETED
	out=$(<batch.log)
	has "$out" '^\[0\] bye'
	has "$out" '^\[1\] bye'
	has "$out" '^the first: 143$'
	has "$out" '^the second: [1-9]'
	has "$out" '^\[0\] next 0$'
	has "$out" '^\[1\] next 1$'
}

@test "scancel of the job ends workers that ignore SIGTERM" {
	slurm 0 sbatch -N 2 --parsable -o "$T/batch.log" --wrap \
		"ddprun --nproc-per-node 1 --shutdown-timeout 1 bash -c 'trap \"\" TERM; echo up; eval \"\$IDLE\"'"
	id=$out
	await batch.log '^\[0\] up'
	await batch.log '^\[1\] up'
	slurm 0 scancel "$id"
	job_over "$id" CANCELLED
}

@test "when a batch script is killed, its step ends although srun survives" {
	cat >batch.sh <<-EOF
	#!/bin/bash
	echo "shell \$\$ on \$(hostname)"
	ddprun --nproc-per-node 1 --shutdown-timeout 4 $polite
	echo "not reached"
	EOF
	slurm 0 sbatch -w h1,h2 --parsable -o "$T/batch.log" batch.sh
	id=$out
	await batch.log '^\[0\] up'
	await batch.log '^\[1\] up'
	await batch.log '^shell '
	set -- $line
	start_on "$4" killer kill -KILL "$2"
	finish killer
	job_over "$id" FAILED
	! grep -q 'not reached' batch.log
}

@test "kill -9 of the ddprun on one node ends the job on all nodes" {
	for kill in 0 1; do
		on_login job srun -w h1,h2 --ntasks-per-node 1 \
			--kill-on-bad-exit=$kill ddprun --nproc-per-node 1 \
			--shutdown-timeout 4 sh -c \
			'echo "at $(hostname) $PPID"; exec tail -f /dev/null'
		await "$T/job.out" '^\[0\] at h1'
		await "$T/job.out" '^\[1\] at h2 '
		start_on h2 killer kill -KILL "${line##* }"
		finish killer
		finish job 137
		has "$err" '^ddprun: .*node 1 \(h2\) was lost'
		nothing_left
	done
}

@test "an error that all tasks of a step detect is printed once" {
	# Slurm must not kill tasks that have not begun: their 143 would be srun's
	slurm 2 srun -w h1,h2 --ntasks-per-node 3 --kill-on-bad-exit=0 ddprun true
	[ "$(grep -c '^ddprun: error: srun starts 6 ddpruns on 2 nodes' <<<"$err")" = 1 ]
}

@test "two jobs that share their nodes stay separate" {
	mkfifo a b
	for i in a b; do
		on_login $i srun -w h1,h2 --ntasks-per-node 1 ddprun \
			--nproc-per-node 1 sh -c "[ \$RANK != 0 ] || {
				echo $i here; read x <$i; }
			echo \"$i \$RANK/\$WORLD_SIZE\""
	done
	await "$T/a.out" 'a here'
	await "$T/b.out" 'b here'
	for i in a b; do
		echo >$i
		finish $i
		has "$out" "^\[1\] $i 1/2\$"
	done
}

@test "a first node with two interfaces listens on the interface that faces the other nodes" {
	# its own name resolves to the other interface, which others cannot reach
	cp "$CLUSTER/etc_hosts.h1" before
	in_net h1 ip link add eth1 type veth peer name eth2
	in_net h1 ip addr add 10.79.0.1/24 dev eth1
	in_net h1 ip link set eth1 up
	T=$CLUSTER own_name h1 10.79.0.1
	on_login job srun -K -w h1,h2 --ntasks-per-node 1 ddprun --nproc-per-node 1 \
		sh -c 'echo "$RANK $DDP_RDZV_ENDPOINT"'
	DEADLINE=30 finish job - || status=1
	cat before >"$CLUSTER/etc_hosts.h1"
	in_net h1 ip link del eth1
	[ "$status" = 0 ]
	has "$out" '^\[0\] 0 10.78.0.1:[0-9]+$'
	has "$out" '^\[1\] 1 10.78.0.1:[0-9]+$'
}

@test "nodes may have different numbers of CPUs" {
	batch 0 -w h1,h2 -N 2 -n 5 --distribution=block <<-'EOF'
	srun -N 2 -n 2 --ntasks-per-node=1 ddprun sh -c \
		'echo "$RANK/$WORLD_SIZE of $LOCAL_WORLD_SIZE on $(hostname)"'
	echo "cpus $SLURM_JOB_CPUS_PER_NODE"
	EOF
	has "$out" '^cpus (4,1|3,2|1,4|2,3)$'
	set -- $(sed -n 's/^cpus \(.\),\(.\)$/\1 \2/p' <<<"$out")
	has "$out" "^\[0\] 0/5 of $1 on h1\$"
	has "$out" "^\[4\] 4/5 of $2 on h2\$"
}

@test "if the first node's name does not resolve, srun's address is used" {
	local hosts=$CLUSTER/etc_hosts.h2
	cp "$hosts" before
	grep -v ' h1$' before >"$hosts"
	slurm 0 sbatch --parsable -w h1,h2 -o "$T/batch.log" --wrap \
		"exec ddprun --nproc-per-node 1 sh -c 'echo \$RANK \$DDP_RDZV_ENDPOINT'"
	job_over "$out" COMPLETED || touch failed
	cat before >"$hosts"
	out=$(<batch.log)
	has "$out" '^\[1\] 1 10.78.0.1:[0-9]+$'
	has "$out" "^ddprun: warning: on h2, 'h1' does not resolve; trying 10.78.0.1, (the host of srun|its address according to Slurm)\$"
}

# without_name H...: makes these hosts not know the name h1; with_name undoes it
without_name() {
	local h
	for h; do
		cp "$CLUSTER/etc_hosts.$h" "hosts.$h"
		grep -v ' h1$' "hosts.$h" >"$CLUSTER/etc_hosts.$h"
	done
}

with_name() {
	local h
	for h; do
		cat "hosts.$h" >"$CLUSTER/etc_hosts.$h"
	done
}

@test "if the first node cannot resolve its own name, srun's address is used" {
	without_name h1 h2
	slurm 0 sbatch --parsable -w h1,h2 -N 2 --ntasks-per-node 2 \
		-o "$T/batch.log" --wrap \
		"ddprun --nproc-per-node 1 sh -c 'echo \$RANK \$MASTER_ADDR \$DDP_RDZV_ENDPOINT; c_guest' &&
		srun -N 2 -n 4 c_guest"
	job_over "$out" COMPLETED || touch failed
	with_name h1 h2
	out=$(<batch.log)
	has "$out" '^\[0\] 0 10.78.0.1 [0-9.]+:[0-9]+$'
	has "$out" '^\[1\] 1 10.78.0.1 10.78.0.1:[0-9]+$'
	has "$out" '^\[1\] rank 1 of 2, .*: ok$'
	has "$out" "^ddprun: warning: h1 cannot resolve its own name in Slurm, 'h1': the rendezvous server listens on all addresses of this host\$"
	for i in 0 1 2 3; do
		has "$out" "^rank $i of 4, .*: ok\$"
	done
}

@test "if no node resolves the first node's name and srun runs elsewhere, scontrol's address is used" {
	slurm - scontrol getaddrs h1
	[ "$status" = 0 ] || skip "this scontrol has no getaddrs, which came with 23.11"
	without_name h1 h2
	on_login job srun -K -w h1,h2 --ntasks-per-node 1 ddprun --nproc-per-node 1 \
		sh -c 'echo $RANK $DDP_RDZV_ENDPOINT'
	DEADLINE=30 finish job - || status=1
	with_name h1 h2
	[ "$status" = 0 ]
	has "$out" '^\[1\] 1 10.78.0.1:[0-9]+$'
	has "$err" "^ddprun: warning: on h2, 'h1' does not resolve; trying 10.78.0.1, its address according to Slurm\$"
}

@test "a waiting node names the node that it waits for" {
	mkfifo go
	# h2's ddprun starts later
	on_login job srun -w h1,h2 --ntasks-per-node 1 sh -c \
		'[ $SLURM_NODEID = 0 ] || read x <go; exec ddprun --nproc-per-node 1 echo hello'
	await "$T/job.err" 'waiting 1 s at h1:[0-9]+ for 1 of 2 nodes \(job .slurm-[0-9.]+.\): node 1 \(h2, not connected\); srun starts ddprun there as well$'
	echo >go
	finish job
	has "$out" '^\[1\] hello$'
}
