# ranks.bash: what the ranks of one job on this machine say at its end.
#
#   ranks_ok N CMD...       N ranks all print ok
#   end_fault NAME STATUS   finish one in which a rank went or fell silent
#                           (c_fault); each other's line, by rank, is in
#                           ${said[rank]}

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
