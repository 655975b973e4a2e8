# vouch.sh: the cost of vouching for each connection to PyTorch's store: connect, PING,
# reply, with and without --store-open, in turns; on this host as it is, and with
# 10,000 more sockets.

vouch_one() { # NAME OPTION...
	name=$1
	shift
	"$O/ddprun" --standalone "$@" "$O/tests/w_knock" time 1000 2>/dev/null \
		</dev/null | sed -n 's/^\[0\] //p' >>"$work/vouch.$name"
}

vouch_rounds() { # NAME
	r=0
	while [ $r -lt "$ROUNDS" ]; do
		vouch_one "$1.with"
		vouch_one "$1.open" --store-open
		r=$((r + 1))
	done
	with=$(median <"$work/vouch.$1.with")
	open=$(median <"$work/vouch.$1.open")
	echo "$2: $with us a connection, $open us with --store-open:" \
		"$(awk -v a="$with" -v b="$open" \
			'BEGIN { printf "%.1f us", a - b }') for the voucher"
}

bench_vouch() {
	say "vouchers for PyTorch's clients: connect and PING on loopback, medians" \
		"of $ROUNDS times 1000; load average" \
		"$(cut -d' ' -f1 /proc/loadavg)"
	vouch_rounds few "this host's sockets"
	mkfifo "$work/hold" "$work/there"
	"$O/bench/bench_sockets" 10000 <"$work/hold" >"$work/there" &
	exec 9>"$work/hold"
	if read -r _ <"$work/there"; then
		vouch_rounds many "10000 sockets more"
	fi
	exec 9>&-
	wait $!
}
bench_vouch
