# The web site of the documents, and the pictures of the README.
# covers: docs README.md
load ../lib

tree=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)

@test "each document is in the site's menu, and its links lead somewhere" {
	command -v mkdocs >/dev/null || skip "mkdocs is not installed"
	command -v mandoc >/dev/null || skip "mandoc is not installed"
	local name
	mkdir site
	# --strict: a broken link ends it
	expect 0 python3 "$tree/docs/site.py" "$T/site" "$O/man"
	for name in "$tree"/docs/*.md; do
		[ "$name" = "$tree/docs/README.md" ] ||
			[ -s "site/site/$(basename "$name" .md).html" ]
	done
	grep -q 'href="hangs.html"' site/site/index.html
	grep -q 'ddp_all_reduce' site/site/man/ddp_all_reduce.3.html
	# man pages of other projects have no links
	while read -r name; do
		[ -s "site/site/man/$name" ]
	done < <(grep -ohE 'href="[^":#]+\.html' site/site/man/*.html | cut -c7- |
		grep -v '^\.\./' | sort -u)
	# the search finds a word, and nothing is loaded from elsewhere
	grep -q 'hang-timeout' site/site/search/search_index.json
	! grep -rlE '(src|<link[^>]*href)="https?://' site/site --include='*.html'
}

@test "the README's pictures are there, and are XML without scripts" {
	local picture n=0
	while read -r picture; do
		python3 -c 'import sys, xml.dom.minidom as m
d = m.parse(sys.argv[1])
assert not d.getElementsByTagName("script")' "$tree/$picture"
		n=$((n + 1))
	done < <(grep -oE '\(docs/[^)]*\.svg\)' "$tree/README.md" | tr -d '()')
	[ "$n" = 3 ]
}

@test "the picture of the failure page shows what ddprun prints" {
	/usr/bin/python3 -c 'import pyte' 2>/dev/null || skip "python3-pyte is not installed"
	# without what differs each time, and where the terminal breaks a line
	words() {
		sed 's/<[^>]*>//g' "$1" | tr -d ' \n' |
			sed -E 's/on[^,]*,pid[0-9]+/onHOST/; s/,host[^|]*\|pid[0-9]+//
				s/peakmemory[0-9.]+[KM]iB//; s/ranfor[0-9.]+s//'
	}
	expect 0 /usr/bin/python3 "$tree/docs/pictures/pictures.py" "$O" "$T" failure
	diff <(words failure.svg) <(words "$tree/docs/pictures/failure.svg")
}
