# The completion scripts and the man page, both generated from the table of options.
# covers: launcher/config docs
load ../lib

# complete WORD...: what is offered for the last one
complete_words() {
	COMP_WORDS=("$@")
	COMP_CWORD=$(($# - 1))
	COMPREPLY=()
	_ddprun
	offered="${COMPREPLY[*]}"
}

@test "bash completes options, values and the program" {
	source "$O/completion/ddprun.bash"
	complete_words ddprun --nproc
	[ "$offered" = --nproc-per-node ]
	complete_words ddprun --rdzv-
	[ "$offered" = "--rdzv-endpoint --rdzv-id --rdzv-backend --rdzv-conf --rdzv-timeout" ]
	complete_words ddprun --nproc-per-node ''
	[ "$offered" = "auto cpu gpu" ]
	complete_words ddprun --nproc_per_node g
	[ "$offered" = gpu ]
	# readline hands over --x=v as three words
	complete_words ddprun --start-method =
	[ "$offered" = "spawn fork forkserver" ]
	complete_words ddprun --start-method = fork
	[ "$offered" = "fork forkserver" ]
	complete_words ddprun --standalone -r 3 --cpu-bind e
	[ "$offered" = exclusive ]
	mkdir logs
	touch logfile
	complete_words ddprun --log-dir lo
	[ "$offered" = logs ]
	touch my-trainer
	complete_words ddprun --nnodes = 2 --standalone my-tr
	[ "$offered" = my-trainer ]
	complete_words ddprun dump --no
	[ "$offered" = --no-stacks ]
	complete_words ddprun status --js
	[ "$offered" = --json ]
	complete_words ddprun stat
	[[ " $offered " = *" status "* ]]
	complete_words ddprun dum
	[[ " $offered " = *" dump "* ]]
	complete_words ddprun che
	[[ " $offered " = *" check "* ]]
	complete_words ddprun doct
	[[ " $offered " = *" doctor "* ]]
	complete_words ddprun doctor --hostf
	[ "$offered" = --hostfile ]
	complete_words ddprun install-m
	[ "$offered" = install-mpiexec ]
	complete_words ddprun check full --preflight-j
	[ "$offered" = --preflight-json ]
	# the program's own arguments are not ddprun's
	complete_words ddprun --nnodes 2 my-trainer --nproc
	[ -z "$offered" ]
}

@test "ddprun prints bash's completion script" {
	source "$O/completion/ddprun.bash"
	[ "$(complete -p ddprun)" = "complete -o default -F _ddprun ddprun" ]
}

@test "zsh parses its completion script" {
	command -v zsh >/dev/null || skip "zsh is not installed"
	zsh -n "$O/completion/_ddprun"
}

@test "fish completes commands, options and values" {
	command -v fish >/dev/null || skip "fish is not installed"
	# offered LINE: the words that fish offers for it, without descriptions
	offered() {
		HOME=$T fish --no-config -c 'source $argv[1]; complete -C $argv[2]' \
			"$O/completion/ddprun.fish" "$1" 2>fish.err | cut -f 1
		[ ! -s fish.err ]
	}
	[ "$(offered 'ddprun --nproc-per-node c')" = cpu ]
	[ "$(offered 'ddprun status --js')" = --json ]
	[ "$(offered 'ddprun doctor --hostf')" = --hostfile ]
	[ -z "$(offered 'ddprun dump --nnod')" ]
	offered 'ddprun doc' | grep -x doctor
}

@test "each option is in everything that is generated from the table" {
	local option options
	options=$(ddprun --help | grep -oE '^ +(-[a-z], )?--[a-z-]+' |
		grep -oE -e '--[a-z-]+')
	[ "$(wc -l <<<"$options")" -gt 40 ]
	for option in $options; do
		grep -qF -e "$option " "$O/completion/ddprun.bash"
		grep -qE -e "$option[]=[}]" "$O/completion/_ddprun"
		grep -qE -e " -l ${option#--} " "$O/completion/ddprun.fish"
		"$O/generate" | sed 's/\\//g' |
			grep -qE -e "^\\.It (Fl [a-z] , )?Fl ${option#-}( |\$)"
	done
}
