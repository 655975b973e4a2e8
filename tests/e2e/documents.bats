# The documents are correct: each block of README, HACKING, docs and the man pages
# runs, and each default in a table is the program's.
# covers: docs README.md HACKING.md launcher/config
load ../lib

tree=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)

@test "every literal block of the documents builds and runs in an empty prefix" {
	[ -z "${SAN:-}" ] || skip "the linker would need the sanitizers"
	make -s -C "$tree" DEPS=0 O="$O" install PREFIX="$T/opt" DESTDIR=/ \
		>make.log 2>&1 || { cat make.log; false; }
	mkdir scratch
	start documents python3 "$tree/tests/documents.py" "$tree" "$O" "$T/opt" \
		"$T/scratch"
	DEADLINE=240 finish documents - || true
	grep '^not ok' <<<"$out" && false
	[ "$status" = 0 ]
	has "$out" '^ok [0-9]+ README.md'
}

# defaults PROGRAM: "--option default" of each option whose help ends with one
defaults() {
	"$1" --help | awk '
	function flush() {
		if (option != "" && match(text, /\([^()]*\)[.]?$/)) {
			value = substr(text, RSTART + 1)
			sub(/[);,].*/, "", value)
			print option, value
		}
	}
	/^  (    |-[a-zA-Z], )--[a-z]/ {
		flush()
		match($0, /--[a-z-]+/)
		option = substr($0, RSTART, RLENGTH)
		text = ""
	}
	/^$/ { flush(); option = "" }
	{ text = text " " $0; gsub(/ +/, " ", text); sub(/ $/, "", text) }
	END { flush() }'
}

@test "each default in the documents' tables matches the program's" {
	{
		defaults ddprun
		defaults ddprdzv
	} | sort -u >defaults
	grep -qx -- '--hello-timeout 5' defaults
	grep -qx -- '--rdzv-timeout 600' defaults
	# | what | `--option` | default | and | `--option X` | meaning (default) |
	awk -F'|' '
	FNR == NR {
		i = index($0, " ")
		is[substr($0, 1, i - 1)] = substr($0, i + 1)
		next
	}
	{ n = 0 }
	match($0, /^\| [^|]*\| `--[a-z-]+` \| [^|]* \|$/) {
		option = $3; value = $4; n = 1
	}
	match($0, /^\| `--[a-z-]+[^|]*\| [^|]*\([^()|]*\) \|$/) {
		option = $2; value = $3
		sub(/.*\(/, "", value); sub(/\).*/, "", value); n = 1
	}
	n {
		gsub(/[` ]/, " ", option); sub(/^ */, "", option)
		sub(/[ ,].*/, "", option)
		gsub(/^ +| +$/, "", value)
		if (value == "an hour") value = 3600
		sub(/ (s|\(.*)$/, "", value) # a unit, or the same in words
		want = option in is ? is[option] : " "
		# one word each: others explain a default, or where to read on
		if ((value want) ~ / /) next
		seen++
		if (value != want) {
			print FILENAME ":" FNR ": " option " is " value \
				", the program says " want
			bad++
		}
	}
	END { print seen " defaults compared"; exit bad || seen < 10 }' \
		defaults "$tree/README.md" "$tree"/docs/*.md
}

@test "each default that ddprdzv prints is in its man page" {
	defaults ddprdzv | while read -r option value; do
		awk -v option="$option" -v value="$value" '
		{ gsub(/\\-/, "-"); sub(/^\.It Fl -/, ".It --") }
		/^\.It / { on = index($0 " ", ".It " option " ") }
		on && (index($0, "(" value) || index($0, value ")") ||
			index($0, "default is " value)) { found = 1 }
		END { exit !found }' "$tree/docs/man/ddprdzv.1" ||
			{ echo "docs/man/ddprdzv.1: $option: no default of $value"; false; }
	done
}

# tried WORD VALUE: tries VALUE as the option or key that LIMITS calls WORD. With two
# nodes: on one, an empty name counts as not given.
tried() {
	local etcd="--rdzv-backend etcd --rdzv-id x --rdzv-endpoint"
	status=0
	case $1 in
	--*) ddprun --dry-run --nnodes 2 "$1" "$2" true ;;
	ttl) ddprun --dry-run $etcd a --rdzv-conf "ttl=$2" true ;;
	esac >/dev/null 2>err || status=$?
}

@test "each limit in ddprun.1 matches the program's" {
	local words text word low high seen=0
	# a line each: options and words | text
	awk '/^\.Sh/ { on = /LIMITS/ }
		on && /^\.It/ { gsub(/\\-/, "-"); sub(/^\.It /, "")
			gsub(/Fl -/, "--"); gsub(/ (Cm|Ev|No|,) /, " ")
			sub(/^Ev /, ""); words = $0; next }
		on && /^[^.]/ { gsub(",", ""); print words "|" $0 }' \
		"$tree/docs/man/ddprun.1" >limits
	while IFS='|' read -r words text; do
		[[ $text =~ ([0-9]+)\ to\ ([0-9]+) ]] || continue
		low=${BASH_REMATCH[1]} high=${BASH_REMATCH[2]}
		for word in ${words/--rdzv-conf ttl/ttl}; do
			case $word in
			DDP_TOKEN | --token-file) continue ;; # e2e/auth.bats
			esac
			for value in $low $high $((low - 1)) $((high + 1)); do
				ok=$((value >= low && value <= high))
				case $text in
				*bytes*) value=$(printf "%${value}s" | tr ' ' x) ;;
				esac
				tried "$word" "$value"
				[ $((status != 2)) = $ok ] || {
					echo "$word $value: exit code $status: $(<err)"
					false
				}
				seen=$((seen + 1))
			done
		done
	done <limits
	[ $seen -ge 24 ]
	tried --heartbeat-timeout 0.1
	[ $status = 0 ]
	tried --heartbeat-timeout 0.09
	[ $status = 2 ]
}

@test "each variable that the programs read is in environment.txt" {
	local name
	# except variables of tests only, and those of every program
	cd "$tree"
	grep -rhoE '\b(getenv|env_[a-z]+)\("[A-Z][A-Z0-9_]+"' --include='*.c' base \
		launcher rendezvous worker-sdk trainers slurm pmi etcd |
		grep -oE '[A-Z][A-Z0-9_]+' | sort -u >"$T/names"
	[ "$(wc -l <"$T/names")" -gt 40 ]
	while read -r name; do
		case $name in
		DDP_TEST_* | PWD | SLURM_TIME_FORMAT) continue ;;
		esac
		grep -qw -- "$name" docs/environment.txt ||
			{ echo "docs/environment.txt: no $name"; false; }
	done <"$T/names"
}
