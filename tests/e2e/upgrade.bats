# Programs of different versions: a server that is upgraded while its jobs run, and
# workers and ddpruns that are older than the server. The other version is this build
# with another number in it.
# covers: rendezvous/journal rendezvous/recovery rendezvous/net rendezvous/client
load ../lib

setup() {
	lib_setup
	export T
	unset "${!PET_@}"
}

# other_version FILE COPY: the next release, with the same protocol
other_version() {
	local this next
	this=$("$O/ddprdzv" --version | cut -d' ' -f2)
	next=${this%.*}.$(((${this##*.} + 1) % 10))
	LC_ALL=C sed "s/${this//./\\.}/$next/g" "$1" >"$2"
	chmod +x "$2"
	version=$next
}

# newer_protocol COPY: a server of a release whose protocol has a newer number
newer_protocol() {
	LC_ALL=C sed 's/DDPR\x0b\x00\x00\x00/DDPR\x0c\x00\x00\x00/' "$O/ddprdzv" >"$1"
	! cmp -s "$O/ddprdzv" "$1"
	chmod +x "$1"
}

# serve NAME PROGRAM: a server with the journal $T/j at $at, the first time a new place
serve() {
	start "$1" "$2" --listen "${at:-127.0.0.1:$(w_port free)}" --journal "$T/j"
	await "$1.err" 'listening on'
	at=${line##* }
}

@test "a newer server goes on with the jobs of the server that it replaces" {
	mkfifo go.0 go.1
	other_version "$O/ddprdzv" newer
	expect 0 ./newer --version
	has "$out" " $version\$"
	serve old ddprdzv
	start job ddprun --rdzv-endpoint "$at" --nproc-per-node 2 --max-restarts 1 sh -c '
		echo "up $RANK attempt $TORCHELASTIC_RESTART_COUNT pid $$"
		[ $TORCHELASTIC_RESTART_COUNT = 1 ] || {
			rdzv_client do $DDP_RDZV_ENDPOINT $DDP_JOB_ID $DDP_ROUND $RANK \
				set k$RANK v append l x
			read _ <go.$RANK
			rdzv_client do $DDP_RDZV_ENDPOINT $DDP_JOB_ID $DDP_ROUND $RANK get k$RANK
			exit 3
		}'
	await job.out '^\[0\] [12]$'
	await job.out '^\[1\] [12]$'
	signal old TERM
	finish old 0
	serve new ./newer
	await job.err 'is back after'
	# the keys of the round are there, and so is the restart that is left
	echo >go.0
	await job.out "^\[0\] .*'v'"
	await job.out '^\[[01]\] up [01] attempt 1'
	finish job 0
	[ "$(grep -c 'attempt 1' <<<"$out")" = 2 ]
	signal new TERM
	finish new 0
	nothing_left
}

@test "a journal of another format is left alone, and named with what to do" {
	serve old ddprdzv
	signal old TERM
	finish old 0
	# DDPJRNL and the number of the format
	printf '\x7f' | dd of=j bs=1 seek=7 conv=notrunc status=none
	cp j before
	expect 2 ddprdzv --listen "$at" --journal j
	has "$err" 'journal j: another version of ddprdzv wrote it: remove it once its jobs have ended'
	cmp j before
}

@test "a worker whose libddp is older than the server names both versions" {
	newer_protocol newer
	serve newer ./newer
	expect 1 ddprun --standalone sh -c "DDP_RDZV_ENDPOINT=$at exec c_guest"
	has "$out" "rendezvous server $at: it speaks version 12 of the protocol, but this program .* speaks version 11; install the same ddprun"
	signal newer TERM
	finish newer 0
}

@test "a ddprun that is older than the server names both versions" {
	newer_protocol newer
	serve newer ./newer
	expect 76 ddprun --nnodes 2 --rdzv-endpoint "$at" --rdzv-conf is_host=0 true
	has "$err" 'speaks version 12 of the protocol, but this program .* speaks version 11; install the same ddprun on all nodes'
	signal newer TERM
	finish newer 0
}
