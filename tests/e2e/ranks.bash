# ranks.bash: checks the last lines of the ranks of one job on this machine.
#
#   ranks_ok N CMD...       expects N ranks that all print ok
#   end_fault NAME STATUS   finishes a job in which a rank exited or fell silent
#                           (c_fault); the other ranks' lines are in ${said[rank]}

ranks_ok() {
	local n=$1
	shift
	expect 0 ddprun --standalone --nproc-per-node "$n" "$@"
	[ "$(grep -c ': ok$' <<<"$out")" = "$n" ]
}

declare -gA said

end_fault() {
	local line r
	finish "$1" "$2"
	said=()
	while IFS= read -r line; do
		r=${line#[}
		said[${r%%]*}]=$line
	done < <(grep -E '^\[([0-9]+)\] rank \1: ' <<<"$out")
}
