# What is left when ddprun or its guard is killed.
# covers: launcher/worker
load ../lib

@test "kill -9 of ddprun leaves no worker, grandchild or server" {
	start job ddprun --nproc-per-node 3 bash -c '
		trap "" TERM HUP INT
		sleep 1000 &
		setsid bash -c "trap \"\" TERM HUP; echo \$\$ >'"$T"'/daemon.$RANK
			eval \"\$IDLE\"" \
			</dev/null >/dev/null 2>&1 &
		until [ -s '"$T"'/daemon.$RANK ]; do :; done
		echo up
		eval "$IDLE"'
	local i
	for i in 0 1 2; do
		await job.out "^\[$i\] up"
	done
	signal job KILL
	finish job 137
	nothing_left
}

# TEST_COOKIE is gone as well: the test finds them by their pids.
@test "kill -9 of ddprun ends a worker's daemon without an environment, and spares a sidecar" {
	cat >daemon <<-'END'
		tail -f /dev/null &
		echo $$ $! >daemon.$1
		wait
	END
	cat >entry <<-'END'
		tail -f /dev/null &
		echo $! >sidecar
		exec ddprun --nproc-per-node 2 bash -c '
			(env -i setsid "$BASH" ./daemon $RANK \
				</dev/null >/dev/null 2>&1 &)
			until [ -s daemon.$RANK ]; do :; done
			echo up
			eval "$IDLE"'
	END
	start job bash entry
	await job.out '^\[0\] up'
	await job.out '^\[1\] up'
	signal job KILL
	finish job 137
	await_end $(<daemon.0) $(<daemon.1)
	kill -0 "$(<sidecar)"
	kill -KILL "$(<sidecar)"
	nothing_left
}

# The other marks are enough without the limit.
@test "kill -9 of ddprun ends processes without an environment, and their children" {
	start job bash -c 'ulimit -x 1000; exec "$@"' - \
		ddprun --nproc-per-node 2 bash -c '
		setsid env -i bash -c "echo \$\$ >'"$T"'/bare.$RANK
			tail -f /dev/null & echo \$! >'"$T"'/child.$RANK; wait" &
		# an orphan with another stdout
		(setsid env -i bash -c "echo \$\$ >'"$T"'/orphan.$RANK; tail -f /dev/null" \
			>/dev/null &)
		until [ -s '"$T"'/child.$RANK ] && [ -s '"$T"'/orphan.$RANK ]; do :; done
		echo up
		eval "$IDLE"'
	await job.out '^\[0\] up'
	await job.out '^\[1\] up'
	signal job KILL
	finish job 137
	await_end $(cat bare.[01] child.[01] orphan.[01])
}

@test "pkill -9 ddprun also leaves nothing, because the guard has another name" {
	start job setsid ddprun --nproc-per-node 2 bash -c '
		(setsid tail -f /dev/null </dev/null >/dev/null 2>&1 &)
		echo up; eval "$IDLE"'
	await job.out '^\[0\] up'
	await job.out '^\[1\] up'
	pkill -KILL -s "${pid[job]}" ddprun
	finish job 137
	nothing_left
}

@test "kill -9 of a ddprun whose worker is a ddprun leaves no process of either" {
	start job ddprun --nproc-per-node 1 ddprun --standalone \
		--nproc-per-node 2 \
		sh -c 'sleep 100 & setsid sleep 100 & echo up; sleep 100'
	await job.out '^\[0\] \[0\] up'
	await job.out '^\[0\] \[1\] up'
	signal job KILL
	finish job 137
	nothing_left
}

# The guard knows the folder's name before there is a folder.
@test "a ddprun killed as soon as it has made its folder leaves none" {
	[ -z "${SAN:-}" ] || skip "a sanitizer does not like to be preloaded over"
	truncate -s 100k state
	start job env LD_PRELOAD="$O/tests/faults.so" FAULT_PROGRAM=ddprun \
		FAULT_ROLE=agent FAULT_CALL=mkdir FAULT_AT=1 FAULT_KILL=1 \
		FAULT_STATE="$T/state" ddprun true
	finish job 137
	nothing_left
	[ -z "$(find . -name 'ddprun_*')" ]
}

start_two() {
	start job ddprun --nproc-per-node 2 "$@"
	await job.out '^\[0\] up'
	await job.out '^\[1\] up'
}

# Sets guard to the pid of the job's guard process.
find_guard() {
	local p
	guard=
	for p in $(<"/proc/${pid[job]}/task/${pid[job]}/children"); do
		[ "$(<"/proc/$p/comm")" != ddp-guard ] || guard=$p
	done
	[ "$guard" ]
}

# Ends it, and waits for the warning about it, which goes on like $1.
kill_guard() {
	find_guard
	kill -KILL "$guard"
	await job.err "^ddprun: warning: the guard process \(pid $guard\) was killed by SIGKILL: $1"
}

@test "a new guard replaces a killed one, and takes over its workers" {
	local old
	# the daemons are known by their limit of file locks alone
	start job ddprun --nproc-per-node 2 bash -c '
		(env -i setsid "$BASH" -c "echo \$\$ >daemon.$RANK
			exec tail -f /dev/null" </dev/null >/dev/null 2>&1 3>&- &)
		until [ -s daemon.$RANK ]; do :; done
		echo up
		eval "$IDLE"'
	await job.out '^\[0\] up'
	await job.out '^\[1\] up'
	kill_guard 'pid [0-9]+ takes its place'
	old=$guard
	kill_guard 'pid [0-9]+ takes its place'
	[ "$guard" != "$old" ]
	find_guard
	signal job KILL
	finish job 137
	await_end "$guard" $(<daemon.0) $(<daemon.1)
	nothing_left
}

@test "if guards are killed again and again, workers still die with ddprun" {
	local i
	start_two sh -c 'echo up; exec sleep 1000'
	for i in 1 2 3 4 5; do
		kill_guard 'pid [0-9]+ takes its place'
	done
	kill_guard 'it is not restarted after 6 deaths'
	[ ! "$(find_guard && echo "$guard")" ]
	signal job KILL
	finish job 137
	nothing_left
	has "$err" 'processes that workers started would survive a kill -9'
}

@test "a job whose guard was killed ends as usual" {
	start_two bash -c 'echo up; trap "exit 0" USR1; eval "$IDLE"'
	kill_guard 'pid [0-9]+ takes its place'
	signal job TERM
	finish job 143
	nothing_left 0
}
