# covers: launcher/stage launcher/agent
load ../lib
load netns

# --stage on several hosts, each of which has a disk of its own: $T/disk.HOST.

setup() {
	lib_setup
	hosts_up 3
	mkdir -p shared/env/bin shared/env/data disk.h1 disk.h2 disk.h3
	head -c 6000000 /dev/urandom >shared/env/data/random
	yes 'as in a text' | head -c 4000000 >shared/env/data/text
	printf '#!/bin/sh\necho "rank $RANK runs $0"\n' >shared/env/bin/program
	chmod 755 shared/env/bin/program
	ln -s ../data/text shared/env/bin/link
}

# node H NNODES WORDS...: a node of the job on H
node() {
	local h=$1 n=$2
	shift 2
	start_on "$h" "on_$h" env TMPDIR="$T/disk.$h" ddprun --nnodes "$n" \
		--rdzv-endpoint "${at[h1]}:29400" --stage "$T/shared/env" "$@"
}

copy_of() {
	echo "$T/disk.$1"/ddprun-stage-*/*/env
}

sent() {
	# not /sys, which shows the outer network's
	in_net "$1" awk '$1 == "eth0:" { print $10 }' /proc/net/dev
}

# narrow H RATE: what H sends passes a slow cable
narrow() {
	in_net "$1" tc qdisc add dev eth0 root tbf rate "$2" burst 64kb latency 50ms
}

@test "each byte leaves the first node once, and a second job sends none" {
	local h before
	for h in h1 h2 h3; do node $h 3 "$T/shared/env/bin/program"; done
	for h in h1 h2 h3; do
		finish "on_$h"
		has "$out" "rank [012] runs $(copy_of "$h")/bin/program\$"
		diff -r "$T/shared/env" "$(copy_of "$h")"
		[ "$(readlink "$(copy_of "$h")/bin/link")" = ../data/text ]
	done
	has "$(cat on_h?.err)" "staging '$T/shared/env' on 3 nodes: 0.01 GiB in 3 files"
	has "$(cat on_h?.err)" 'staged on 3 nodes in '
	hosts_real
	before=$(sent h1)
	echo "h1 sent $before bytes" >&2
	# the random bytes once; the text becomes small
	[ "$before" -gt 6000000 ] && [ "$before" -lt 7000000 ]
	for h in h1 h2 h3; do node $h 3 true; done
	for h in h1 h2 h3; do finish "on_$h"; done
	[ "$(($(sent h1) - before))" -lt 200000 ]
	nothing_left
}

@test "an interrupted copy is continued by the next job" {
	local h part before
	hosts_real
	narrow h1 8mbit # 6 s
	for h in h1 h2; do node $h 2 true; done
	# h2 has a third of it
	until part=$(echo disk.h2/ddprun-stage-*/*.part-*/env/data/random) &&
		[ "$(stat -c %s "$part" 2>/dev/null || echo 0)" -gt 2000000 ]; do read -rt 0.05 <> <(:) || true; done
	signal on_h1 INT
	finish on_h1 130
	finish on_h2 -
	nothing_left
	in_net h1 tc qdisc del dev eth0 root
	[ "$(stat -c %s "$part")" -lt 6000000 ]
	before=$(sent h1)
	for h in h1 h2; do node $h 2 true; done
	for h in h1 h2; do finish "on_$h"; done
	[ "$(($(sent h1) - before))" -lt 4500000 ]
	diff -r shared/env "$(copy_of h2)"
}

@test "a node that dies while it copies is left out, and the others get the rest" {
	local h part
	hosts_real
	narrow h1 8mbit # 6 s
	for h in h1 h2 h3; do node $h 2:3 --rdzv-conf last_call_timeout=30 true; done
	until part=$(echo disk.h3/ddprun-stage-*/*.part-*/env/data/random) &&
		[ -s "$part" ]; do read -rt 0.05 <> <(:) || true; done
	signal on_h2 KILL
	finish on_h2 137
	in_net h1 tc qdisc del dev eth0 root
	finish on_h1
	finish on_h3
	diff -r shared/env "$(copy_of h3)"
	nothing_left
}

@test "a node that joins later gets the copy from its neighbour" {
	node h1 1:2 --rdzv-conf last_call_timeout=0 sh -c 'echo "$GROUP_WORLD_SIZE"
		[ "$GROUP_WORLD_SIZE" = 2 ] || exec tail -f /dev/null'
	await on_h1.out '^\[0\] 1'
	mv shared/env shared/gone # nobody can read it again
	node h2 1:2 --rdzv-conf last_call_timeout=0 true
	finish on_h2
	finish on_h1
	diff -r shared/gone "$(copy_of h2)"
}

@test "a node whose copy fails ends the job on all nodes, with the reason" {
	local h
	mkdir -m 777 "disk.h2/ddprun-stage-$(id -u)"
	for h in h1 h2; do node $h 2 true; done
	finish on_h1 -
	[ "$status" != 0 ]
	has "$err" "others can write to the folder '.*disk.h2/ddprun-stage-"
	finish on_h2 "$status"
	has "$err" "others can write to the folder '.*disk.h2/ddprun-stage-"
	nothing_left
}
