# vouch_hosts.bats: access to PyTorch's store from other hosts: workers on the job's
# nodes are admitted, other users there and other hosts are not.
# covers: launcher/membership rendezvous/vouching rendezvous/torch

bats_require_minimum_version 1.5.0
load ../lib
load netns

setup() {
	lib_setup
	hosts_up 3
	hosts_real
	# where the other user may get
	install -m 755 "$O/tests/w_knock" "/tmp/knock.$$"
}

# The workers meet in files: h1's says where, and waits until it may go on.
on_two() { # ARGS...
	local h
	mkfifo go
	for h in h1 h2; do
		start_on $h on_$h ddprun --nnodes 2 --rdzv-endpoint h1:29400 \
			"$@" bash -c '
			w_knock ping
			w_knock AT h1 "$MASTER_PORT" ping
			[ "$RANK" = 1 ] && setpriv --reuid 65534 --clear-groups \
				/tmp/knock.'"$$"' ping
			echo "at $MASTER_ADDR $MASTER_PORT"
			[ "$RANK" != 0 ] || read -r _ <go'
	done
	await on_h1.out '^\[0\] at '
	read -r _ _ where port <<<"$line"
}

teardown() {
	rm -f "/tmp/knock.$$"
	lib_teardown
}

# knock NAME: from h3, which is not a node of the job; the reply that it gets
knock() {
	start_on h3 "$1" w_knock AT h1 "$port" ping
	finish "$1"
}

@test "workers of both hosts are admitted; another user there and a third host are not" {
	on_two
	[ "$where" = h1 ]
	await on_h2.out '^\[1\] at '
	knock first
	[ "$out" = closed ]
	knock second
	[ "$out" = closed ]
	echo >go
	finish on_h2
	[ "$out" = "[1] answered
[1] answered
[1] closed
[1] at h1 $port" ]
	[ -z "$err" ]
	finish on_h1
	[ "$(grep -c answered <<<"$out")" = 2 ]
	has "$err" "^ddprdzv: warning: job 'none': closed a connection to PyTorch's store from 10.78.0.2 \\(h2\\): the socket there belongs to user 65534, but the job to user 0$"
	# it was there twice
	[ "$(grep -c 'from 10.78.0.3: no node of the job has that address; .*--store-open$' <<<"$err")" = 1 ]
	[ "$(grep -c 'closed a connection' <<<"$err")" = 2 ]
}

@test "--store-open admits clients from anywhere" {
	on_two --store-open
	knock first
	[ "$out" = answered ]
	echo >go
	finish on_h2
	[ "$(grep -c answered <<<"$out")" = 3 ]
	[ -z "$err" ]
	finish on_h1
	has "$err" "^ddprun: --store-open: anyone who can reach h1:$port can read "
	run ! grep 'closed a connection' <<<"$err"
}

@test "if an agent dies while it is asked, its client is closed at once" {
	local h name
	for h in h1 h2; do
		start_on $h on_$h ddprun --nnodes 2 --rdzv-endpoint h1:29400 \
			--heartbeat-timeout 100 sh -c '
			echo "agent $PPID $MASTER_PORT"
			exec tail -f /dev/null'
	done
	await on_h1.out '^\[0\] agent '
	await on_h2.out '^\[1\] agent '
	read -r _ _ agent port <<<"$line"
	start_on h2 stop kill -STOP "$agent"
	finish stop
	start_on h2 client w_knock AT h1 "$port" set key value
	await client.out sent
	start_on h2 end kill -KILL "$agent"
	finish end
	DEADLINE=50 finish client
	finish on_h2 137
	finish on_h1 69
	has "$err" "closed a connection to PyTorch's store from 10\.78\.0\.2( \(h2\): ddprun there has left|: no node of the job has that address)"
}

@test "if two hosts share an address, the host of the worker vouches for it" {
	local h
	# a node that comes from its bridge's address, as containers' hosts do
	for h in h1 h2; do
		in_net $h ip addr add 172.17.0.1/32 dev lo
	done
	in_net h2 ip route replace 10.78.0.1/32 dev eth0 src 172.17.0.1
	in_net h1 ip route replace 172.17.0.1/32 via 10.78.0.2 table 7
	in_net h1 ip rule add to 172.17.0.1 table 7 pref 0
	in_net h1 ip addr del 172.17.0.1/32 dev lo
	on_two
	await on_h2.out '^\[1\] at '
	echo >go
	finish on_h2
	[ "$(grep -c answered <<<"$out")" = 2 ]
	finish on_h1
	[ "$(grep -c answered <<<"$out")" = 2 ]
}
