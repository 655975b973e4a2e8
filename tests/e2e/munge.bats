# Images that have their host's munge socket but no libmunge: unless asked for, munge
# is not used, and both sides report how they authenticate. The same holds if munged
# has ended and left its socket. Worlds that authenticate by munge. (ddpruns:
# cluster/auth.bats.)
# covers: rendezvous/auth
load ../lib

setup() {
	lib_setup
	library=$(ldconfig -p | sed -n 's/.*libmunge\.so\.2 .*=> //p' | head -n 1)
	[ "$(id -u)" = 0 ] || skip "only root can take a library away"
	{ command -v munged && [ -n "$library" ]; } >where || skip "no munge here"
	unshare -m mount -t tmpfs none /mnt 2>where || skip "no mounts here"
	mkdir -p munge config
	let_others_in
	(umask 077 && head -c 1024 /dev/urandom >munge.key)
	start munged munged --foreground --force --key-file="$T/munge.key" \
		--socket="$T/munge/munge.socket.2" --pid-file="$T/munged.pid" \
		--log-file="$T/munged.log" --seed-file="$T/munged.seed"
	await "$T/munged.err" 'Created socket'
	reason="cannot use munge on $(hostname): .*libmunge.so.2: .* \(package libmunge2 on Debian\)"
	key="the key file $T/config/ddprun/key on $(hostname), as $reason"
}

# image with|without CMD...: where munge's socket is in its usual place, and the
# library is or is not
image() {
	exec unshare -m bash -c 'mount -t tmpfs none /run && mkdir /run/munge &&
		mount --bind "$1" /run/munge && { [ "$3" = with ] ||
		mount --bind /dev/null "$2"; } && shift 3 && exec "$@"' \
		bash "$T/munge" "$library" "$@"
}

# node NAME with|without [VARIABLE=VALUE...]
node() {
	start "$1" image "$2" env "${@:3}" ddprun --nnodes 2 \
		--rdzv-endpoint "$at" sh -c 'echo "rank $RANK"'
}

here() {
	at=127.0.0.1:$(w_port free)
}

@test "two nodes with munge's socket but no libmunge use the key file, and report it" {
	here
	node a without
	node b without
	finish a
	has "$err" "^ddprun: joining nodes authenticate with $key\$"
	[ "$(grep -c 'authenticate with' <<<"$err")" = 1 ]
	finish b
	has "$err" "^ddprun: joining nodes authenticate with $key\$"
	# what is started alone wonders about nothing
	start alone image without ddprun true
	finish alone
	[ -z "$err" ]
}

@test "nodes with and without libmunge report how they authenticate, in both directions" {
	here
	node a with DDP_LOG=debug
	await a.err "1 of 2 nodes have joined"
	node b without
	finish b 77
	has "$err" "rendezvous server $at: it authenticates with munge, but this node with $key: make munge work here, or give all nodes the same --token-file FILE\$"
	node c with
	finish c
	finish a
	here
	node a without DDP_LOG=debug
	await a.err "1 of 2 nodes have joined"
	node b with
	finish b 77
	has "$err" "rendezvous server $at: it authenticates with a secret .*but this node with munge: is munged down or libmunge\.so\.2 missing on the server's host\? Start or install it there"
	node c without
	finish c
	finish a
}

@test "if munged has ended, nodes use the key file unless they ask for munge" {
	local down="munged does not answer on $(hostname) \(/run/munge/munge.socket.2: Connection refused\)"
	signal munged KILL
	finish munged 137
	here
	node a with
	node b with
	finish a
	has "$err" "^ddprun: joining nodes authenticate with the key file $T/config/ddprun/key on $(hostname), as $down\$"
	finish b
	node c with DDP_AUTH=munge
	finish c 77
	has "$err" "^ddprun: error: $down; start it there"
	node d with SLURM_JOB_ID=7
	finish d 77
	has "$err" "^ddprun: error: $down; start it there"
}

@test "a user who asked for munge gets an error that libmunge is missing" {
	here
	node a without DDP_AUTH=munge
	finish a 77
	has "$err" "^ddprun: error: $reason; install it there, or give all nodes the same --token-file FILE\$"
	node b without DDP_MUNGE_SOCKET="$T/munge/munge.socket.2"
	finish b 77
	has "$err" "$reason; install it there"
	start server image without ddprdzv --listen 127.0.0.1:0 --auth munge
	finish server 77
	has "$err" "$reason; install it there"
	start server image without ddprdzv --listen 127.0.0.1:0
	await server.err 'listening on'
	has "$(<server.err)" "^ddprdzv: joining nodes authenticate with $key\$"
	signal server TERM
	finish server
}

# rank WORLD RANK [FIFO]: of a world of two that srun started, which has its proof
# of munge; one world after another has the same step, and so the same name
rank() {
	start "w$1r$2" env SLURM_JOB_ID=12 SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=1 \
		SLURM_NODEID=0 SLURM_STEP_NODELIST=localhost SLURM_PROCID="$2" \
		SLURM_LOCALID="$2" SLURM_STEP_NUM_TASKS=2 \
		SLURM_STEP_TASKS_PER_NODE=2 \
		DDP_MUNGE_SOCKET="$T/munge/munge.socket.2" \
		c_guest ${3:+wait "$3"}
}

@test "a world ignores the server of the previous world in the same step" {
	mkfifo go
	rank 1 0
	rank 1 1 go
	finish w1r0
	# that server uses the first port while rank 1 runs
	rank 2 0
	await "$T/w1r0.err" 'it does not have this job.s secret$'
	: >go
	finish w1r1
	rank 2 1
	finish w2r0
	finish w2r1
}
