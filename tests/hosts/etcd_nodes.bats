# covers: etcd launcher/membership rendezvous/server rendezvous/election
load ../lib
load netns
load etcd

# The addresses of a job's nodes with etcd, and which node can take over the server.

setup() {
	lib_setup
	export PET_LAST_CALL_TIMEOUT=0.5 PET_RDZV_CONF=ttl=1
	hosts_up 3
	hosts_real
}

# the server's address into $at; if etcd cannot be asked, there is none
server_at() {
	start_on h1 ask env ETCDCTL_API=3 etcdctl --endpoints "$etcd" \
		get /ddprun/j/server --print-value-only
	finish ask
	at=$out
}

# It ends when nothing of it is left there.
nothing_in_etcd() {
	start_on h1 ask env ETCDCTL_API=3 etcdctl --endpoints "$etcd" \
		get --prefix / --keys-only
	finish ask
	[ -z "$out" ]
}

says='echo "rank $RANK at $DDP_NODE_ADDR by $DDP_RDZV_ENDPOINT"'

@test "hosts with only IPv6, and an etcd on IPv6, work" {
	local i
	for i in 1 2 3; do
		in_net h$i sysctl -qw net.ipv6.conf.eth0.disable_ipv6=0 || true
		in_net h$i ip addr flush dev eth0
		in_net h$i ip addr add "fd78::$i/64" dev eth0 nodad
		addr[h$i]="[fd78::$i]"
	done
	etcd_here h1
	for i in 2 3; do
		node h$i 2 sh -c "$says; exec c_collectives 3"
	done
	for i in 2 3; do
		finish on_h$i
		has "$out" "rank $((i - 2)) at fd78::$i by \\[fd78::$i\\]:[0-9]+\$"
		has "$out" 'of 2: ok$'
		etcd_quiet
	done
	nothing_in_etcd
}

@test "--local-addr and --interface set where the nodes and the server listen" {
	local i
	mkfifo go
	exec 8<>go
	for i in 2 3; do
		in_net switch ip link add "b_h$i" type veth peer name eth1 \
			netns "${host_pid[h$i]}"
		in_net switch ip link set "b_h$i" master bridge up
		in_net h$i ip addr add "10.79.0.$i/24" dev eth1
		in_net h$i ip link set eth1 up
	done
	etcd_here h1
	node h2 2 --local-addr 10.79.0.2 sh -c "$says; read -r _ <$T/go; exec c_init"
	node h3 2 --interface eth1 sh -c "$says; read -r _ <$T/go; exec c_init"
	for i in 2 3; do
		await on_h$i.out "rank $((i - 2)) at 10.79.0.$i by 10.79.0.$i:[0-9]+\$"
	done
	server_at
	[[ $at == 10.79.0.[23]:* ]]
	printf '\n\n' >&8
	finish on_h2
	finish on_h3
	# an address at which others could not listen
	node h2 2 --local-addr 10.79.0.3 true
	finish on_h2 2
	has "$err" "--local-addr 10.79.0.3 is not an address of this host"
	nothing_in_etcd
}

@test "when the server's host is lost, the spare becomes the server and takes over" {
	local waits='echo "rank $RANK of $WORLD_SIZE"; exec tail -f /dev/null'
	export PET_HEARTBEAT_TIMEOUT=1
	etcd_here h1
	node h2 1:1 --max-restarts 1 sh -c "$waits"
	await on_h2.out 'rank 0 of 1$'
	node h3 1:1 --max-restarts 1 sh -c "$waits"
	await on_h3.err 'waits as a spare'
	server_at
	[[ $at == 10.78.0.2:* ]]
	start_on h2 killer bash -c 'kill -9 -1'
	finish killer -
	finish on_h2 -
	await on_h3.out 'rank 0 of 1$'
	server_at
	[[ $at == 10.78.0.3:* ]]
	signal on_h3 TERM
	finish on_h3 143
	nothing_in_etcd
}

@test "when the server's host of a static job is cut off, all nodes end and report why" {
	local waits='echo "rank $RANK"; exec tail -f /dev/null'
	export PET_HEARTBEAT_TIMEOUT=1 PET_RDZV_CONF=ttl=1,reconnect_timeout=2
	etcd_here h1
	node h2 2 sh -c "$waits"
	await on_h2.err 'waiting .* for 1 of 2 nodes'
	node h3 2 sh -c "$waits"
	await on_h2.out rank
	await on_h3.out rank
	server_at
	[[ $at == 10.78.0.2:* ]]
	cable_cut h2
	finish on_h3 69
	has "$err" "^ddprun: job 'j' failed: node 0 \\(h2\\) was lost"
	finish on_h2 69
	has "$err" 'error: the rendezvous server at .* was lost at [0-9:]+: '
	has "$err" "silent|expired this server's lease"
	nothing_in_etcd
}
