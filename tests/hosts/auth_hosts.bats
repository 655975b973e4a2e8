# covers: rendezvous/auth launcher/membership
bats_require_minimum_version 1.5.0
load ../lib
load netns
load sshd

# Authentication between separate hosts: a shared home directory provides the secret,
# and nothing secret is visible on the way over ssh.

setup() {
	lib_setup
}

job() {
	start_on "$1" "$1.job" env "${@:2}" ddprun --nnodes 2 \
		--rdzv-endpoint "${at[h1]}:29400" sh -c 'echo "rank $RANK"'
}

@test "two hosts with one home directory authenticate without configuration" {
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

@test "with separate homes both hosts report which secret each has" {
	hosts_up 2
	hosts_real
	mkdir home1 home2
	job h1 -u XDG_CONFIG_HOME HOME="$T/home1"
	await "$T/h1.job.err" 'waiting'
	job h2 -u XDG_CONFIG_HOME HOME="$T/home2"
	finish h2.job 77
	has "$err" "rendezvous server 10.78.0.1:29400: it rejected our secret \(from the key file $T/home2/.config/ddprun/key on h2\), because its own is different; give all nodes the same DDP_TOKEN or --token-file FILE, or let them share a home directory"
	await "$T/h1.job.err" 'refused 10\.78\.0\.2:[0-9]+ \(claims host h2, job .none.\): it does not have this job.s secret'
	signal h1.job TERM
	finish h1.job 143
}

# task NODE NAME CMD...: as a task of a step of Slurm's on h1 and h2, which meet at
# one of several ports
task() {
	start_on "h$(($1 + 1))" "$2" env SLURM_JOB_ID=12 SLURM_STEP_ID=0 \
		SLURM_STEP_NUM_NODES=2 SLURM_NODEID="$1" \
		SLURM_STEP_NODELIST='h[1-2]' SLURM_STEP_NUM_TASKS=2 \
		'SLURM_STEP_TASKS_PER_NODE=1(x2)' SLURM_PROCID="$1" \
		SLURM_LOCALID=0 "${@:3}"
}

one=DDP_TOKEN=first-token-of-ours two=DDP_TOKEN=second-token-of-theirs
other='it rejected our secret \(from DDP_TOKEN on h2\), because its own is different; give all nodes the same'

# The ports of that step: another user's server has the first one.
first_is_taken() {
	task 0 dry ddprun --dry-run true
	finish dry
	port=$(sed -n 's/.*--rdzv-endpoint h1:\([0-9]*\) .*/\1/p' <<<"$err")
	start_on h1 foreign env DDP_TOKEN=of-somebody-else-here ddprdzv \
		--listen "10.78.0.1:$port" "$@"
	await foreign.err 'listening on'
}

@test "with several ports a wrong token is an error at once, and other servers are skipped" {
	local job
	hosts_up 2
	hosts_real
	for job in '' '--job slurm-12.1'; do
		first_is_taken $job
		task 0 a $one DDP_LOG=debug ddprun --nproc-per-node 1 true
		await a.err "^ddprun: port $port of h1 is in use by another process; the job's server tries the next one"
		await a.err 'debug: 1 of 2 nodes have joined'
		task 1 b $two ddprun --nproc-per-node 1 true
		finish b 77
		has "$err" "^ddprun: error: rendezvous server 10\.78\.0\.1:[0-9]+: $other"
		run ! grep -e "10.78.0.1:$port" -e waiting <<<"$err"
		await a.err 'refused 10\.78\.0\.2:[0-9]+ \(claims host h2, job .slurm-12\.0.\): it does not have this job.s secret'
		task 1 c $one ddprun --nproc-per-node 1 sh -c 'echo in'
		finish c
		[ "$out" = '[1] in' ]
		finish a
		signal foreign TERM
		finish foreign
	done
}

@test "with several ports a worker of srun with a wrong token gets an error at once" {
	hosts_up 2
	hosts_real
	first_is_taken
	task 0 a $one c_guest
	task 1 b $two c_guest
	finish b 1
	has "$out" "$other"
	task 1 c $one c_guest
	finish c
	finish a
}

@test "over ssh the secret is on no command line, and needs no home" {
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
