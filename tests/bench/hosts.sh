# hosts.sh: collectives over two hosts (namespaces, one cable between them), two
# ranks on each, beside Open MPI over TCP.
. "$here/two_hosts.sh"

host_row() {
	sed -n "s|^\(\[0\] \)*$2 $3 out \([0-9.]*\) 0\$|\2|p" >>"$work/hosts.$1"
}

# Open MPI starts its daemon on the other host through this, as through ssh. It
# must see both hosts, so its processes have their networks and names only. All
# share the CPUs, which it cannot know: it is told to yield while it waits.
write_agent() {
	cat >"$work/agent" <<END
#!/bin/sh
shift
exec nsenter --net=/proc/$pid_b2/ns/net --uts=/proc/$pid_b2/ns/uts sh -c "\$*"
END
	chmod +x "$work/agent"
}

mpi_hosts() {
	nsenter --net="/proc/$pid_b1/ns/net" --uts="/proc/$pid_b1/ns/uts" \
		timeout -k 1 120 mpirun.openmpi \
		--host 10.79.0.1:2,10.79.0.2:2 --bind-to none \
		--mca plm_rsh_agent "$work/agent" \
		--mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 \
		--mca btl tcp,self,vader --mca mpi_yield_when_idle 1 -n 4 "$@" </dev/null
}

host_rounds() {
	r=0
	while [ $r -lt "$ROUNDS" ]; do
		for row in 'all_reduce 4' 'all_reduce 1048576' \
			'all_reduce 67108864'; do
			set -- $row
			both_hosts 2 "$O/tests/bench_collectives" $row \
				2>"$work/hosts.err" |
				host_row "ours.$2" $row
			DDP_ENCRYPT_DATA=1 both_hosts 2 \
				"$O/tests/bench_collectives" $row \
				2>"$work/hosts.err" |
				host_row "encrypted.$2" $row
			[ ! -x "$work/hosts_openmpi" ] ||
				mpi_hosts "$work/hosts_openmpi" $row \
					2>"$work/hosts.err" |
				host_row "openmpi.$2" $row
		done
		r=$((r + 1))
	done
}

host_table() {
	say "two hosts, two ranks each, a veth between them, $(nproc) CPUs in all;" \
		"medians of $ROUNDS rounds;" \
		"load average $(cut -d' ' -f1 /proc/loadavg)"
	for bytes in 4 1048576 67108864; do
		[ -s "$work/hosts.ours.$bytes" ] || continue
		a=$(median <"$work/hosts.ours.$bytes") b=
		[ ! -s "$work/hosts.openmpi.$bytes" ] ||
			b=$(median <"$work/hosts.openmpi.$bytes")
		printf 'all_reduce %10d B %12.1f us' "$bytes" "$a"
		[ -z "$b" ] || printf '   Open MPI %12.1f us   Open MPI/ours %s' \
			"$b" "$(ratio "$b" "$a")"
		[ "$bytes" != 67108864 ] || printf '   goal: 1.2'
		[ ! -s "$work/hosts.encrypted.$bytes" ] || {
			b=$(median <"$work/hosts.encrypted.$bytes")
			printf '   --encrypt-data %12.1f us, %s of plain' \
				"$b" "$(ratio "$b" "$a")"
		}
		echo
	done
}

bench_hosts() {
	two_hosts_up || return 0
	with_mpi openmpi bench_collectives "$work/hosts_openmpi" || true
	write_agent
	host_rounds
	host_table
	two_hosts_down
}
bench_hosts
