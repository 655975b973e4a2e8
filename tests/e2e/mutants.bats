# mutants.bats: what a mutant can do to the machine that tests it.
# covers: tests/mutants/inside
load ../lib

setup() {
	lib_setup
	[ "$(id -u)" = 0 ] && unshare --pid --fork --kill-child --mount-proc true 2>"$T/why" ||
		skip "needs root and namespaces: $(cat "$T/why" 2>/dev/null)"
	cat >"$T/bomb" <<-'END'
		import os, signal

		# Each process starts two, up to 1,023. Prints how many there are,
		# and "refused" if a fork failed.
		news, tell = os.pipe()

		def grow(depth):
		    for _ in range(2 * (depth < 9)):
		        try:
		            child = os.fork()
		        except BlockingIOError:
		            os.write(tell, b"-")
		            break
		        if child == 0:
		            os.write(tell, b"+")
		            grow(depth + 1)
		            signal.pause()

		grow(0)
		n, byte = 1, b"+"
		while byte == b"+" and n < 1023:
		    byte = os.read(news, 1)
		    n += byte == b"+"
		print(n, "all" if byte == b"+" else "refused", flush=True)
	END
}

inside() { # [VARIABLE=...]... COMMAND...
	cd "$O" || return # it hides /tmp
	run env "$@"
	[[ $status != 125 ]] || skip "$output"
}

@test "a mutant that forks without end reaches the limit of processes, and is ended" {
	inside PROCESSES=400 "$BATS_TEST_DIRNAME/../mutants/inside" "$O" python3 -c "$(cat "$T/bomb")"
	[ "$status" = 0 ]
	[[ $output == *" refused" ]]
	[ "${output% *}" -le 400 ]
}

@test "without a cgroup, the limit is the namespace's" {
	inside CGROUPS="$T" PROCESSES=400 "$BATS_TEST_DIRNAME/../mutants/inside" "$O" python3 -c "$(cat "$T/bomb")"
	[[ $output == *" refused" ]]
	[ "${output% *}" -le 400 ]
}

@test "without a limit, no mutant runs" {
	printf '#!/bin/sh\necho 6.13.9\n' >"$T/uname"
	chmod +x "$T/uname"
	run env PATH="$T:$PATH" CGROUPS="$T" "$BATS_TEST_DIRNAME/../mutants/inside" "$O" echo ran
	[ "$status" = 125 ]
	[[ $output == *"cannot limit processes"* && $output != *ran* ]]
}
