# covers: rendezvous/journal rendezvous/server launcher/membership
# covers: rendezvous/recovery worker-sdk/api
load ../lib
load netns

# The death of a server with clients on other hosts.

setup() {
	lib_setup
	hosts_up 2
	hosts_real
}

# bash of the host where it runs
kill_server='for p in /proc/[0-9]*; do
	[ "$(cat $p/comm 2>/dev/null)" != ddprdzv ] || kill -9 ${p#/proc/}
done'

# connects NAME: counts the connections that h2 has begun, in $NAME
connects() {
	start_on h2 snmp grep '^Tcp:' /proc/net/snmp
	finish snmp
	declare -g "$1=$(awk 'NR == 2 {print $6}' <<<"$out")"
}

in_pids() {
	host exec "${host_pid[$1]}" "${@:2}"
}

@test "when a ddprun's server dies, the workers of both hosts notice nothing" {
	mkfifo go
	worker="echo up \$RANK
		[ \$RANK = 0 ] && read -r _ <$T/go
		rdzv_client do \$DDP_RDZV_ENDPOINT \$DDP_JOB_ID \$DDP_ROUND \$RANK \
			add n 1 gather g 2 60000 v\$RANK
		echo down \$RANK"
	job=(ddprun --nnodes 2 --rdzv-endpoint "${at[h1]}:29400")
	start_on h1 on_h1 "${job[@]}" bash -c "$worker"
	start_on h2 on_h2 "${job[@]}" bash -c "$worker"
	await on_h1.out 'up 0'
	await on_h2.out '^\[1\] 1$'
	start_on h1 killer bash -c "$kill_server"
	finish killer
	await on_h1.err 'was killed by SIGKILL: restarted it'
	await on_h2.err 'is back after'
	echo >go
	finish on_h1 0
	has "$out" 'v0 v1'
	finish on_h2 0
	has "$out" 'v0 v1'
	has "$out" 'down 1'
}

# Only its agent can vouch for it, so it is neither answered nor refused.
@test "a PyTorch client waits until its host's agent has reconnected" {
	mkfifo away over
	job=(ddprun --nnodes 2 --rdzv-endpoint "${at[h1]}:29400")
	start_on h1 on_h1 "${job[@]}" --node-rank 0 bash -c \
		"w_knock set key value; echo up; read -r _ <$T/over"
	# what it prints its agent, which is stopped, would not show
	start_on h2 on_h2 "${job[@]}" --node-rank 1 bash -c "echo up \$PPID
		read -r _ <$T/away; w_knock ask key &>$T/knock.log; echo >$T/over"
	await on_h1.out up
	await on_h2.out up
	agent=${line##* }
	in_pids h2 kill -STOP "$agent"
	start_on h1 killer bash -c "$kill_server"
	finish killer
	await on_h1.err 'was killed by SIGKILL: restarted it'
	echo go >away
	await knock.log asked
	in_pids h2 kill -CONT "$agent"
	finish on_h2 0
	[ "$(<knock.log)" = $'asked\nkey is value' ]
	finish on_h1 0
	[ "$(grep -c 'closed a connection' <<<"$err")" = 0 ]
}

@test "a host that has died by the time the server returns is a lost node, and named" {
	start_on h1 server ddprdzv --listen "${at[h1]}:29400" --journal "$T/j" \
		--heartbeat-timeout 0.2
	await server.err 'listening on'
	job=(ddprun --nnodes 2 --heartbeat-timeout 0.2
		--rdzv-endpoint "${at[h1]}:29400")
	start_on h1 on_h1 "${job[@]}" bash -c 'echo up; exec tail -f /dev/null'
	start_on h2 on_h2 "${job[@]}" bash -c 'echo up; exec tail -f /dev/null'
	await on_h1.out up
	await on_h2.out up
	start_on h1 killer bash -c "$kill_server"
	finish killer
	finish server -
	await on_h1.err 'searching for it'
	signal on_h2 KILL
	finish on_h2 -
	start_on h1 server ddprdzv --listen "${at[h1]}:29400" --journal "$T/j" \
		--heartbeat-timeout 0.2
	finish on_h1 69
	has "$err" 'node [01] \(h2\) was lost: its agent did not reconnect'
}

# How often is counted by its kernel. Every 10 ms it would be 200 times, every
# 250 ms, as it is in the end, 8 times, and more often only in the beginning.
@test "retries for a lost server become less and less frequent" {
	mkfifo go
	start_on h1 server ddprdzv --listen "${at[h1]}:29400"
	await server.err 'listening on'
	start_on h2 job ddprun --rdzv-endpoint "${at[h1]}:29400" \
		--rdzv-conf reconnect_timeout=2 bash -c 'echo up; read -r _ <go'
	await job.out '^\[0\] up'
	connects before
	signal server KILL
	finish server -
	await job.err 'did not come back within 2 s .*the workers continue'
	connects after
	[ $((after - before)) -ge 2 ]
	[ $((after - before)) -le 30 ]
	echo >go
	finish job
}

# It tries every 50 ms, its agent every 250 ms in the end. 80 connections take longer
# than the 2 s after which a worker gives up a server of its own host.
@test "a worker that starts during an outage searches as long as its agent does" {
	mkfifo go
	start_on h1 server ddprdzv --listen "${at[h1]}:29400" --journal "$T/j"
	await server.err 'listening on'
	start_on h2 job ddprun --rdzv-endpoint "${at[h1]}:29400" \
		bash -c 'echo up; read -r _ <go; exec c_init'
	await job.out '^\[0\] up'
	signal server KILL
	finish server -
	await job.err 'searching for it'
	connects before
	echo >go
	until connects now && [ $((now - before)) -ge 80 ]; do :; done
	start_on h1 server ddprdzv --listen "${at[h1]}:29400" --journal "$T/j"
	finish job 0
	has "$out" '^.0. rank 0 of 1, '
}
