# covers: worker-sdk/tcp worker-sdk/comm worker-sdk/api
load ../lib
load netns

# libddp on three hosts with separate addresses, two ranks on each: shared memory
# within a host, TCP between them.

setup() {
	lib_setup
	hosts_up 3
}

on_all() { # CMD...: on the three hosts at once
	local h
	for h in h1 h2 h3; do
		start_on $h on_$h ddprun --nnodes 3 --nproc-per-node 2 \
			--rdzv-endpoint "${at[h1]}:29400" "$@"
	done
}

@test "every collective works over three hosts" {
	local h
	on_all c_collectives 40000
	for h in h1 h2 h3; do
		finish on_$h
		[ "$(grep -c ': ok$' <<<"$out")" = 2 ]
	done
}

@test "hosts relay gathered values to each other in large worlds" {
	local h
	on_all sh -c 'c_share && DDP_TEST_SHARE=1 c_collectives 1000'
	for h in h1 h2 h3; do
		finish on_$h
		[ "$(grep -c ': ok$' <<<"$out")" = 4 ]
	done
}

@test "each address counts as a host with a leader" {
	hosts_real
	on_all c_init
	finish on_h1
	[ "$(grep -c 'node 0 of 3, .*leader 0$' <<<"$out")" = 2 ]
	finish on_h2
	[ "$(grep -c 'leader 2$' <<<"$out")" = 2 ]
	finish on_h3
	[ "$(grep -c 'leader 4$' <<<"$out")" = 2 ]
}

@test "a rank killed in all_reduce is named on every host" {
	local h
	on_all c_fault kill 3
	for h in h1 h2 h3; do
		finish on_$h 137
		has "$out" "rank [0-5]: -20004 in .*: all_reduce #3 .*rank 3 .* was killed by signal 9"
	done
}

# No packet of h2 arrives any more, without notice: only a timeout shows it. The lease
# is longer, so that the agents do not find out first.
@test "a host that is cut off is named after the timeout, on both sides" {
	local h
	hosts_real
	for h in h1 h2; do
		start_on $h on_$h ddprun --nnodes 2 --nproc-per-node 1 \
			--rdzv-endpoint "${at[h1]}:29400" \
			--heartbeat-timeout 60 c_fault on 0 1000
	done
	await "$T/on_h1.out" 'rank 0 goes on' 20
	await "$T/on_h2.out" 'rank 1 goes on' 20
	cable_cut h2
	await "$T/on_h1.out" 'rank 0: -20006 in .*: all_reduce #.*no data from rank 1 on h2 for 2\.' 30
	await "$T/on_h2.out" 'rank 1: -20006 in .*: all_reduce #.*no data from rank 0 on h1 for 2\.' 30
	cable_heal h2
	finish on_h1 -
	finish on_h2 -
	[ "$status" != 0 ]
}

# For h2, h1 has two addresses, and nothing listens at the first.
@test "a rank tries the next address if one refuses" {
	local hosts
	hosts_real
	hosts=$(<"$T/etc_hosts.h2")
	# in place: the host has this very file
	printf '%s h1\n%s\n' "${addr[h2]}" "$hosts" >"$T/etc_hosts.h2"
	start_on h2 look getent ahosts h1
	finish look
	[ "$(awk '$2 == "STREAM" { print $1 }' <<<"$out" | xargs)" = "${addr[h2]} ${addr[h1]}" ]
	start_on h1 on_h1 ddprun --nnodes 2 --nproc-per-node 1 --local-addr h1 \
		--rdzv-endpoint "${addr[h1]}:29400" c_collectives 1000
	start_on h2 on_h2 ddprun --nnodes 2 --nproc-per-node 1 \
		--rdzv-endpoint "${addr[h1]}:29400" c_collectives 1000
	finish on_h1
	finish on_h2
	[ "$(grep -c ': ok$' <<<"$out")" = 1 ]
}

# The kernel of h3 looks for h2 while h2 does not answer. Everybody who asks meanwhile
# gets "No route to host" when that search ends, even though h2 answers again.
@test "a search for a host that began while it was cut off does not fail ddp_init" {
	local h other
	hosts_real
	for h in h1 h2 h3; do
		for other in h1 h2 h3; do
			case $h$other in h1h1 | h2h2 | h3h3 | h3h2) continue ;; esac
			in_net $h ip neigh replace "${addr[$other]}" dev eth0 nud permanent \
				lladdr "$(in_net $other ip -o link show eth0 |
					sed 's|.*link/ether ||; s| .*||')"
		done
	done
	in_net h3 sysctl -qw net.ipv4.neigh.eth0.mcast_solicit=1 \
		net.ipv4.neigh.eth0.retrans_time_ms=3000
	cable_cut h2
	start_on h3 looks bash -c ": </dev/tcp/${addr[h2]}/9"
	until [[ $(in_net h3 ip neigh show "${addr[h2]}") == *INCOMPLETE* ]]; do :; done
	cable_heal h2
	on_all c_collectives 1000
	finish looks 1
	has "$err" 'No route to host'
	for h in h1 h2 h3; do
		finish on_$h
	done
}
