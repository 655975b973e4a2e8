# covers: launcher/ssh
load ../lib
load netns
load sshd

# ddprun -H: what ssh carries besides workers' lines, many hosts, hosts that join and
# leave, and other launchers' host lists.

waiter='echo "worker $RANK on $(hostname)"; exec tail -f /dev/null'

setup() {
	lib_setup
}

@test "environment and working directory are passed on, without what belongs to the host" {
	sshd_up 2
	mkdir 'a folder'
	cd 'a folder'
	export MY_SETTING='two words' SLURM_JOB_ID=7
	start_on h1 job env PET_SSH_ARGS="$SSH_ARGS" PET_HOSTS=h2:1 ddprun sh -c 'pwd; echo "$MY_SETTING"; echo "${SLURM_JOB_ID-none}"
			echo "$HOME"; echo "$DDP_REMOTE_NODE"; exec tail -f /dev/null'
	await "$T/job.out" "$T/home.h2"
	# nothing of it is on a command line
	[ -z "$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' |
		grep '^MY_SETTING=two')" ]
	signal job TERM
	finish job 143
	[ "$(head -n 4 <<<"$out")" = "[0] $T/a folder
[0] two words
[0] none
[0] $T/home.h2" ]
	cd ..
	nothing_left
}

@test "port 0 is a free port of the first host, at the printed address" {
	local args
	sshd_up 2
	in_net h1 ip link add eth1 type bridge
	in_net h1 ip addr add 10.99.0.1/24 dev eth1
	in_net h1 ip link set eth1 up
	for args in '--master-port 0' '--master-addr 10.78.0.1 --master-port 0'; do
		over_ssh job $args -H h1:1,h2:1 sh -c 'c_guest &&
			echo "at $DDP_RDZV_ENDPOINT"'
		finish job
		[ "$(grep -cE '\] at 10\.78\.0\.1:[1-9][0-9]+$' <<<"$out")" = 2 ]
		[ "$(grep -c 'of 2: ok$' <<<"$out")" = 2 ]
	done
	nothing_left
}

@test "hostfiles of OpenMPI and from Windows are read; an invalid list is an error" {
	sshd_up 2
	printf '\357\273\277# hosts\r\n\r\nh2 slots=2 # the second\r\nh1:1\r\n' >hosts
	over_ssh job --hostfile hosts sh -c 'echo "$RANK on $(hostname)"'
	finish job
	[ "$(sort <<<"$out")" = $'[0] 0 on h2\n[1] 1 on h2\n[2] 2 on h1' ]
	over_ssh job --hostfile hosts --nnodes 1 sh -c 'echo "$WORLD_SIZE on $(hostname)"'
	finish job
	[ "$(sort <<<"$out")" = $'[0] 2 on h2\n[1] 2 on h2' ]
	echo 'h1:1' >>hosts
	over_ssh job --hostfile hosts true
	finish job 2
	has "$err" 'hosts'
	: >hosts
	over_ssh job --hostfile hosts true
	finish job 2
	has "$err" 'hosts'
	# PBS: a line for each slot, without options
	printf 'h1\nh2\nh2\n' >nodes
	start_on h1 job env PBS_NODEFILE="$T/nodes" PBS_JOBID=1.pbs \
		PET_SSH_ARGS="$SSH_ARGS" ddprun sh -c 'echo "$RANK on $(hostname)"'
	finish job
	[ "$(sort <<<"$out")" = $'[0] 0 on h1\n[1] 1 on h2\n[2] 2 on h2' ]
	has "$err" 'taking .* as -H h1:1,h2:2'
	nothing_left
}

@test "stdin reaches the rank that reads it, completely, on another host" {
	sshd_up 2
	seq 200000 >numbers
	# shellcheck disable=SC2016
	start_on h1 job sh -c 'exec "$@" <numbers' sh ddprun \
		--ssh-args "$SSH_ARGS" --stdin 1 -H h1:1,h2:1 \
		sh -c '[ $RANK = 0 ] || cksum'
	finish job
	[ "$out" = "[1] $(cksum <numbers)" ]
	start_on h1 job sh -c 'exec "$@" <numbers' sh ddprun \
		--ssh-args "$SSH_ARGS" --stdin all -H h1:1,h2:1 cksum
	finish job
	[ "$(sort <<<"$out")" = "[0] $(cksum <numbers)
[1] $(cksum <numbers)" ]
	# a worker that reads nothing delays nobody
	start_on h1 job sh -c 'exec "$@" <numbers' sh ddprun \
		--ssh-args "$SSH_ARGS" -H h1:1,h2:1 true
	finish job
	nothing_left
}

@test "a slow reader slows the hosts, and gets every line complete" {
	sshd_up 2
	mkfifo slow
	exec {slow}<>slow
	start_on h1 job sh -c 'exec "$@" >slow' sh ddprun \
		--ssh-args "$SSH_ARGS" -H h1:1,h2:1 \
		sh -c 'seq -f "line %06g of $RANK" 100000; echo "end of $RANK" >&2'
	# unread input stays there: it does not end
	await "$T/sshd.h2.err" 'Accepted'
	timeout 60 head -n 200000 <&"$slow" >lines
	finish job
	exec {slow}<&-
	[ "$(wc -l <lines)" = 200000 ]
	for r in 0 1; do
		grep "^\[$r\] line ...... of $r\$" lines | sed 's/.*line //;s/ of.*//' |
			cmp - <(seq -f %06g 100000)
	done
	nothing_left
}

@test "hosts beyond --ssh-width are reached through others, and all of them end together" {
	sshd_up 5
	over_ssh job --ssh-width 2 -H h1:1,h2:1,h3:1,h4:1,h5:1 \
		sh -c 'echo "$RANK of $WORLD_SIZE on $(hostname)"'
	finish job
	[ "$(sort <<<"$out")" = '[0] 0 of 5 on h1
[1] 1 of 5 on h2
[2] 2 of 5 on h3
[3] 3 of 5 on h4
[4] 4 of 5 on h5' ]
	# h4 is reached through h1, not directly
	has "$(<"$T/sshd.h5.err")" 'from 10.78.0.2 '
	hide_on h5 "$T/home.h5"
	hide_on h5 "$O"
	over_ssh job --ssh-width 2 -H h1:1,h2:1,h3:1,h4:1,h5:1 sh -c "$waiter"
	await "$T/job.out" 'worker 4 on h5'
	await "$T/job.out" 'worker 0 on h1'
	signal job TERM
	finish job 143
	over_ssh job --ssh-width 1 -H h1:1,h2:1,h9:1,h4:1 true
	finish job 69
	has "$err" 'host h9: .*Could not resolve'
	nothing_left
}

@test "with --nnodes MIN:MAX a job regroups when a host is lost, and continues" {
	sshd_up 3
	over_ssh job --nnodes 2:3 --heartbeat-timeout 2 -H h1:1,h2:1,h3:1 bash -c '
		echo "round $DDP_ROUND: $RANK of $WORLD_SIZE"
		trap "exit 0" TERM; [ $WORLD_SIZE = 3 ] || exit 0; '"$IDLE"
	await "$T/job.out" '2 of 3'
	await "$T/job.out" '0 of 3'
	await "$T/job.out" '1 of 3'
	cable_cut h3
	finish job
	has "$out" '0 of 2'
	has "$out" '1 of 2'
	cable_heal h3
	nothing_left 30
}

@test "with fewer hosts than MAX the job starts when all of them have joined" {
	sshd_up 2
	over_ssh job --nnodes 1:4 --last-call-timeout 3600 -H h1:1,h2:1 \
		sh -c 'echo "$RANK of $WORLD_SIZE"'
	finish job
	[ "$(sort <<<"$out")" = $'[0] 0 of 2\n[1] 1 of 2' ]
	nothing_left
}

@test "hosts beyond MAX leave their places to the first hosts, whichever joins first" {
	local times
	sshd_up 4
	for times in 1 2 3; do
		over_ssh job --nnodes 1:2 -H h1:1,h2:1,h3:1,h4:1 \
			sh -c 'echo "$RANK of $WORLD_SIZE on $(hostname)"'
		finish job
		[ "$(sort <<<"$out")" = $'[0] 0 of 2 on h1\n[1] 1 of 2 on h2' ]
		lacks "$err" 'error'
	done
	nothing_left
}

# On h4 the agent begins when the others have gone, and their server is not
# needed any more: from there on $O/ddprun is a script that waits.
@test "a spare that joins after the end of the job ends as well" {
	mkfifo go late
	printf '#!/bin/sh\nread -r _ <%s/late\nexec %s/late_ddprun "$@"\n' "$T" "$T" \
		>waits
	cp "$O/ddprun" late_ddprun
	chmod 755 waits
	sshd_say h2 "ForceCommand read -r _ <$T/go; exec /bin/sh -c \"\$SSH_ORIGINAL_COMMAND\""
	sshd_up 4
	over_ssh job --nnodes 1:2 -H h1:1,h2:1,h3:1,h4:1 \
		sh -c 'echo "$RANK of $WORLD_SIZE on $(hostname)"'
	start_on h4 far bash -c 'until pgrep -f "^[^ ]*ddprun --remote-end [^ ]*$"; do :; done'
	finish far
	start_on h4 bind mount --bind "$T/waits" "$O/ddprun"
	finish bind
	echo >go
	await "$T/job.out" '0 of 2 on h1'
	await "$T/job.out" '1 of 2 on h2'
	start_on h1 gone bash -c 'while pgrep -f "[-]-rdzv-endpoint="; do :; done'
	finish gone
	echo >late
	DEADLINE=30 finish job
	lacks "$err" 'error'
	nothing_left
}

@test "a host beyond MAX replaces a host that is down, at once" {
	sshd_up 3
	over_ssh job --nnodes 1:2 --last-call-timeout 3600 -H h1:1,h9:1,h3:1 \
		sh -c 'echo "$RANK of $WORLD_SIZE on $(hostname)"'
	finish job
	[ "$(sort <<<"$out")" = $'[0] 0 of 2 on h1\n[1] 1 of 2 on h3' ]
	has "$err" 'host h9: .*the job starts without it'
	nothing_left
}

@test "with --nnodes MIN:MAX a job also regroups when an ssh is killed" {
	sshd_up 3
	over_ssh job --nnodes 2:3 -H h1:1,h2:1,h3:1 bash -c '
		echo "round $DDP_ROUND: $RANK of $WORLD_SIZE"
		trap "echo told $RANK; exit 0" TERM
		[ $WORLD_SIZE = 3 ] || exit 0; '"$IDLE"
	await "$T/job.out" '2 of 3'
	await "$T/job.out" '0 of 3'
	await "$T/job.out" '1 of 3'
	kill_ssh_to h3
	finish job
	has "$out" '0 of 2'
	has "$out" '1 of 2'
	has "$err" 'host h3: ssh was killed by SIGKILL; the job continues without it'
	has "$err" 'regrouping: node 2 \(h3\) left: the ssh that started it has ended$'
	nothing_left 30
}

@test "with --nnodes 2:2 a spare replaces a host whose ssh is killed" {
	sshd_up 3
	# or only the first host logs a line that is no warning
	DDP_LOG=info over_ssh job --nnodes 2:2 -H h1:1,h2:1,h3:1 bash -c '
		echo "round $DDP_ROUND: $RANK of $WORLD_SIZE on $(hostname)"
		trap "exit 0" TERM
		[ $DDP_ROUND = 0 ] || exit 0; '"$IDLE"
	await "$T/job.out" 'round 0: 0 of 2 on h1'
	await "$T/job.out" 'round 0: 1 of 2 on h2'
	await "$T/job.err" 'this node waits as a spare'
	kill_ssh_to h2
	finish job
	has "$out" 'round 1: 0 of 2 on h1'
	has "$out" 'round 1: 1 of 2 on h3'
	has "$err" 'host h2: ssh was killed by SIGKILL; the job continues without it'
	has "$err" 'regrouping: node 1 \(h2\) left: the ssh that started it has ended$'
	nothing_left 30
}

# Each connection that it makes to the server is reset: a spare that waited for an
# answer would join again, and end the job after its grace period.
@test "a spare whose ssh is killed leaves at once and for good" {
	sshd_up 3
	mkfifo go
	DDP_LOG=info over_ssh job --nnodes 2:2 --shutdown-timeout 2 \
		-H h1:1,h2:1,h3:1 bash -c 'echo "$RANK of $WORLD_SIZE"
		[ $RANK = 1 ] || read -r _ <'"$T/go"
	await "$T/job.out" '0 of 2'
	await "$T/job.out" '1 of 2'
	await "$T/job.err" 'this node waits as a spare'
	kill_ssh_to h3
	start_on h3 gone bash -c 'while pgrep -f "[-]-rdzv-endpoint="; do
		ss -K -H -t -n state established dst '"${addr[h1]}"'; done'
	DEADLINE=30 finish gone
	echo >go &
	finish job
	lacks "$err" 'SIGKILL$'
	nothing_left 30
}

@test "two SIGTERMs to the ddprun of one host of an elastic job end only that host's workers" {
	local agent
	sshd_up 2
	mkfifo go
	over_ssh job --nnodes 1:2 --shutdown-timeout 3600 -H h1:1,h2:1 bash -c '
		echo "$RANK of $WORLD_SIZE under $PPID"
		[ $WORLD_SIZE = 2 ] || exec cat '"$T/go"'
		trap "echo told; [ $RANK = 1 ] || exit 0" TERM; '"$IDLE"
	await "$T/job.out" '^\[0\] 0 of 2'
	await "$T/job.out" '^\[1\] 1 of 2 under [0-9]+'
	agent=${line##* }
	host exec "${host_pid[h2]}" kill -TERM "$agent"
	await "$T/job.out" '^\[1\] told'
	host exec "${host_pid[h2]}" kill -TERM "$agent"
	await "$T/job.err" 'regrouping: node 1 \(h2\) received SIGTERM'
	await "$T/job.out" '^\[0\] 0 of 1'
	start_on h2 gone bash -c "while kill -0 $agent; do :; done"
	DEADLINE=30 finish gone
	echo well >go &
	finish job
	has "$out" '^\[0\] well$'
	nothing_left
}

@test "a worker that fails over ssh is restarted as usual" {
	sshd_up 2
	# not before the other has printed its line
	mkfifo said
	over_ssh job --max-restarts 1 --log-dir logs -t 3 -H h1:1,h2:1 sh -c '
		echo "attempt $TORCHELASTIC_RESTART_COUNT of $RANK"
		case $RANK$TORCHELASTIC_RESTART_COUNT in
		00) echo >said; exec tail -f /dev/null ;;
		10) read -r _ <said; exit 1 ;;
		esac'
	finish job
	[ "$(sort <<<"$out")" = '[0] attempt 0 of 0
[0] attempt 1 of 0
[1] attempt 0 of 1
[1] attempt 1 of 1' ]
	has "$err" 'the logs are in logs on each host'
	[ "$(cat logs/*/attempt_1/0/stdout.log | sort)" = \
		$'attempt 1 of 0\nattempt 1 of 1' ]
	nothing_left
}

@test "on SIGTERM to the ddprun of one host an elastic job continues without that host" {
	mkfifo go
	sshd_up 2
	over_ssh job --nnodes 1:2 -H h1:1,h2:1 bash -c \
		'echo "$RANK of $WORLD_SIZE under $PPID"
		[ $WORLD_SIZE = 2 ] || exec cat '"$T/go"'; exec tail -f /dev/null'
	await "$T/job.out" '^\[0\] 0 of 2'
	await "$T/job.out" '^\[1\] 1 of 2 under [0-9]+'
	host exec "${host_pid[h2]}" kill -TERM "${line##* }"
	await "$T/job.err" 'regrouping: node 1 \(h2\) received SIGTERM'
	await "$T/job.out" '^\[0\] 0 of 1'
	echo well >go
	finish job
	has "$out" '^\[0\] well$'
	nothing_left
}

@test "SIGTERM to the ddprun of one host ends a job of fixed size and names the host" {
	sshd_up 2
	over_ssh job -H h1:1,h2:1 bash -c \
		'echo "$RANK under $PPID"; exec tail -f /dev/null'
	await "$T/job.out" '^\[0\] 0 under'
	await "$T/job.out" '^\[1\] 1 under [0-9]+'
	host exec "${host_pid[h2]}" kill -TERM "${line##* }"
	finish job 143
	has "$err" 'node 1 \(h2\) received SIGTERM'
	nothing_left
}

@test "SIGTERM to the local ddprun ends an elastic job on all hosts" {
	sshd_up 2
	over_ssh job --nnodes 1:2 -H h1:1,h2:1 bash -c \
		'echo "$RANK of $WORLD_SIZE"; exec tail -f /dev/null'
	await "$T/job.out" '^\[0\] 0 of 2'
	await "$T/job.out" '^\[1\] 1 of 2'
	signal job TERM
	finish job 143
	lacks "$out" 'of 1'
	lacks "$err" 'regrouping'
	nothing_left
}
