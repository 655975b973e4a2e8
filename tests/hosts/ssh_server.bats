# covers: launcher/ssh launcher/membership
load ../lib
load netns
load sshd

# ddprun -H: the job's server, on the first of the hosts, and its death.

setup() {
	lib_setup
	sshd_up 3
	mkfifo go
}

# bash of the host where it runs
kill_server='for p in /proc/[0-9]*; do
	[ "$(cat $p/comm 2>/dev/null)" != ddprdzv ] || kill -9 ${p#/proc/}
done'

@test "when the server dies, its host restarts it, and the workers continue" {
	over_ssh job -H h2:1,h3:1 bash -c 'echo up $RANK $$
		[ $RANK = 1 ] || read -r _ <'"$T"'/go
		rdzv_client do $DDP_RDZV_ENDPOINT $DDP_JOB_ID $DDP_ROUND $RANK \
			add n 1 gather g 2 60000 v$RANK add n 1
		echo down $RANK $$'
	await job.out '^\[0\] up 0'
	await job.out '^\[1\] 1$'
	start_on h2 killer bash -c "$kill_server"
	finish killer
	await job.err '^h2: ddprun on h2: .*\(ddprdzv, pid [0-9]+\) was killed by SIGKILL: restarted it; the job continues$'
	echo >go
	finish job
	[ "$(grep -c '^\[[01]\] v0 v1' <<<"$out")" = 2 ]
	has "$out" '\] 4$' # each add was done once
	[ "$(grep -o 'up . .*' <<<"$out" | cut -c3- | sort)" = \
		"$(grep -o 'down . .*' <<<"$out" | cut -c5- | sort)" ]
	nothing_left
}

@test "when the agent on the server's host dies, the job ends everywhere, with the reason" {
	# the server is not its child here, and outlives it
	over_ssh job -H h2:1,h3:1 bash -c \
		'echo up $PPID; exec tail -f /dev/null'
	await job.out '^\[1\] up'
	await job.out '^\[0\] up'
	agent=${line##* }
	host exec "${host_pid[h2]}" kill -9 "$agent"
	finish job 69
	has "$err" "^h2: ddprun on h2: error: the ddprun of this host \\(pid $agent\\) was killed by SIGKILL: the node is lost$"
	has "$err" "^ddprun: job 'ssh-[0-9a-f]+' failed: node 0 \\(h2\\) was lost: its connection closed$"
	nothing_left
}
