# covers: etcd rendezvous/journal launcher/membership rendezvous/election
load ../lib
load netns
load etcd

# etcd elects one of a job's servers at a time, and the next one gets everything that
# it has written.

declare -gA in

setup() {
	lib_setup
	hosts_up 3
}

# candidate HOST NAME LEASE [TTL]: on that host; tell NAME LINE is its stdin
candidate() {
	local to
	mkfifo "$T/$2.in"
	start_on "$1" "$2" bash -c 'exec etcd_election "$@" <'"$T/$2.in" bash \
		"$etcd" job "${addr[$1]}:4711" "$3" "${4:-2}"
	exec {to}>"$T/$2.in"
	in[$2]=$to
}

tell() {
	echo "$2" >&"${in[$1]}"
}

hang_up() {
	local to=${in[$1]}
	exec {to}>&-
}

@test "one server leads, and the next one resumes with what it has written" {
	etcd_up 1
	candidate h1 a 11
	await "$T/a.out" '^won$'
	await "$T/a.out" '^loaded$'
	candidate h2 b 22
	await "$T/b.out" "^other ${addr[h1]}:4711\$"
	tell a 'append one'
	await "$T/a.out" '^kept 1$'
	tell a 'append two'
	await "$T/a.out" '^kept 2$'
	signal a KILL
	finish a 137
	await "$T/b.out" '^won$'
	await "$T/b.out" '^loaded$'
	[ "$(grep ^had "$T/b.out")" = $'had one (3)\nhad two (3)' ]
	hang_up b
	finish b
}

@test "a standby takes over at once when the local leader dies" {
	etcd_up 1
	candidate h1 a 11 600
	await "$T/a.out" '^loaded$'
	tell a 'append one'
	await "$T/a.out" '^kept 1$'
	signal a KILL
	finish a 137
	candidate h1 b 11 600
	await "$T/b.out" '^loaded$'
	has "$(<"$T/b.out")" '^had one '
	tell b resign
	finish b
}

@test "a snapshot of any size replaces all records before it" {
	etcd_up 1
	candidate h1 a 11
	await "$T/a.out" '^loaded$'
	tell a 'append one'
	tell a 'fill 5000000'
	tell a 'append two'
	await "$T/a.out" '^kept 3$'
	# the second while the first is on its way
	tell a 'fill 3000000
append lost in the next
snapshot three
append four'
	await "$T/a.out" '^kept 7$'
	tell a resign
	finish a
	candidate h2 b 22
	await "$T/b.out" '^loaded$'
	[ "$(grep ^had "$T/b.out")" = $'had three (5)\nhad four (4)' ]
	tell b 'fill 2500000'
	await "$T/b.out" '^kept 1$'
	tell b resign
	finish b
	candidate h3 c 33
	await "$T/c.out" '^loaded$'
	has "$(<"$T/c.out")" '^had x{40} \(2500000\)$'
	[ "$(grep -c ^had "$T/c.out")" = 1 ]
	tell c remove
	await "$T/c.out" '^kept 1$'
	tell c resign
	finish c
	start_on h1 keys env ETCDCTL_API=3 etcdctl get --prefix / --keys-only \
		--endpoints "${addr[h1]}:2379"
	finish keys
	[ -z "$out" ]
}

# Cut off for longer than its lease: etcd has elected another, and the first may
# not write any more, though it cannot know.
@test "a server that lost its lease to another writes nothing more, and reports it" {
	etcd_up 1
	candidate h2 a 11
	await "$T/a.out" '^loaded$'
	candidate h3 b 22
	await "$T/b.out" '^other '
	cable_cut h2
	tell a 'append too late'
	await "$T/b.out" '^won$'
	await "$T/b.out" '^loaded$'
	finish a
	has "$out" '^lost (another ddprdzv has become|etcd .* expired this server)'
	tell b resign
	finish b
	candidate h1 c 33
	await "$T/c.out" '^loaded$'
	[ -z "$(grep ^had "$T/c.out")" ]
	hang_up c
	finish c
}

@test "a write only succeeds while its writer leads" {
	etcd_up 1
	candidate h1 a 11 600
	await "$T/a.out" '^loaded$'
	candidate h2 b 22 600
	await "$T/b.out" '^other '
	# it writes before it can know
	inside=$(<"/proc/${pid[a]}/task/${pid[a]}/children")
	kill -STOP $inside
	tell a 'append too late'
	start_on h1 gone env ETCDCTL_API=3 etcdctl --endpoints "${addr[h1]}:2379" \
		del /ddprun/job/server
	finish gone
	await "$T/b.out" '^loaded$'
	kill -CONT $inside
	finish a
	has "$out" "^lost (another ddprdzv has become|another process wrote)"
	tell b resign
	finish b
	candidate h3 c 33
	await "$T/c.out" '^loaded$'
	[ -z "$(grep ^had "$T/c.out")" ]
	hang_up c
	finish c
}

@test "servers do not notice the death of an etcd member, even of the member in use" {
	local i
	etcd_up 3
	candidate h1 a 11 6
	await "$T/a.out" '^loaded$'
	tell a 'append one'
	await "$T/a.out" '^kept 1$'
	candidate h2 b 22 6
	await "$T/b.out" '^other '
	signal etcd_h1 KILL
	finish etcd_h1 137
	tell a 'append two'
	await "$T/a.out" '^kept 2$'
	signal a KILL
	finish a 137
	await "$T/b.out" '^loaded$'
	[ "$(grep ^had "$T/b.out")" = $'had one (3)\nhad two (3)' ]
	! grep -q ^lost "$T/b.out"
	hang_up b
	finish b
}

@test "an etcd that is missing is named, with a remedy" {
	hosts_real
	etcd=${addr[h1]}:2379
	candidate h1 a 11
	finish a
	has "$out" "^lost no member of etcd \(${addr[h1]}:2379\) answers: http://${addr[h1]}:2379/v3/kv/range: .*ould(n.t| not) connect"
}
