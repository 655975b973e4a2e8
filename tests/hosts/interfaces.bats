# interfaces.bats: hosts with two interfaces, and which one NCCL and gloo get.
# covers: launcher/plan

bats_require_minimum_version 1.5.0
load ../lib
load netns

setup() {
	lib_setup
	hosts_up 2
	hosts_real
	# on each host the first by name, with the same address: nobody gets there
	for h in h1 h2; do
		in_net $h ip link add br0 type bridge
		in_net $h ip addr add 192.168.9.1/24 dev br0
		in_net $h ip link set br0 up
	done
}

# told HOST VALUES: the values that its one worker found
told() {
	finish "on_$1"
	[ "$(sed 's/^.*: //' <<<"$out")" = "$2" ]
}

on_both() { # ARGS...
	local h
	for h in h1 h2; do
		start_on $h on_$h ddprun --nnodes 2 --nproc-per-node 1 \
			--rdzv-endpoint h1:29400 "$@" sh -c \
			'echo "told: $NCCL_SOCKET_IFNAME $GLOO_SOCKET_IFNAME"'
	done
}

@test "--net-interface auto is the interface by which the nodes have met" {
	on_both
	told h1 ' '
	told h2 ' '
	on_both --net-interface auto
	told h1 '=eth0 eth0'
	told h2 '=eth0 eth0'
	# the user's value takes precedence; and another machine's address (NAT)
	on_both --net-interface auto --local-addr 192.168.9.1
	told h1 '=br0 br0'
	told h2 '=br0 br0'
	on_both --net-interface auto --local-addr 198.51.100.7
	told h1 ' '
	has "$err" '^ddprun: warning: --net-interface auto: other nodes reach this one at 198.51.100.7, which belongs to no interface, or to several, so NCCL and gloo choose one; give the name of an interface'
	told h2 ' '
	# the host's own name for itself is no address of the others'
	own_name h1 127.0.1.1
	on_both --net-interface auto
	told h1 ' '
	has "$err" 'other nodes reach this one at h1, which belongs'
	told h2 '=eth0 eth0'
	in_net h1 ip link set br0 down
	on_both --net-interface auto
	told h1 '=eth0 eth0'
	told h2 '=eth0 eth0'
}
