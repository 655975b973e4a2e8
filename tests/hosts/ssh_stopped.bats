# covers: launcher/ssh launcher/agent
load ../lib
load netns
load sshd

# ddprun -H when a ddprun on one of the hosts is stopped, or does not exit: the local
# ddprun reports it, and ends when the others do.

setup() {
	lib_setup
}

# stop_agent H: the parent of H's workers; its pid there is $agent
stop_agent() {
	await "$T/job.out" "agent [0-9]+ on $1\$"
	agent=${line#*agent }
	agent=${agent%% *}
	start_on "$1" stopper kill -STOP "$agent"
	finish stopper
	await "$T/job.err" "host $1: its ddprun was stopped; .*--heartbeat-timeout.*: kill -CONT $agent there"
}

says_agent='echo "agent $PPID on $(hostname)"'

# lose_agent NODE: the job of h1 and h2 fails when the agent of h(NODE + 1) is stopped
lose_agent() {
	local stopped=h$(($1 + 1)) other=h$((2 - $1))
	sshd_up 2
	over_ssh job -H h1:1,h2:1 --heartbeat-timeout 2 --shutdown-timeout 1 \
		sh -c "$says_agent; exec tail -f /dev/null"
	await "$T/job.out" "on $other\$"
	stop_agent $stopped
	DEADLINE=60 finish job 69
	has "$err" "job 'ssh-[0-9a-f]+' failed: node $1 \($stopped\) was lost: not heard from"
	nothing_left
}

@test "a stopped agent counts as a lost node, and the job ends with its page" {
	lose_agent 1
}

@test "a stopped agent on the first host also counts as a lost node" {
	lose_agent 0
}

@test "with --nnodes MIN:MAX the job continues without a stopped agent" {
	local h other
	sshd_up 2
	for h in h2 h1; do
		other=h$((3 - ${h#h}))
		over_ssh job -H h1:1,h2:1 --nnodes 1:2 --heartbeat-timeout 2 \
			--shutdown-timeout 1 bash -c "$says_agent"'
			trap "exit 0" TERM
			[ $WORLD_SIZE = 2 ] || { echo alone on $(hostname); exit 0; }
			'"$IDLE"
		await "$T/job.out" 'on h1$'
		await "$T/job.out" 'on h2$'
		stop_agent $h
		DEADLINE=60 finish job
		has "$out" "alone on $other"
		nothing_left
	done
}

@test "an agent that is stopped for a moment continues" {
	sshd_up 2
	mkfifo go
	over_ssh job -H h1:1,h2:1 --heartbeat-timeout 60 \
		sh -c "$says_agent; [ \$RANK = 0 ] && read -r _ <$T/go; echo well"
	await "$T/job.out" 'on h1$'
	stop_agent h2
	start_on h2 cont kill -CONT "$agent"
	finish cont
	await "$T/job.err" 'host h2: its ddprun continues'
	echo >go
	DEADLINE=60 finish job
	[ "$(grep -c 'well$' <<<"$out")" = 2 ]
	nothing_left
}

# From there on, $O/ddprun is a script that waits for ever.
@test "a ddprun that does not exit is killed some time after the job" {
	mkfifo go never
	printf '#!/bin/sh\nread -r _ <%s/never\n' "$T" >waits
	chmod 755 waits
	sshd_say h1 "ForceCommand read -r _ <$T/go; exec /bin/sh -c \"\$SSH_ORIGINAL_COMMAND\""
	sshd_up 2
	start job host exec "${host_pid[h2]}" ddprun --ssh-args "$SSH_ARGS" \
		--nnodes 1:2 --heartbeat-timeout 1 --shutdown-timeout 1 \
		--last-call-timeout 0.1 -H h1:1,h2:1 echo well
	start_on h2 far bash -c 'until pgrep -f "^[^ ]*ddprun --remote-end [^ ]*$"; do :; done'
	finish far
	start_on h2 bind mount --bind "$T/waits" "$O/ddprun"
	finish bind
	echo >go
	finish job
	[ "$out" = '[0] well' ]
	has "$err" 'host h2: its ddprun has not exited within 19 s of the job'
	nothing_left
}

@test "a stopped remote end counts as a host whose connection is lost" {
	sshd_up 2
	over_ssh job -H h1:1,h2:1 --heartbeat-timeout 1 --shutdown-timeout 1 \
		sh -c "$says_agent; exec tail -f /dev/null"
	await "$T/job.out" 'on h1$'
	await "$T/job.out" 'on h2$'
	start_on h2 stopper pkill -STOP -f '^[^ ]*ddprun --remote-end [^ ]*$'
	finish stopper
	DEADLINE=60 finish job 69
	has "$err" 'host h2: the connection is lost: no data for 3 s; ending the job'
	start_on h2 cont pkill -CONT -f '^[^ ]*ddprun --remote-end [^ ]*$'
	finish cont
	nothing_left
}
