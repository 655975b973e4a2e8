# man3.awk: generates the manual pages of libddp's functions from the comments in ddp.h:
# one page per section, named after its first or its best-known function, and a link to
# it for each other function.
#   awk -v dir=build/man -v version=0.2.0 -f docs/man/man3.awk worker-sdk/ddp.h

function escaped(text)
{
	gsub(/\\/, "\\e", text)
	if (text ~ /^[.']/)
		text = "\\&" text
	return text
}

# Strips the marks of a comment; each line ends with a newline.
function bare(line)
{
	sub(/^\/\* ?/, "", line)
	sub(/ ?\*\/$/, "", line)
	sub(/^ \* ?/, "", line)
	return line
}

# The name of the function that a declaration declares, or nothing.
function function_name(text,   name)
{
	if (text !~ /DDP_API/)
		return ""
	name = text
	sub(/\(.*/, "", name)
	sub(/.*[ *]/, "", name)
	return name
}

function end_page(   i, file)
{
	if (!names)
		return
	file = dir "/" first ".3"
	print ".\\\" Made from ddp.h by docs/man/man3.awk." >file
	print ".Dd " date "\n.Dt " toupper(first) " 3\n.Os ddprun " version >file
	print ".Sh NAME" >file
	print ".Nm " first (names > 1 ? " ," : "") >file
	for (i = 1; i <= names; i++)
		if (name[i] != first)
			print ".Nm " name[i] (++said_names < names - 1 ? " ," : "") >file
	said_names = 0
	print ".Nd " tolower(title) >file
	print ".Sh LIBRARY\nlibddp, worker side of a distributed data-parallel " \
		"job (libddp, \\-lddp)" >file
	print ".Sh SYNOPSIS\n.In ddp.h\n.Bd -literal" >file
	sub(/^\n+/, "", synopsis)
	sub(/\n+$/, "\n", synopsis)
	printf "%s", synopsis >file
	print ".Ed\n.Sh DESCRIPTION" >file
	gsub(/\n\n+/, "\n.Pp\n", about)
	printf "%s", about >file
	print ".Bl -tag -width 4n" >file
	printf "%s", body >file
	print ".El" >file
	if (first != "ddp_last_error")
		print ".Sh RETURN VALUES\nFunctions that can fail return 0 or " \
			"a value on success, and a negative\n.Dv DDP_ERR_*\n" \
			"or \\-errno on failure;\n.Xr ddp_last_error 3\n" \
			"then says what failed, where, and what to do." >file
	print ".Sh SEE ALSO\n.Xr ddprun 1 ,\n.Xr ddp 3" >file
	close(file)
	for (i = 1; i <= names; i++)
		if (name[i] != first)
			system("ln -sf " first ".3 " dir "/" name[i] ".3")
}

function begin_page(heading)
{
	end_page()
	title = heading
	names = 0
	synopsis = about = body = ""
	first = heading == "Collectives" ? "ddp_all_reduce" : ""
}

# A comment without a declaration after it is about the whole section.
function take_comment()
{
	if (comment != "" && !said)
		about = about ".Pp\n" comment
	comment = ""
	said = 0
}

function take_declaration(   fn, text, i, n, line)
{
	fn = function_name(declaration)
	text = declaration
	if (gsub(/DDP_API /, "", text))
		gsub(/\n\t/, "\n", text) # as far as the first line went
	n = split(text, line, "\n")
	for (i = 1; i < n; i++)
		synopsis = synopsis escaped(line[i]) "\n"
	if (fn != "") {
		name[++names] = fn
		if (first == "")
			first = fn
		body = body ".It Fn " fn "\n"
	} else if (comment != "" && match(text, /(struct|enum) [a-z_]+/)) {
		body = body ".It Vt \"" substr(text, RSTART, RLENGTH) "\"\n"
	} else {
		declaration = ""
		return
	}
	if (comment != "") {
		body = body comment
		comment = ""
	}
	declaration = ""
}

/^extern "C"/ { inside = 1; next }
!inside || /^#/ { next }

/^\/\* ---- / {
	take_comment()
	heading = $0
	sub(/^\/\* ---- /, "", heading)
	sub(/ ----.*/, "", heading)
	begin_page(heading)
	if ($0 !~ /\*\/$/)
		in_heading = 1
	next
}
in_heading {
	about = about escaped(bare($0)) "\n"
	if ($0 ~ /\*\/$/)
		in_heading = 0
	next
}
declaration == "" && /^\/\*/ {
	take_comment()
	comment = escaped(bare($0)) "\n"
	in_comment = $0 !~ /\*\/$/
	next
}
in_comment {
	if (bare($0) != "")
		comment = comment escaped(bare($0)) "\n"
	in_comment = $0 !~ /\*\/$/
	next
}
/^$/ {
	if (declaration == "") {
		synopsis = synopsis "\n"
		comment = ""
	}
	next
}
/^}$/ { next }
{
	declaration = declaration $0 "\n"
	if ($0 ~ /^(typedef|DDP_API|struct|enum|  *|\t).*;( *\/\*.*)?$/ && \
	    !($0 ~ /^\t/ && declaration ~ /^(struct|enum)/) || $0 ~ /^};/)
		take_declaration()
}
END { end_page() }
