# outage_hosts.bats: the network between two hosts drops all packets for nine tenths
# of the heartbeat timeout, and the job notices nothing.
# covers: launcher/membership rendezvous/client
load ../lib
load netns

setup() {
	lib_setup
	hosts_up 2
	hosts_real
	mkfifo go1 go2
	worker="echo up \$RANK of \$WORLD_SIZE
		read -r _ <$T/go\$((GROUP_RANK + 1)); echo down \$RANK"
}

# network up|down: of the switch; the hosts' cables are in all the while
network() {
	in_net switch ip link set bridge "$1"
}

job() {
	start_on "$1" "on_$1" env DDP_LOG=debug ddprun --rdzv-endpoint \
		"${addr[h1]}:29400" --heartbeat-timeout 10 "${@:2}" bash -c "$worker"
}

# h2's ddprun counts the time, of which 20 are its lease.
outage() {
	await on_h1.out 'up . of 2'
	await on_h2.out 'up . of 2'
	network down
	await on_h2.err '18 of 20 consecutive pings are unanswered' 30
	network up
	await on_h2.err 'connecting again'
	await on_h2.err 'answers again'
}

goes_on() {
	echo >go1 &
	echo >go2 &
	finish on_h1 0
	lacks "$err" 'lost|regroup'
	finish on_h2 0
	has "$out" 'down'
	lacks "$err" 'error|lost|regroup|warning'
}

@test "an outage of nine tenths of the heartbeat timeout is not noticed" {
	job h1 --nnodes 2
	job h2 --nnodes 2
	outage
	goes_on
}

@test "an elastic job does not regroup for an outage below the heartbeat timeout" {
	job h1 --nnodes 1:2 --node-rank 0
	job h2 --nnodes 1:2 --node-rank 1
	outage
	goes_on
}

mac_of() {
	in_net "$1" ip -o link show eth0 | grep -oP 'ether \K[0-9a-f:]+'
}

# neighbour HOST OTHER MAC: where HOST sends its packets for OTHER.
neighbour() {
	in_net "$1" ip neigh replace "${addr[$2]}" lladdr "$3" dev eth0 nud permanent
}

# The bytes that h2 has received from h1.
received_by_h2() {
	in_net h2 ss -Htni state established dst "${addr[h1]}" |
		grep -oP 'bytes_received:\K[0-9]+' | awk '{ n += $1 } END { print n + 0 }'
}

# Only what h2 sends is lost. A request to dump the job arrives there, so h2's ddprun
# hears the server, and the server not it; TCP's next try would come after the lease.
@test "an outage of one direction is not noticed, though the server is heard meanwhile" {
	local before
	job h1 --nnodes 2 --heartbeat-timeout 40
	job h2 --nnodes 2 --heartbeat-timeout 40
	await on_h1.out 'up . of 2'
	await on_h2.out 'up . of 2'
	neighbour h1 h2 "$(mac_of h2)" # it needs no ARP to find h2
	# between two pings: all that the server has sent is acknowledged, else its TCP
	# would send nothing new
	until in_net h2 ss -Htni state established dst "${addr[h1]}" |
		grep -qE 'lastrcv:[1-9][0-9]{2} '; do :; done
	neighbour h2 h1 02:00:00:00:00:01
	await on_h2.err '17 of 20 consecutive pings are unanswered' 60
	before=$(received_by_h2)
	start_on h1 dump ddprun dump --rdzv-endpoint "${addr[h1]}:29400"
	until [ "$(received_by_h2)" -gt "$before" ]; do kill -0 "${pid[dump]}"; done
	neighbour h2 h1 "$(mac_of h1)"
	await on_h2.err 'answers again'
	finish dump -
	goes_on
}
