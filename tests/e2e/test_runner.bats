# test_runner.bats: the program that runs the tests: what it counts, and what RERUN=
# changes.
# covers: tests/run tests/bench/lib.sh
bats_require_minimum_version 1.5.0
load ../lib

# bats takes each line here that begins with @test for a test of this file.
setup() {
	lib_setup
	cd "$BATS_TEST_DIRNAME/../.." || return
	away=$(realpath --relative-to=tests "$BATS_TEST_TMPDIR")
	MARK=$BATS_TEST_TMPDIR/mark
	printf '%s\n' '@''test "fails once" {' '[ -e "$MARK" ] || { : >"$MARK"; false; }' '}' \
		'@''test "passes" {' true '}' >"$BATS_TEST_TMPDIR/once.bats"
	printf '%s\n' '@''test "fails" {' false '}' >"$BATS_TEST_TMPDIR/always.bats"
}

# bats puts the folder of its internal programs first in PATH.
run_tests() { # RERUN=N FILE...
	run env -i PATH="${PATH##*/bats-core:}" O="$O" MARK="$MARK" TEST_JOBS=1 "$1" sh tests/run "${@:2}"
}

@test "without RERUN a file that failed does not run again" {
	run_tests RERUN=0 "$away/once.bats"
	[ "$status" = 1 ]
	[ "${lines[-1]}" = "1 passed, 1 failed, 0 skipped" ]
}

@test "with RERUN a file that fails once passes and is listed as flaky" {
	run_tests RERUN=1 "$away/once.bats"
	[ "$status" = 0 ]
	[ "${lines[-1]}" = "2 passed, 0 failed, 0 skipped" ]
	[[ ${lines[-2]} == "flaky: "*"once.bats failed, and passed"* ]]
	[[ $output == *"not ok 1 fails once"* ]]
}

@test "a file that fails twice has failed" {
	run_tests RERUN=2 "$away/once.bats" "$away/always.bats"
	[ "$status" = 1 ]
	[ "${lines[-1]}" = "2 passed, 1 failed, 0 skipped" ]
}

@test "if more than RERUN files failed, none runs again" {
	run_tests RERUN=1 "$away/once.bats" "$away/always.bats"
	[ "$status" = 1 ]
	[ "${lines[-1]}" = "1 passed, 2 failed, 0 skipped" ]
	[[ $output != *"again, alone"* ]]
}

@test "files that compute and files that wait run side by side, and all are counted" {
	run env -i PATH="${PATH##*/bats-core:}" O="$O" SAN="${SAN:-}" TEST_JOBS=5 sh tests/run \
		unit/worker-sdk/math/test_half.c "$away/always.bats"
	[ "$status" = 1 ]
	[[ $output == *"unit/test_half: "[1-9]*" passed, 0 failed, 0 skipped, "*" s of CPU"* ]]
	[[ ${lines[-1]} == [1-9]*" passed, 1 failed, 0 skipped" ]]
}

# Packages are built in such roots: unshare(2) works there, but no mount is private.
@test "in a plain chroot, tests that need namespaces are skipped" {
	unshare --mount true 2>/dev/null || skip "no namespaces here"
	local root=$BATS_TEST_TMPDIR/root
	mkdir -p "$root"/{usr,etc,dev,proc,tree,build} "$root/tmp"
	cp -P /bin /lib* /sbin "$root" 2>/dev/null || skip "/bin is a folder here"
	run unshare --mount sh -euc '
		for d in usr etc dev proc; do mount --rbind "/$d" "$0/$d"; done
		mount --bind . "$0/tree"
		mount --bind "$O" "$0/build"
		exec chroot "$0" env -i PATH=/usr/sbin:/usr/bin O=/build SAN="${SAN:-}" \
			sh -c "cd /tree && TEST_JOBS=2 exec sh tests/run $*"' \
		"$root" e2e/containers.bats hosts/check_hosts.bats hosts/clocks.bats
	echo "$output"
	[ "$status" = 0 ]
	[[ ${lines[-1]} == *" 0 failed, "*" skipped" ]]
	[[ $output == *": no such namespaces here: -pf"* ]]
	[[ $output == *": needs namespaces, which are not allowed here"* ]]
}

@test "a benchmark leaves out, in one line, an MPI without headers or without mpicc" {
	mkdir "$BATS_TEST_TMPDIR/bin"
	# as Debian's openmpi-bin, which brings mpicc without mpi.h
	printf '#!/bin/sh\nexec cc "$@"\n' >"$BATS_TEST_TMPDIR/bin/mpicc.bare"
	chmod +x "$BATS_TEST_TMPDIR/bin/mpicc.bare"
	run env PATH="$BATS_TEST_TMPDIR/bin:$PATH" O="$O" work="$BATS_TEST_TMPDIR" \
		here=tests/bench sh -euc '. tests/bench/lib.sh
		for mpi in bare none; do
			with_mpi $mpi mpi_start "$work/program" || echo "no $mpi"
		done'
	[ "$status" = 0 ]
	[ "${#lines[@]}" = 4 ]
	[[ ${lines[0]} == "left out: bare, whose mpicc fails (is libbare-dev there?): "*mpi.h* ]]
	[ "${lines[1]}" = "no bare" ]
	[ "${lines[2]}" = "not installed, left out: none (libnone-dev)" ]
	[ "${lines[3]}" = "no none" ]
}

@test "unit tests have more time on a busy machine, and on a slow one" {
	mkdir -p "$BATS_TEST_TMPDIR/tests"
	printf '%s\n' '#!/bin/sh' 'echo "times $CK_TIMEOUT_MULTIPLIER"' 'exit 1' \
		>"$BATS_TEST_TMPDIR/tests/test_limits"
	chmod +x "$BATS_TEST_TMPDIR/tests/test_limits"
	local cpus load slower want
	cpus=$(nproc)
	while read -r load slower want; do
		echo "$load 1/99 1" >"$BATS_TEST_TMPDIR/load"
		run env -i PATH="$PATH" O="$BATS_TEST_TMPDIR" SLOWER="$slower" \
			DDP_TEST_LOADAVG="$BATS_TEST_TMPDIR/load" sh tests/run test_limits
		[ "$status" = 1 ]
		[[ $output == *"times $want"$'\n'* ]]
	done <<-EOF
		0.93 1 1
		$((3 * cpus)).99 1 1
		$((4 * cpus)).00 1 2
		$((12 * cpus)).31 20 80
	EOF
}
