load ../lib
load netns
load sshd

# Who may join, on hosts of their own: what a home directory that two share is
# good for, and that nothing secret is seen on the way over ssh.

setup() {
	lib_setup
}

job() {
	start_on "$1" "$1.job" env "${@:2}" ddprun --nnodes 2 \
		--rdzv-endpoint "${at[h1]}:29400" sh -c 'echo "rank $RANK"'
}

@test "two hosts with one home directory agree with nothing typed" {
	hosts_up 2
	mkdir home
	job h1 -u XDG_CONFIG_HOME HOME="$T/home"
	job h2 -u XDG_CONFIG_HOME HOME="$T/home"
	finish h1.job
	[ "$out" = '[0] rank 0' ]
	finish h2.job
	[ "$out" = '[1] rank 1' ]
	[ "$(stat -c %a home/.config/ddprun/key)" = 600 ]
}

@test "with homes of their own both hosts say which secret each has" {
	hosts_up 2
	hosts_real
	mkdir home1 home2
	job h1 -u XDG_CONFIG_HOME HOME="$T/home1"
	await "$T/h1.job.err" 'waiting'
	job h2 -u XDG_CONFIG_HOME HOME="$T/home2"
	finish h2.job 77
	has "$err" "rendezvous server 10.78.0.1:29400: it closed the connection on our proof: its secret is another one than ours \(from the key file $T/home2/.config/ddprun/key on h2\); give all nodes the same DDP_TOKEN or --token-file FILE, or a home directory that they share"
	await "$T/h1.job.err" '10\.78\.0\.2:[0-9]+ \(says it is host h2, job .none.\) has not the secret of this job: refused'
	signal h1.job TERM
	finish h1.job 143
}

@test "over ssh the secret is in no command line, and needs no home" {
	local up='echo up $DDP_JOB_KEY; exec tail -f /dev/null' key p
	sshd_up 2
	over_ssh job -H h1:1,h2:1 sh -c "$up"
	await "$T/job.out" '\[0\] up [0-9a-f]{64}$'
	await "$T/job.out" '\[1\] up [0-9a-f]{64}$'
	key=${line##* }
	[ "$(grep -c "$key" "$T/job.out")" = 2 ]
	# all hosts' processes are seen from here
	for p in /proc/[0-9]*; do
		! tr '\0' '\n' <"$p/cmdline" 2>/dev/null |
			grep -E '(^|[^0-9a-f])[0-9a-f]{64}([^0-9a-f]|$)'
		case $(cat "$p/comm" 2>/dev/null) in
		ddprun | ddprdzv | ssh | sshd)
			! tr '\0' '\n' <"$p/environ" 2>/dev/null | grep -F "$key"
			;;
		esac
	done
	[ -z "$(find "$T"/home.h? -path '*/ddprun/key')" ]
	signal job INT
	finish job 130
	nothing_left
}
