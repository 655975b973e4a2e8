# Signals that stop or kill ddprun.
# covers: launcher/agent launcher/worker
load ../lib

# Starts two workers that write their pids; more options in "$@".
start_two() {
	start job ddprun --nproc-per-node 2 "$@"
	await job.out '^\[0\] up'
	await job.out '^\[1\] up'
}

quiet='trap "echo got INT; exit 0" INT; trap "echo got TERM; exit 0" TERM
	trap "echo got HUP; exit 0" HUP; trap "echo got QUIT; exit 0" QUIT
	echo up; eval "$IDLE"'

@test "SIGINT, SIGTERM, SIGHUP and SIGQUIT reach the workers, and the exit code is 128+signal" {
	local name
	for name in INT TERM HUP QUIT; do
		start_two bash -c "$quiet"
		signal job $name
		finish job $((128 + $(kill -l $name)))
		has "$out" "^\[0\] got $name\$"
		has "$out" "^\[1\] got $name\$"
		has "$err" "^ddprun: got SIG$name: stopping 2 workers"
		[ "$(wc -l <<<"$err")" = 1 ]
		nothing_left 0
	done
}

@test "processes that workers left in the background ignore SIGINT, and still end" {
	start_two sh -c '(setsid sleep 1000 </dev/null >/dev/null 2>&1 &)
		sleep 1001 & echo up; exec sleep 1002'
	signal job INT
	finish job 130
	lacks "$err" 'waiting|killing'
	nothing_left 0
}

@test "workers that ignore the signal are killed after --shutdown-timeout" {
	start_two --shutdown-timeout 0.2 bash -c \
		'trap "" INT TERM; echo up; eval "$IDLE"'
	signal job TERM
	finish job 143
	has "$err" '^ddprun: killing 2 workers$'
	nothing_left 0
}

@test "workers in another process group are stopped, killed and signalled like the rest" {
	# it ends on request
	start_two --shutdown-timeout 100 w_moves bash -c \
		'trap "echo got TERM; exit 0" TERM; echo up; eval "$IDLE"'
	signal job TERM
	DEADLINE=30 finish job 143
	has "$out" '^\[1\] got TERM$'
	lacks "$err" killing
	# it does not, and leaves a process in its old group
	start_two --shutdown-timeout 0.1 --forward-signals USR1 bash -c '
		sleep 1000 &
		exec w_moves bash -c "trap \"\" TERM; trap \"echo got USR1\" USR1
			echo up; eval \"\$IDLE\""'
	signal job USR1
	await job.out '^\[0\] got USR1'
	await job.out '^\[1\] got USR1'
	signal job TERM
	DEADLINE=30 finish job 143
	has "$err" '^ddprun: killing 2 workers$'
	nothing_left 0
}

