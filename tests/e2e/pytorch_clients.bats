# pytorch_clients.bats: training loops as users of PyTorch write them, under ddprun, with
# --preload and under torchrun: the losses are the same numbers. What is not installed
# for DDP_TEST_PYTHON (python3) is skipped.
# covers: launcher/plan launcher/preload rendezvous/torch
bats_require_minimum_version 1.5.0
load ../lib
load ../clients

@test "a loop of accelerate" {
	need accelerate
	same_losses 12 "$clients/accelerate_loop.py"
}

@test "a GPT as nanoGPT trains it" {
	same_losses 6 "$clients/gpt.py" state 6
}

@test "a GPT as minGPT's distributed example trains it, which continues from its snapshot" {
	local whole
	same_losses 4 "$clients/trainer_gpt.py" state 4
	whole=$(losses)
	rm state
	expect 0 ddprun --standalone --nproc-per-node 2 "$clients/trainer_gpt.py" state 2
	[ "$(losses)" = "$(head -n 2 <<<"$whole")" ]
	expect 0 ddprun --standalone --nproc-per-node 2 --preload auto \
		"$clients/trainer_gpt.py" state 4
	[ "$(losses)" = "$(tail -n 2 <<<"$whole")" ]
}

@test "a GPT that is restarted from its checkpoint has the losses of an undisturbed run" {
	local whole victim
	expect 0 ddprun --standalone --nproc-per-node 2 "$clients/gpt.py" whole 8
	whole=$(losses)
	start job ddprun --standalone --nproc-per-node 2 --max-restarts 1 \
		--preload torch "$clients/gpt.py" state 8 wait
	await job.out '^\[0\] waits' 200
	await job.out '^\[1\] waits' 200
	await job.out '^\[1\] start at step 0 pid [0-9]+'
	victim=${line##* }
	kill -KILL "$victim"
	finish job
	has "$out" '^\[0\] start at step 4 '
	has "$err" 'restarting \(1 of 1\): rank 1 .*SIGKILL'
	[ "$(losses)" = "$whole" ]
}

@test "the script of docs/pytorch.md stops at SIGTERM, and continues from its checkpoint" {
	local victim
	sed -n '/^```python$/,/^```$/{/^```/!p}' \
		"$BATS_TEST_DIRNAME/../../docs/pytorch.md" >whole.py
	# it prints where it is, and stays there
	sed -e 's/^STEPS, SAVE_EVERY = .*/STEPS, SAVE_EVERY = 10 ** 9, 50/' \
		-e 's/^    dist\.all_reduce(torch\.zeros(1)) .*/&\
    print("saved", step, "pid", os.getpid(), flush=True)/' whole.py >train.py
	local job=(ddprun --standalone --nproc-per-node 2 --max-restarts 1 --preload auto)
	start job "${job[@]}" train.py
	await job.out '^\[1\] saved 100 pid [0-9]+' 200
	victim=${line##* }
	kill -KILL "$victim"
	await job.out '^\[0\] continuing at step [0-9]*[05]0$' 200
	signal job TERM
	finish job 143
	has "$err" 'restarting \(1 of 1\): rank 1 .*SIGKILL'
	lacks "$err" 'without a fork'
	[ ! -e state.pt.new ]
	# in any step, not only where it saves
	start again "${job[@]}" train.py
	await again.out '^\[0\] continuing at step [0-9]+$' 200
	await again.out '^\[0\] saved [0-9]+'
	signal again TERM
	finish again 143
	# to the end, as in the document
	rm state.pt
	expect 0 "${job[@]}" whole.py
	[ "$out" = "$(printf '[0] saved at step %s\n' 50 100)" ]
	expect 0 "${job[@]}" whole.py
	has "$out" '^\[0\] continuing at step 100$'
}

@test "rank 3 of docs/pytorch.md fails once, and the job goes on from its checkpoint" {
	local document="$BATS_TEST_DIRNAME/../../docs/pytorch.md"
	sed -n '/^```python$/,/^```$/{/^```/!p}' "$document" >whole.py
	sed -n '/^    if step == 70/,/raise/p' "$document" >fails.txt
	sed '/^    optimizer\.step()$/r fails.txt' whole.py >train.py
	expect 0 ddprun --standalone --nproc-per-node 4 --max-restarts 1 --preload auto train.py
	[ "$out" = "$(printf '[0] %s\n' 'saved at step 50' 'continuing at step 50' \
		'saved at step 100')" ]
	# the line of the document, but for host and pid
	grep '^ddprun: restarting' "$document" >shown.txt
	diff <(sed -E 's/on [^,]+, pid [0-9]+//' shown.txt) \
		<(grep restarting <<<"$err" | sed -E 's/on [^,]+, pid [0-9]+//')
}
