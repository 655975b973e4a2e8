# covers: docs worker-sdk/api
load ../lib

# docs/write-your-own.md: its pieces form the program, and that does what the page
# says.

root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
program=$O/examples/in_the_circle

# ddprun of N ranks
job() {
	local n=$1
	shift
	"$DDPRUN" --standalone --nproc-per-node "$n" "$@"
}

@test "the tutorial's pieces form the program, in 80 lines" {
	awk '/^```c$/ { if (n++) print ""; on = 1; next }
		/^```$/ { on = 0 } on' "$root/docs/write-your-own.md" >shown.c
	cmp shown.c "$root/worker-sdk/examples/in_the_circle.c"
	[ "$(wc -l <shown.c)" -le 80 ]
}

@test "the tutorial's first program builds, and prints its rank" {
	[ -z "${SAN:-}" ] || skip "the linker would need the sanitizers"
	sed -n '/^    #include/,/^    }$/s/^    //p' \
		"$root/docs/write-your-own.md" >hello.c
	${CC:-gcc} -std=c11 -Wall -Wextra -Werror -I"$root/worker-sdk" \
		-o hello hello.c "$O/libddp.a" -lz -lpthread -ldl
	expect 0 ./hello
	[ "$out" = "rank 0 of 1" ]
	expect 0 job 2 ./hello
	[ "$(sort <<<"$out")" = $'[0] rank 0 of 2\n[1] rank 1 of 2' ]
}

@test "1, 2 and 4 ranks learn alike, and as well as the tutorial says" {
	local n
	sed -n 's/^    \(\[0\] epoch [1-4]: .*\)/\1/p' \
		"$root/docs/write-your-own.md" >said
	[ "$(wc -l <said)" = 4 ]
	for n in 1 2 4; do
		expect 0 job $n "$program" $n.ckpt 4
		cmp said <<<"$out"
	done
	expect 0 "$program" alone.ckpt
	has "$out" '^epoch 10: 999 of 1001$'
}

@test "another number of ranks resumes from the checkpoint" {
	expect 0 job 2 "$program" two 4
	expect 0 job 4 "$program" two 6
	[ "$out" = $'[0] epoch 5: 996 of 1001\n[0] epoch 6: 994 of 1001' ]
	expect 0 job 2 "$program" two 6
	[ -z "$out" ]
}

@test "SIGTERM to one rank stops all of them, and the next run resumes" {
	local last
	start job "$DDPRUN" --standalone --nproc-per-node 2 \
		sh -c 'echo $$ >pid.$RANK; exec "$@"' sh "$program" stopped 100000000
	await job.out 'epoch 2:'
	kill "$(<pid.1)"
	finish job 143
	last=$(sed -n '$s/.*epoch \([0-9]*\):.*/\1/p' <<<"$out")
	expect 0 job 2 "$program" stopped $((last + 1))
	has "$out" "^\[0\] epoch $((last + 1)): [0-9]* of 1001\$"
	[ "$(wc -l <<<"$out")" = 1 ]
}

@test "when a rank is killed, all restart from the checkpoint" {
	# the second time one epoch would do: there are more already
	cat >worker <<-'END'
	echo $$ >pid.$RANK.$TORCHELASTIC_RESTART_COUNT
	[ $TORCHELASTIC_RESTART_COUNT = 0 ] && exec "$1" killed 100000000
	exec "$1" killed 1
	END
	start job "$DDPRUN" --standalone --nproc-per-node 2 --max-restarts 1 \
		sh worker "$program"
	await job.out 'epoch 3:'
	kill -9 "$(<pid.1.0)"
	finish job
	[ -s pid.0.1 ]
	[ "$(grep -c 'epoch 1:' <<<"$out")" = 1 ]
}

@test "a checkpoint that is damaged, or cannot be written, is an error" {
	echo none >damaged
	expect 1 job 2 "$program" damaged
	has "$err" 'damaged'
	expect 1 job 2 "$program" nowhere/a
	has "$err" 'cannot write checkpoint nowhere/a'
}
