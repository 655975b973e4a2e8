# netns.bash: hosts h1..hN on one machine, each with its own address, name,
# processes and /dev/shm, on a bridge that can be cut. Load it after ../lib; it
# knows nothing about ddprun.
#
#   hosts_up N          starts N hosts, which end with the test. If the kernel does
#                       not allow namespaces, it prints that, and the hosts are only
#                       addresses of loopback, which no other test has:
#                       127.X.Y.11, 127.X.Y.12, ...
#   hosts_real          skips the test in that case
#   ${addr[h1]}         its address; ${at[h1]}: its name for others (h1)
#   start_on H NAME CMD...   start, on H, with a DDP_CACHE of its own
#   own_name H ADDRESS  sets the address of H's own name in its /etc/hosts
#   cable_cut H         pulls its cable; cable_heal H plugs it in again
#
# Programs on a host have the same PATH, environment and files as the test.

declare -gA addr at host_pid

# Starts a host, which prints the pid of its init. It does not count as a leftover: it
# ends with the test's shell.
host_begin() {
	start "$1" env -u TEST_COOKIE host up "$1" "$T/etc_hosts.$1"
}

# The same; the pid is in $line.
host_start() {
	host_begin "$1"
	await "$T/$1.out" . 20
}

hosts_up() {
	local n=$1 i why links net
	net=127.$((10 + RANDOM % 240)).$((1 + RANDOM % 250))
	for ((i = 1; i <= n; i++)); do
		addr[h$i]=$net.1$i at[h$i]=$net.1$i
	done
	echo '127.0.0.1 localhost' >"$T/etc_hosts.switch"
	why=
	if [ "$(id -u)" != 0 ]; then
		why='not root'
	elif ! command -v ip >/dev/null; then
		why='no ip command'
	elif ! host_start switch >/dev/null; then
		why=$(head -n 1 "$T/switch.err")
		unset "pid[switch]"
	fi
	if [ -n "$why" ]; then
		echo "# no namespaces here ($why): hosts are addresses of loopback" >&3
		HOSTS=loopback
		return 0
	fi
	HOSTS=namespaces
	host_pid[switch]=$line
	for ((i = 1; i <= n; i++)); do
		addr[h$i]=10.78.0.$i at[h$i]=h$i
		echo "10.78.0.$i h$i" >>"$T/etc_hosts.switch"
	done
	for ((i = 1; i <= n; i++)); do
		cp "$T/etc_hosts.switch" "$T/etc_hosts.h$i"
		host_begin "h$i"
	done
	links='link add bridge type bridge stp_state 0 forward_delay 0
link set bridge up'
	for ((i = 1; i <= n; i++)); do
		await "$T/h$i.out" . 20
		host_pid[h$i]=$line
		links+="
link add to_h$i type veth peer name eth0 netns $line
link set to_h$i master bridge up"
	done
	in_net switch ip -batch - <<<"$links"
	for ((i = 1; i <= n; i++)); do
		in_net "h$i" ip -batch - <<<"addr add 10.78.0.$i/24 dev eth0
link set eth0 up"
	done
}

hosts_real() {
	[ "$HOSTS" = namespaces ] || skip "needs namespaces, which are not allowed here"
}

in_net() {
	nsenter --net="/proc/${host_pid[$1]}/ns/net" "${@:2}"
}

start_on() {
	local h=$1 name=$2
	shift 2
	if [ "$HOSTS" = namespaces ]; then
		start "$name" env DDP_CACHE="$T/cache.$h" host exec \
			"${host_pid[$h]}" "$@"
	else
		start "$name" env DDP_CACHE="$T/cache.$h" "$@"
	fi
}

own_name() {
	local text
	# written in place: this file is mounted as the host's /etc/hosts
	text=$(sed "s/^.* $1\$/$2 $1/" "$T/etc_hosts.$1")
	echo "$text" >"$T/etc_hosts.$1"
}

cable_cut() {
	in_net switch ip link set "to_$1" down
}

cable_heal() {
	in_net switch ip link set "to_$1" up
}
