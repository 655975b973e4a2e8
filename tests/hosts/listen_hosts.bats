# listen_hosts.bats: the addresses at which a host with several interfaces listens, and
# hosts with only IPv6.
# covers: launcher/membership base

bats_require_minimum_version 1.5.0
load ../lib
load netns

setup() {
	lib_setup
	hosts_up 2
	hosts_real
}

# A second network of h1's own, without other nodes of the job.
second_interface() {
	in_net h1 ip link add eth1 type bridge
	in_net h1 ip addr add 10.99.0.1/24 dev eth1
	in_net h1 ip link set eth1 up
}

# listening: addresses and ports of all listeners of h1, but for loopback's
listening() {
	in_net h1 ss -Hltn | awk '{ print $4 }' | grep -v '^127\.\|^\[::1\]' |
		sort
}

# Two workers, of which h1's waits until it may go on; $port is their store's.
begin() { # ARGS...
	local h
	mkfifo go
	for h in h1 h2; do
		start_on $h on_$h ddprun --nnodes 2 --rdzv-endpoint h1:29400 \
			"$@" sh -c 'w_knock ping
			echo "at $MASTER_ADDR $MASTER_PORT"
			[ "$RANK" = 1 ] || read -r _ <go'
	done
	await on_h1.out '^\[0\] at '
	read -r _ _ where port <<<"$line"
}

end() {
	echo >go
	finish on_h1
	has "$out" 'answered$'
	finish on_h2
	has "$out" 'answered$'
}

@test "the server only listens at the address that the endpoint names" {
	second_interface
	begin
	[ "$(listening)" = "$(printf '%s\n' 10.78.0.1:29400 "10.78.0.1:$port" |
		sort)" ]
	end
}

@test "a host whose own name is 127.0.1.1 listens at its addresses, not at a wildcard" {
	second_interface
	own_name h1 127.0.1.1
	begin
	# PyTorch's store only where nodes have come
	[ "$(listening)" = "$(printf '%s\n' 10.78.0.1:29400 10.99.0.1:29400 \
		"10.78.0.1:$port" | sort)" ]
	end
}

@test "on a host named 127.0.1.1 libddp's ranks listen at its addresses, not at a wildcard" {
	local h
	second_interface
	own_name h1 127.0.1.1
	own_name h2 127.0.1.1
	for h in h1 h2; do
		mkfifo go.$h
		start_on $h on_$h ddprun --nnodes 2 --rdzv-endpoint h1:29400 \
			c_guest wait go.$h
	done
	for h in h1 h2; do
		await on_$h.out ': ok$'
	done
	# a port on all addresses belongs to another process than the server
	[ "$(listening | grep -v ':29400$' | sed 's/:[0-9]*$//' | sort |
		uniq -c | sed 's/^ *//')" = $'2 10.78.0.1\n1 10.99.0.1' ]
	: >go.h1
	: >go.h2
	finish on_h1
	finish on_h2
}

@test "--local-addr and --interface choose one of the host's addresses" {
	local args
	second_interface
	own_name h1 127.0.1.1
	for args in '--local-addr 10.78.0.1' '--interface eth0'; do
		mkfifo go
		start_on h1 on_h1 ddprun --nnodes 2 --rdzv-endpoint h1:29400 \
			$args sh -c 'w_knock ping; echo "at $MASTER_ADDR $MASTER_PORT"
			read -r _ <go'
		start_on h2 on_h2 ddprun --nnodes 2 --rdzv-endpoint h1:29400 \
			w_knock ping
		await on_h1.out '^\[0\] at '
		read -r _ _ where port <<<"$line"
		[ "$where" = 10.78.0.1 ]
		[ "$(listening)" = "$(printf '%s\n' 10.78.0.1:29400 \
			"10.78.0.1:$port" | sort)" ]
		end
		rm go
	done
}

@test "the line printed for port 0 at a name has the endpoint for the other host" {
	start_on h1 on_h1 ddprun --nnodes 2 --rdzv-endpoint h1:0 w_knock ping
	await on_h1.err '^ddprun: the nodes meet at h1:[0-9]+; start the others with --rdzv-endpoint h1:[0-9]+$'
	start_on h2 on_h2 ddprun --nnodes 2 --rdzv-endpoint "${line##* }" \
		w_knock ping
	finish on_h1
	has "$out" 'answered$'
	finish on_h2
	has "$out" 'answered$'
}

