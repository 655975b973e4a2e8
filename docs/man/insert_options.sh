#!/bin/sh
# Prints the man page $2 with the output of $1, the generator, between its two marks.
set -eu
options=$(mktemp)
trap 'rm -f "$options"' EXIT
"$1" >"$options"
awk -v options="$options" '
/^\.\\" end of the generated options/ { skip = 0 }
!skip
/^\.\\" generated options/ {
	while ((getline line <options) > 0)
		print line
	skip = 1
}' "$2"
