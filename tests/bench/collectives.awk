# collectives.awk: the table and the goals of collectives.sh, for n ranks, from
# lines "who operation bytes place us wrong".

function median(list,   v, m, i, j, t) {
	m = split(list, v, " ")
	for (i = 2; i <= m; i++)
		for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) {
			t = v[j]; v[j] = v[j - 1]; v[j - 1] = t
		}
	return v[int((m + 1) / 2)]
}

# Its median, or "" where it was not measured.
function us(who, key) {
	return (who, key) in times ? median(times[who, key]) : ""
}

function better_mpi(key,   a, b) {
	a = us("openmpi", key)
	b = us("mpich", key)
	return a == "" || (b != "" && b + 0 < a + 0) ? b : a
}

# Microseconds that the fastest memory would need: each rank writes what it
# gets, which it or another has read; and what little there is goes through a
# shared cache line and back.
function floor_us(op, bytes,   copy, wire) {
	wire = us("floor", "ping-pong 4 out")
	copy = us("floor", "copy " bytes " out")
	if (op == "all_reduce")
		copy *= 2 * (n - 1) / n
	if (op == "all_gather" || op == "reduce_scatter")
		copy *= (n - 1) / n
	if (wire == "" && bytes < 65536)
		return ""
	return copy + 0 > wire + 0 ? copy : wire
}

function bus_factor(op) {
	return op == "all_reduce" ? 2 * (n - 1) / n : \
	       op == "all_gather" || op == "reduce_scatter" ? (n - 1) / n : 1
}

function size_text(bytes) {
	return bytes < 1024 ? bytes " B" : \
	       bytes < 1048576 ? bytes / 1024 " KiB" : bytes / 1048576 " MiB"
}

function cell(who, key,   t) {
	t = us(who, key)
	printf t == "" ? " %9s" : " %9.1f", t == "" ? "-" : t
}

function rate_cells(op, bytes, key,   t, alg) {
	t = us("ours", key)
	if (t == "") {
		printf "%10s %6s %6s %6s ", "-", "-", "-", "-"
		return
	}
	alg = bytes / t / 1000
	printf "%10.2f %6.2f %6.2f %6d ", t, alg, alg * bus_factor(op), \
		wrong[key]
}

function row(name,   part, op, bytes, out, low, peer) {
	split(name, part, " ")
	op = part[1]
	bytes = part[2]
	out = name " out"
	printf "%-14s %11d %11d %6s %6s %4d ", op, bytes, bytes / 4, \
		op == "barrier" ? "none" : "float", \
		op ~ /reduce/ ? "sum" : "none", op == "broadcast" ? 0 : -1
	rate_cells(op, bytes, out)
	rate_cells(op, bytes, name " in")
	cell("openmpi", out)
	cell("mpich", out)
	cell("gloo", out)
	peer = better_mpi(out)
	low = floor_us(op, bytes)
	printf peer == "" ? " %6s" : " %6.2f", \
		peer == "" ? "-" : peer / us("ours", out)
	if (low == "")
		printf " %9s %6s\n", "-", "-"
	else
		printf " %9.2f %6.2f\n", low, us("ours", out) / low
}

# The worst of what is kept in got[], a list of "ratio text".
function note(goal, ratio, text, least) {
	if (!(goal in met)) {
		goals[++ngoals] = goal
		met[goal] = 1
		worst[goal] = ratio
		where[goal] = text
	}
	if (least > 0 ? ratio < worst[goal] : ratio > worst[goal]) {
		worst[goal] = ratio
		where[goal] = text
	}
	if (least > 0 ? ratio < least : ratio > -least) {
		met[goal] = 0
		missed[goal] = missed[goal] " " text sprintf(" (%.2f)", ratio)
	}
}

function judge(name,   part, op, bytes, mine, peer, low, text) {
	split(name, part, " ")
	op = part[1]
	bytes = part[2]
	mine = us("ours", name " out")
	peer = better_mpi(name " out")
	low = floor_us(op, bytes)
	text = op == "barrier" ? "barrier" : size_text(bytes)
	if (peer != "" && op == "all_reduce")
		note("all_reduce, at least 1 x the better MPI", peer / mine, \
			text, 1)
	if (peer != "" && op == "all_reduce" && n == 2 && bytes >= 16777216)
		note("all_reduce from 16 MiB on, at least 1.5 x the better MPI", \
			peer / mine, text, 1.5)
	if (peer != "" && op != "all_reduce")
		note(op ", ahead of the better MPI", peer / mine, text, 1)
	if (n == 2 && op == "all_reduce" && bytes == 4)
		note("all_reduce of 4 B, at most 1.5 x a ping-pong", \
			mine / low, text, -1.5)
	if (op == "all_reduce" && n == 2 && bytes >= 16777216)
		note("all_reduce from 16 MiB on, at most 1.5 x the memory floor", \
			mine / low, text, -1.5)
}

{
	name = $2 " " $3
	key = name " " $4
	times[$1, key] = times[$1, key] " " $5
	if ($1 == "ours") {
		wrong[key] += $6
		if (!(name in seen)) {
			seen[name] = 1
			order[++rows] = name
		}
	}
}

END {
	printf "%74s %29s %33s %17s\n", "out of place           ", \
		"in place          ", "peers, out of place, us    ", \
		"best MPI/     us/"
	printf "%-14s %11s %11s %6s %6s %4s %10s %6s %6s %6s %10s %6s %6s %6s", \
		"#", "size", "count", "type", "redop", "root", "time", \
		"algbw", "busbw", "#wrong", "time", "algbw", "busbw", "#wrong"
	printf "  %9s %9s %9s %6s %9s %6s\n", "Open MPI", "MPICH", "gloo", \
		"ours", "floor us", "floor"
	printf "%-14s %11s %11s %6s %6s %4s %10s %6s %6s %6s %10s %6s %6s %6s\n", \
		"#", "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", \
		"(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", ""
	for (i = 1; i <= rows; i++)
		row(order[i])
	for (i = 1; i <= rows; i++)
		judge(order[i])
	for (i = 1; i <= ngoals; i++) {
		g = goals[i]
		printf "goal: %s: %s; got %.2f at worst, at %s%s\n", g, \
			met[g] ? "met" : "MISSED", worst[g], where[g], \
			met[g] ? "" : "; misses:" missed[g]
	}
}
