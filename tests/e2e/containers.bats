# Workers, or a whole ddprun, in namespaces as containers use them: PIDs, mounts and
# networks. docs/containers.md cites these tests.
# covers: launcher/worker launcher/plan rendezvous/auth
load ../lib

# own KIND...: whether unshare with these works here
own() {
	unshare "$@" true 2>/dev/null || skip "no such namespaces here: $*"
}

apart='warning: the ranks of .* are in 2 containers, or PID or network namespaces, and use TCP between them: start one container per node, or let them share these namespaces'

@test "workers in separate PID namespaces use TCP instead of memory, with a warning" {
	own -pf --mount-proc
	expect 0 ddprun --nproc-per-node 2 unshare -pf --kill-child --mount-proc c_init
	has "$out" '^.1. rank 1 of 2, local 1 of 2, node 0 of 1, .* leader 1$'
	[ "$(grep -cE "$apart" <<<"$out")" = 2 ]
	expect 0 ddprun --nproc-per-node 3 unshare -pf --kill-child --mount-proc \
		c_collectives 3
	[ "$(grep -c ' of 3: ok$' <<<"$out")" = 3 ]
}

@test "two containers of two workers use memory inside and TCP between them" {
	local box inits=
	own -pf --mount-proc
	for box in a b; do
		mkfifo end.$box
		start $box unshare -pf --kill-child --mount-proc \
			sh -c "echo up; read -r _ <end.$box"
		await $box.out up
		inits+=" $(cat "/proc/${pid[$box]}/task/${pid[$box]}/children")"
	done
	export inits
	cat >worker <<-'EOF'
	#!/bin/sh
	set -- $inits
	[ $LOCAL_RANK -lt 2 ] || shift
	exec nsenter -t $1 -p -m -r -w c_init
	EOF
	chmod +x worker
	expect 0 ddprun --nproc-per-node 4 ./worker
	has "$out" '^.1. rank 1 of 4, local 1 of 4, node 0 of 1, .* leader 0$'
	has "$out" '^.3. rank 3 of 4, local 3 of 4, node 0 of 1, .* leader 2$'
	[ "$(grep -cE "$apart" <<<"$out")" = 4 ]
	for box in a b; do
		: >end.$box
		finish $box -
	done
}

@test "workers do not need a large /dev/shm" {
	own -m
	expect 0 ddprun --nproc-per-node 2 unshare -m sh -c '
		mount -t tmpfs -o size=4k none /dev/shm && exec c_init'
	has "$out" '^.1. rank 1 of 2, .* leader 0$'
	[[ $out != *warning* ]]
}

@test "a worker in a separate network reports what is missing" {
	own -n
	expect 1 ddprun --nproc-per-node 2 unshare -n c_init
	has "$out" "cannot connect to 127.0.0.1:[0-9]+: .*; has ddprun ended, or is this a container with its own network \\(--network host\\)\\?"
}

@test "ddprun as PID 1 runs a whole job in one container" {
	own -pf --mount-proc
	mkfifo fifo said
	expect 0 unshare -pf --kill-child --mount-proc ddprun --nproc-per-node 2 c_init
	has "$out" '^.1. rank 1 of 2, .* leader 0$'
	expect 3 unshare -pf --kill-child --mount-proc ddprun --nproc-per-node 2 \
		sh -c 'test $RANK = 0 || exit 3; read -r _ <fifo'
	has "$err" 'rank 1 .* exited with code 3'
	# it inherits the workers' orphans
	expect 0 unshare -pf --kill-child --mount-proc ddprun sh -c '(sh -c "exit 7" &); true'
	# dump works from inside
	expect 0 unshare -pf --kill-child --mount-proc bash -c '
		ddprun --nproc-per-node 2 c_guest wait fifo >said &
		exec 7<said
		read -r _ <&7
		read -r _ <&7
		ddprun dump --no-stacks
		exec 8<>fifo
		wait %1'
	[ "$(grep -c 'between calls; last: barrier #' <<<"$out")" = 2 ]
}