@test "workers in another process group are also killed at a restart" {
	mkfifo go
	expect 0 ddprun --nproc-per-node 2 --max-restarts 1 \
		--shutdown-timeout 0.1 bash -c '
		[ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0
		if [ $RANK = 0 ]; then read -r _ <go; exit 3; fi
		exec w_moves bash -c "trap \"\" TERM; echo >go; eval \"\$IDLE\""'
	has "$err" '^ddprun: killing 1 worker$'
	nothing_left 0
}

@test "a suspended worker ends by SIGTERM" {
	start_two --shutdown-timeout 100 sh -c 'echo up; kill -STOP $$; sleep 1000'
	lib_stopped_child() { # the worker $1 of the job
		local child
		child=$(pgrep -P "${pid[job]}" -x sh | sed -n "$1p")
		lib_stopped "$child"
	}
	lib_stopped_child 1
	lib_stopped_child 2
	signal job TERM
	DEADLINE=30 finish job 143
	lacks "$err" killing
	nothing_left 0
}

@test "a signal ends the job while workers are stopped for a restart" {
	mkfifo go
	start job ddprun --nproc-per-node 2 --max-restarts 1 \
		--shutdown-timeout 100 bash -c '
		[ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 9
		if [ $RANK = 0 ]; then read -r _ <go; exit 3; fi
		trap "" TERM
		trap "echo got INT; exit 0" INT
		echo >go
		eval "$IDLE"'
	await job.err '^ddprun: restarting \(1 of 1\)'
	signal job INT
	DEADLINE=30 finish job 130
	has "$out" '^\[1\] got INT$'
	has "$err" '^ddprun: got SIGINT: leaving$'
	nothing_left 0
}

# start_as_nobody ARGUMENT...: ddprun as another user than root, with a set-uid
# setpriv in its PATH; skips the test if that is impossible.
start_as_nobody() {
	local as
	[ "$(id -u)" = 0 ] && command -v setpriv >/dev/null ||
		skip "not root, or no setpriv"
	open=$(mktemp -d /tmp/ddprun_nobody_XXXXXX) # $T is root's alone
	cp "$DDPRUN" "$DDPRDZV" "$(command -v setpriv)" "$open"
	chmod 4755 "$open/setpriv"
	chmod 777 "$open"
	as=(env "PATH=$open:$PATH" "TMPDIR=$open" "DDP_CACHE=$open/c"
		"XDG_CONFIG_HOME=$open/c" setpriv --reuid 65534 --clear-groups)
	[ "$("${as[@]}" setpriv --reuid 0 id -u)" = 0 ] ||
		skip "no set-uid programs here"
	start job "${as[@]}" "$open/ddprun" "$@"
}

teardown() {
	[ -z "${open:-}" ] || rm -rf "$open"
	lib_teardown
}

@test "a worker that has become another user is named, and not waited for" {
	start_as_nobody --shutdown-timeout 0.1 \
		setpriv --reuid 0 sh -c 'echo up $$; exec sleep 1000'
	await job.out '^\[0\] up'
	signal job TERM
	DEADLINE=30 finish job 143
	has "$err" '^ddprun: warning: rank 0 \(pid [0-9]+\) cannot be sent SIGTERM: it runs as another user; waiting for it to end$'
	has "$err" '^ddprun: rank 0 \(pid [0-9]+\) cannot be killed: it runs as another user; end it by hand; ddprun continues without it$'
	lacks "$err" 'left behind'
	kill -KILL "${line##* }"
	nothing_left
}

@test "the report counts a worker of another user as killed" {
	start_as_nobody --nproc-per-node 2 --shutdown-timeout 0.1 sh -c '
		at=${XDG_CONFIG_HOME%/c}
		[ $RANK = 0 ] || exec setpriv --reuid 0 sh -c "
			echo up \$\$; >$at/up; exec sleep 1000"
		until [ -e $at/up ]; do :; done
		exit 3'
	DEADLINE=30 finish job 3
	await job.out '^\[1\] up'
	has "$err" '^\|  killed       rank 1 \(local rank 1\)'
	kill -KILL "${line##* }"
	nothing_left
}

@test "a second signal kills at once" {
	start_two bash -c 'trap "echo again; trap \"\" TERM" TERM; echo up
		eval "$IDLE"'
	signal job TERM
	await job.out '^\[0\] again'
	signal job INT
	finish job 143
	has "$err" '^ddprun: killing 2 workers$'
	nothing_left 0
}

@test "a long stop reports what it waits for" {
	start_two --shutdown-timeout 1.3 bash -c \
		'trap "" TERM; echo up; eval "$IDLE"'
	signal job TERM
	finish job 143
	has "$err" '^ddprun: got SIGTERM; waiting for 2 workers to stop \(SIGKILL in 0.3 s\)$'
}

@test "a long stop before a restart also reports what it waits for" {
	mkfifo go
	expect 0 ddprun --nproc-per-node 2 --max-restarts 1 \
		--shutdown-timeout 1.3 bash -c '
		[ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0
		if [ $RANK = 0 ]; then read -r _ <go; exit 3; fi
		trap "" TERM
		echo >go
		eval "$IDLE"'
	has "$err" '^ddprun: rank 0 .* exited with code 3; waiting for 1 worker to stop \(SIGKILL in 0.3 s\)$'
}

@test "in a PID namespace with the /proc of another one, no process is signalled or waited for" {
	unshare -pf true 2>/dev/null || skip "no PID namespaces here"
	expect 0 unshare -pf --kill-child ddprun --max-restarts 1 sh -c \
		'(setsid sleep 1000 &); [ $TORCHELASTIC_RESTART_COUNT = 1 ]'
	has "$err" '^ddprun: warning: /proc belongs to another PID namespace'
	nothing_left
}

# What `sidecar & exec ddprun` starts: a sidecar that ignores SIGTERM, and leaves
# an orphan on request; three restarts, each with an orphan of a
# worker's; the last worker lists what is left.
sidecar() {
	mkfifo ask asked
	cat >entry <<-'END'
		bash -c 'trap "" TERM; read -r _ <ask; (setsid sleep 1000 &
			echo $! >orphan); echo >asked; exec sleep 1001' &
		echo $! >sidecar
		exec ddprun --max-restarts 3 --shutdown-timeout 100 bash -c '
			[ $TORCHELASTIC_RESTART_COUNT != 0 ] ||
				{ echo >ask; read -r _ <asked; }
			(setsid sleep 1002 & echo $! >>left)
			[ $TORCHELASTIC_RESTART_COUNT = 3 ] || exit 1
			for pid in $(head -n 3 left); do
				! kill -0 $pid 2>/dev/null || exit 4
			done
			kill -0 $(<sidecar) && kill -0 $(<orphan) &&
				echo both live'
	END
}

@test "children that ddprun did not start, and theirs, survive restarts" {
	sidecar
	start job bash entry
	DEADLINE=50 finish job 0
	[ "$out" = '[0] both live' ]
	kill -KILL "$(<sidecar)" "$(<orphan)"
	nothing_left
}

@test "children that ddprun did not start also survive in a container's first process" {
	unshare -pf --mount-proc true 2>/dev/null || skip "no PID namespaces here"
	sidecar
	start job unshare -pf --mount-proc --kill-child bash entry
	DEADLINE=50 finish job 0
	[ "$out" = '[0] both live' ]
	nothing_left
}

# One look in 15 at such an orphan finds no environment. There is no other mark:
# a lower limit may be that of other users.
@test "an orphan in execve is ended, while children that ddprun did not start survive" {
	cat >entry <<-'END'
		ulimit -x 1000
		tail -f /dev/null &
		echo $! >sidecar
		exec ddprun --max-restarts 99 --shutdown-timeout 100 bash -c '
			! kill -0 $(<left) 2>/dev/null || echo $(<left) >>lived
			read -r pid < <(exec setsid sh -c "echo \$\$; $0" "$0")
			echo $pid >left
			[ $TORCHELASTIC_RESTART_COUNT = 99 ]' \
			'exec sh -c "$0" "$0"'
	END
	: >left
	start job bash entry
	DEADLINE=50 finish job 0
	kill -KILL "$(<sidecar)"
	nothing_left
	[ ! -e lived ]
}

# Two orphans without an environment, beside a sidecar: hung, which hangs in
# execve, and its tracer, which holds it there while this test has hold open.
# $1 is the limit of file locks.
hold_orphan() {
	mkfifo hold
	exec 9<>hold
	cat >entry <<-'END'
		exec 9>&-
		ulimit -x $1
		tail -f /dev/null &
		echo $! >sidecar
		exec ddprun bash -c 'read -r both < <(exec env -i "$0" <hold)
			echo "$both"' "$(command -v w_held)"
	END
	start job bash entry "$1"
	DEADLINE=50 finish job 0
	read -r _ tracer hung <<<"$out"
}

@test "an orphan without an environment that hangs in execve is also ended beside them" {
	local tracer hung
	hold_orphan unlimited
	[ -z "$err" ]
	# the one needs SIGKILL, after the end of the other
	await_end "$tracer" "$hung"
	kill -0 "$(<sidecar)"
	exec 9>&-
	kill -KILL "$(<sidecar)"
	nothing_left
}

@test "without the mark in its limits an orphan in execve is left alone, with a warning" {
	local tracer hung
	hold_orphan 1000
	has "$err" "^ddprun: warning: pid $hung has been in execve for 5 s"
	kill -0 "$tracer" "$hung"
	exec 9>&-
	kill -KILL "$(<sidecar)"
	nothing_left
}

@test "a reader that ddprun inherited as a child gets all of the output" {
	expect 1 bash -c 'exec ddprun --max-restarts 1 sh -c "echo one; exit 1" \
		> >(sleep 0.1; cat)'
	nothing_left
	[ "$(grep -c one program.out)" = 2 ]
}

@test "a signal ends ddprun while nodes are still missing" {
	start job ddprun --nnodes 2 \
		--rdzv-endpoint "127.0.0.1:$(w_port free)" true
	await job.err '^ddprun: waiting [0-9]+ s '
	signal job INT
	finish job 130
	has "$err" '^ddprun: got SIGINT: leaving$'
	nothing_left 0
}

@test "under nohup SIGHUP stays ignored" {
	mkfifo go
	start job bash -c 'trap "" HUP; exec ddprun --nproc-per-node 1 \
		sh -c "echo up; read _ <'"$T"'/go"'
	await job.out '^\[0\] up'
	signal job HUP
	echo >go
	finish job 0
}

@test "SIGINT to the whole process group ends the job, as from Ctrl-C" {
	# setsid makes ddprun the leader of a group in which no worker is
	start job setsid ddprun --nproc-per-node 2 bash -c "$quiet"
	await job.out '^\[0\] up'
	await job.out '^\[1\] up'
	kill -INT -- "-${pid[job]}"
	finish job 130
	[ "$(grep -c 'got INT' <<<"$out")" = 2 ]
	nothing_left 0
}

@test "signals to all processes of a step leave the server running" {
	local server name
	start_two --forward-signals USR1 bash -c \
		'trap "echo got USR1; exit 0" USR1; echo up; eval "$IDLE"'
	server=$(pgrep -P "${pid[job]}" -x ddprdzv)
	for name in INT QUIT HUP TERM USR1 USR2 ALRM; do
		kill "-$name" "$server"
	done
	signal job USR1
	DEADLINE=20 finish job
	[ "$(grep -c 'got USR1' <<<"$out")" = 2 ]
	lacks "$err" 'restarted it'
}

@test "a stopped job of one node (Ctrl-Z) can be continued, however late" {
	local at=127.0.0.1:$(w_port free)
	mkfifo go
	export PET_HEARTBEAT_TIMEOUT=3
	start job ddprun --rdzv-endpoint "$at" --rdzv-id one \
		bash -c 'echo up; read -r <go; echo goes on'
	await job.out '^\[0\] up'
	# a clock: a node that was stopped later and is lost
	start late ddprun --rdzv-endpoint "$at" --nnodes 2 \
		bash -c 'echo up; sleep 100'
	start clock ddprun --rdzv-endpoint "$at" --nnodes 2 sleep 100
	await late.out '^\[[01]\] up'
	signal job STOP
	signal late STOP
	finish clock 69
	has "$err" 'was lost: not heard from for 3.0 s'
	signal late CONT
	finish late 69
	has "$err" 'this node was not heard from for 3.0 s; was it stopped'
	signal job CONT
	echo >go
	finish job 0
	has "$out" '^\[0\] goes on'
}

@test "SIGTERM while nobody reads the output ends ddprun after the grace period" {
	mkfifo full
	exec 7<>full
	start job bash -c 'exec ddprun --standalone --nproc-per-node 2 \
		--shutdown-timeout 0.5 sh -c "echo up >&2; exec yes" >full 7>&-'
	await "$T/job.err" '\[1\] up'
	signal job TERM
	finish job 143
	exec 7>&-
}

# Waits until process $1 is in one of the states $2, as /proc has them.
in_state() {
	local stat i
	for ((i = 0; i < 3000; i++)); do
		stat=$(<"/proc/$1/stat")
		stat=${stat##*) }
		[[ $2 != *${stat:0:1}* ]] || return 0
		read -rt 0.02 _ <> <(:) || true
	done
	echo "process $1 is in state ${stat:0:1}, not $2"
	return 1
}

@test "--signals-to-handle lets any signal end the job, and workers get it" {
	start_two --signals-to-handle USR1,12 bash -c \
		'trap "echo got USR1; exit 0" USR1
		echo up; eval "$IDLE"'
	signal job USR1
	finish job $((128 + $(kill -l USR1)))
	has "$out" '^\[0\] got USR1$'
	has "$out" '^\[1\] got USR1$'
	has "$err" '^ddprun: got SIGUSR1: stopping 2 workers'
	nothing_left 0
}

@test "--forward-signals passes a signal to each worker, and the job continues" {
	start_two --forward-signals SIGUSR1,usr2 bash -c \
		'trap "echo got USR1" USR1; trap "echo got USR2; exit 0" USR2
		echo up; eval "$IDLE"'
	signal job USR1
	await job.out '^\[0\] got USR1'
	await job.out '^\[1\] got USR1'
	signal job USR2
	finish job 0
	has "$out" '^\[0\] got USR2$'
	has "$out" '^\[1\] got USR2$'
	lacks "$err" SIGUSR
}

@test "an unexpected SIGUSR1 logs a line and ends nothing" {
	mkfifo go
	start job ddprun --nproc-per-node 1 sh -c "echo up; read _ <$T/go"
	await job.out '^\[0\] up'
	signal job USR1
	await job.err '^ddprun: got SIGUSR1: not forwarding it to the workers; --forward-signals SIGUSR1 would$'
	echo >go
	finish job 0
}

@test "invalid lists of signals are refused before anything starts" {
	expect 2 ddprun --signals-to-handle TERM,FOO touch started
	has "$err" "^ddprun: error: --signals-to-handle: 'FOO' is not a signal"
	expect 2 ddprun --forward-signals KILL touch started
	has "$err" "--forward-signals: SIGKILL cannot be on this list"
	expect 2 ddprun --forward-signals INT touch started
	has "$err" "SIGINT is in --signals-to-handle as well"
	[ ! -e started ]
}

@test "workers get each signal as ddprun got it, whatever ddprun handles" {
	local want
	expect 0 bash -c 'trap "" USR2; exec grep SigIgn: /proc/self/status'
	# the shell's background commands ignore SIGINT and SIGQUIT, workers do not
	want=$(printf '%016x' $((16#${out##*[[:space:]]} & ~6)))
	expect 0 bash -c 'trap "" USR2; exec ddprun --forward-signals USR1,WINCH \
		grep -E "Sig(Ign|Blk):" /proc/self/status'
	has "$out" "^\[0\] SigIgn:.$want\$"
	has "$out" "^\[0\] SigBlk:.0000000000000000\$"
	# by posix_spawn, make has the C library's own signals ignored as well
	printf 'all:\n\t@grep SigIgn: /proc/self/status\n' >print.mk
	printf 'all:\n\t@ddprun grep SigIgn: /proc/self/status\n' >start.mk
	expect 0 make -s -f print.mk
	want=$(printf '%016x' $((16#${out##*[[:space:]]} & ~6)))
	expect 0 make -s -f start.mk
	[ "$out" = "[0] SigIgn:$(printf '\t')$want" ]
}

@test "Ctrl-Z also stops the workers, and fg continues them" {
	mkfifo go
	start job ddprun --nproc-per-node 2 bash -c 'echo "up $BASHPID"; read _ <'"$T/go"'
		echo goes on'
	local -a workers
	await job.out '^\[0\] up'
	workers+=("${line##* }")
	await job.out '^\[1\] up'
	workers+=("${line##* }")
	signal job TSTP
	in_state "${pid[job]}" T
	in_state "${workers[0]}" T
	in_state "${workers[1]}" T
	signal job CONT
	in_state "${workers[0]}" SRD
	in_state "${workers[1]}" SRD
	exec 9<>go
	echo >&9
	echo >&9
	finish job 0
	exec 9>&-
	has "$out" '^\[0\] goes on'
	has "$out" '^\[1\] goes on'
}
