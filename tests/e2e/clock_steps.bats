# The clock on the wall steps, by seconds or years, between two messages of a proof, on
# both sides. A secret's proof does not depend on it; munge's credentials do, for five
# minutes, and the refusal names the clocks.
# covers: rendezvous/auth
load ../lib

setup() {
	local preload
	lib_setup
	# its program fails if a process with its pid was killed before
	preload=$(ls /usr/lib*/*/faketime/libfaketime.so.1 2>/dev/null) ||
		skip "no libfaketime here"
	[ -z "${SAN:-}" ] || skip "faketime must be loaded before the sanitizers"
	unshare -m mount -t tmpfs none /mnt 2>where || skip "no mounts here"
	echo '+0h' >clock
	# libfaketime leaves shared memory when its process is killed
	faked=(unshare -m sh -c 'mount -t tmpfs none /dev/shm && exec "$@"' sh
		env LD_PRELOAD="$preload" FAKETIME_TIMESTAMP_FILE="$T/clock"
		FAKETIME_NO_CACHE=1 DONT_FAKE_MONOTONIC=1
		FAKETIME_DONT_FAKE_MONOTONIC=1)
}

# server [OPTION...]: a ddprdzv by that clock
server() {
	start server "${faked[@]}" ddprdzv --listen 127.0.0.1:0 "$@"
	await server.err 'listening on'
	server=${line##* }
}

# relay STEPS: before the server, at $at; sets the clock (rdzv_relay.py)
relay() {
	start relay python3 /dev/fd/8 "$server" 9 "clock=$1" \
		8<"$lib_tests/programs/peers/rdzv_relay.py" 9>"$T/seen" 7>"$T/clock"
	await relay.out '^at '
	at=${line#at }
	echo '+0h' >clock
}

# job: a ddprun by that clock, through the relay, with a worker that uses the store
job() {
	start job "${faked[@]}" ddprun --nnodes 1 --rdzv-endpoint "$at" sh -c \
		'rdzv_client do '"$at"' $DDP_JOB_ID 0 0 set k v get k; date +now%s'
}

munge_or_skip() {
	command -v munged >where || skip "no munge here"
	mkdir -p munge
	let_others_in
	(umask 077 && head -c 1024 /dev/urandom >munge.key)
	start munged "${faked[@]}" munged --foreground --force \
		--key-file="$T/munge.key" --socket="$T/munge/socket" \
		--pid-file="$T/munged.pid" --log-file="$T/munged.log" \
		--seed-file="$T/munged.seed"
	await munged.err 'Created socket'
	export DDP_AUTH=munge DDP_MUNGE_SOCKET=$T/munge/socket
}

@test "a clock that steps by years between the messages of a proof changes nothing" {
	local now
	export DDP_TOKEN=a-token-of-this-test-alone
	server
	relay +10y,-10y,+5y
	now=$(date +%s)
	job
	finish job
	has "$out" "1 'v'"
	[ "${out##*now}" -gt $((now + 4 * 365 * 86400)) ]
	[ "$(grep -c '^clock +10y' relay.out)" = 2 ] # its agent, and the worker
	[ "$(grep -c '^clock -10y' relay.out)" = 2 ]
	[ -z "$err" ]
	[ "$(<server.err)" = "ddprdzv: listening on $server" ]
}

@test "with munge, a clock that steps once during a proof costs a second proof" {
	munge_or_skip
	server
	relay +0h,+1h,+1h,once
	job
	finish job
	has "$out" "1 'v'"
	[ -z "$err" ]
	has "$(<server.err)" 'Expired credential; do the clocks of both hosts agree\?$'
}

# refused STEPS WHY
refused() {
	server
	relay "$1"
	job
	finish job 77
	has "$err" "^ddprun: error: rendezvous server $at: it rejected our munge credential: .* has a different clock or key\$"
	has "$(<server.err)" "warning: refused .*: munge on .* rejected the credential: $2; do the clocks of both hosts agree\?\$"
	signal server TERM
	finish server
	signal relay KILL
	finish relay 137
}

@test "with munge, a clock that steps in each proof ends the job, and both sides name it" {
	munge_or_skip
	refused +0h,+1h,+1h 'Expired credential'
	refused +1h,+0h,+0h 'Rewound credential'
}
