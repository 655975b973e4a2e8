# preflight_hosts.bats: --preflight over several hosts: a host that is not fit is left
# out, and a spare replaces it, or the job is refused.
# covers: worker-sdk/check launcher/agent
load ../lib
load netns

setup() {
	lib_setup
	hosts_up 3
	hosts_real
	# h2 lacks something, which it finds when the test opens the pipe
	mkfifo go
	cat >site <<-'END'
		#!/bin/sh
		[ "$(hostname)" != h2 ] && exit 0
		echo "h2 is being checked" >checks
		read _ <go
		echo "no licence on $(hostname)"
		exit 3
	END
	chmod +x site
}

# job_on H NNODES [OPTION...]: starts a job's node on H; its worker prints its place.
job_on() {
	start_on $1 on_$1 ddprun --nnodes "$2" --rdzv-endpoint "${at[h1]}:29400" \
		--preflight --preflight-command ./site "${@:3}" \
		sh -c 'echo "rank $RANK of $WORLD_SIZE on $(hostname)"'
}

@test "a spare replaces a node that is not fit before the program starts" {
	job_on h1 2
	job_on h2 2
	await "$T/checks" h2
	job_on h3 2
	await "$T/on_h3.err" 'this node waits as a spare'
	echo >go
	finish on_h1
	has "$out" 'rank 0 of 2 on h1'
	has "$err" 'h2.* left: .*no licence on h2'
	finish on_h3
	has "$out" 'rank 1 of 2 on h3'
	finish on_h2 78
	has "$err" 'error: this node \(h2\) is not fit: .*exited with code 3: no licence on h2; leaving the job'
	lacks "$out" rank
	nothing_left
}

@test "an elastic job continues without a node that is not fit" {
	job_on h1 1:2 --last-call-timeout 30
	job_on h2 1:2 --last-call-timeout 30
	echo >go
	finish on_h2 78
	finish on_h1
	has "$out" 'rank 0 of 1 on h1'
	has "$err" 'regrouping: .*h2.* left: .*no licence on h2'
	lacks "$out" 'of 2'
	nothing_left
}

@test "without a spare the job is refused, and every terminal says why" {
	job_on h1 2
	job_on h2 2
	echo >go
	finish on_h2 78
	finish on_h1 -
	[ "$status" != 0 ]
	has "$err" 'h2.* left: .*is not fit: .*no licence on h2'
	lacks "$out" rank
	nothing_left
}