@test "hosts with only IPv6 form a job" {
	local i
	for i in 1 2; do
		in_net h$i sysctl -qw net.ipv6.conf.eth0.disable_ipv6=0 || true
		in_net h$i ip addr flush dev eth0
		in_net h$i ip addr add "fd78::$i/64" dev eth0 nodad
		sed -i 's/^10\.78\.0\.\([0-9]\) /fd78::\1 /' "$T/etc_hosts.switch"
		cat "$T/etc_hosts.switch" >"$T/etc_hosts.h$i"
	done
	begin
	[ "$where" = h1 ]
	[ "$(listening)" = "$(printf '%s\n' '[fd78::1]:29400' \
		"[fd78::1]:$port" | sort)" ]
	end
	rm go
	# by number, and what libddp has between hosts
	for i in 1 2; do
		start_on h$i on_h$i ddprun --nnodes 2 --nproc-per-node 2 \
			--rdzv-endpoint '[fd78::1]:29401' c_collectives 3
	done
	for i in 1 2; do
		finish on_h$i
		[ "$(grep -c 'of 4: ok$' <<<"$out")" = 2 ]
	done
}

# h1 calls its interface eth0, h2 wire7; they have no other addresses than link-local
# ones.
link_local_only() {
	local i name
	in_net h2 ip link set eth0 down
	in_net h2 ip link set eth0 name wire7 up
	for i in 1 2; do
		name=eth0
		[ $i = 1 ] || name=wire7
		in_net h$i sysctl -qw net.ipv6.conf.$name.disable_ipv6=0 || true
		in_net h$i ip addr flush dev $name
		in_net h$i ip addr add "fe80::$i/64" dev $name nodad
	done
	at_h1='[fe80::1%eth0]:29401' at_h2='[fe80::1%wire7]:29401'
}

@test "hosts with only link-local addresses and differing interface names form a job" {
	hosts_real
	local i at
	link_local_only
	for i in 1 2; do
		at=at_h$i
		start_on h$i on_h$i ddprun --nnodes 2 --nproc-per-node 2 \
			--rdzv-endpoint "${!at}" \
			bash -c 'echo "$MASTER_ADDR $DDP_RDZV_ENDPOINT $DDP_NODE_ADDR"
				c_collectives 3 && c_messages groups'
	done
	finish on_h1
	[ "$(grep -c 'of 4: ok$' <<<"$out")" = 4 ]
	has "$out" 'fe80::1%eth0 \[fe80::1%eth0\]:29401 fe80::1%eth0$'
	finish on_h2
	[ "$(grep -c 'of 4: ok$' <<<"$out")" = 4 ]
	has "$out" 'fe80::1%wire7 \[fe80::1%wire7\]:29401 fe80::2%wire7$'
	# workers of PyTorch's protocol; the other host's agent vouches for them
	in_net h1 ip addr add fe80::11/64 dev eth0 nodad
	start_on h1 on_h1 ddprun --nnodes 2 --rdzv-endpoint "$at_h1" \
		--local-addr fe80::11%eth0 w_knock ping
	start_on h2 on_h2 ddprun --nnodes 2 --rdzv-endpoint "$at_h2" \
		--local-addr fe80::2%wire7 w_knock ping
	for i in 1 2; do
		finish on_h$i
		has "$out" 'answered$'
	done
}

@test "a link-local endpoint must name an interface of this host" {
	hosts_real
	link_local_only
	start_on h2 on_h2 ddprun --nnodes 2 --rdzv-endpoint "$at_h1" true
	finish on_h2 2
	has "$err" "'fe80::1%eth0': this host has no interface 'eth0': after the % of a link-local address give an interface of this host"
	start_on h2 on_h2 ddprun --nnodes 2 --rdzv-endpoint '[fe80::1]:29401' true
	finish on_h2 2
	has "$err" 'fe80::1 is a link-local address, valid on one interface only: append this host.s interface, as in fe80::1%eth0'
}

# An image of h1 that became h2 still has Debian's line for h1.
@test "a node where the endpoint's name means its own loopback is refused at once" {
	local text
	text=$(sed 's/^.* h1$/127.0.1.1 h1/' etc_hosts.h2)
	echo "$text" >etc_hosts.h2
	start_on h2 on_h2 ddprun --nnodes 2 --rdzv-endpoint h1:29400 true
	finish on_h2 2
	has "$err" "the rendezvous endpoint 'h1' is 127\\.0\\.1\\.1 on this host \\(h2\\), where this node would find only itself; correct h1 in /etc/hosts here"
	# the same line with an alias is right
	text=$(sed 's/^127.0.1.1 h1$/127.0.1.1 h2 h1/; s/^10.* h2$//' etc_hosts.h2)
	echo "$text" >etc_hosts.h2
	start_on h2 on_h2 ddprun --nnodes 1:2 --last-call-timeout 0 \
		--rdzv-endpoint h1:29400 echo ran
	finish on_h2
	has "$out" 'ran'
	text=$(sed 's/^127.0.1.1 h2 h1$/127.0.1.1 h1/' etc_hosts.h2)
	echo "$text" >etc_hosts.h2
	start_on h2 on_h2 ddprun --nnodes 1:2 --last-call-timeout 0 \
		--rdzv-endpoint h1:29400 --rdzv-conf is_host=1 echo ran
	finish on_h2
	has "$out" 'ran'
}
