/* page.js: asks the server once a second for its state and draws it. Text from
 * jobs is never parsed as HTML: it only gets to the page as textContent. */
"use strict";

const POLL_MS = 1000, HIDDEN_MS = 5000, RETRY_MS = 3000;
const SAMPLES = 600; /* of the plots, one a poll */
const ROWS = 256;    /* at most, in a table */
const ODD_ROWS = 20;
const QUIET_S = 30, SLOW_PERCENT = 20; /* as in `ddprun top` */

const byId = (id) => document.getElementById(id);

const page = {
	state: null,    /* the server's last reply */
	tag: null,      /* its ETag */
	job: null,      /* the name of the shown job */
	chosen: 0,      /* rank */
	ranks: [],      /* those of the job, with health and host */
	samples: [],    /* of this job: rates and waits */
	grid: null,     /* the geometry of the canvas */
	failures: 0,
	timer: 0,
	dump: 0,        /* the number of the open dump; 0: none */
	output: null,   /* the job and rank whose lines are shown */
};

const HEALTH = [
	["works", "working"],
	["waits", "waiting in a collective"],
	["starts", "starting or sleeping"],
	["slow", "slow: the others wait for it"],
	["quiet", "without progress for 30 s, or stopped"],
	["unknown", "unknown"],
];

/* ---- text ---- */

/* Control characters, and those that change the direction of text, become
 * visible: a name cannot look like another one. */
function clean(text) {
	return String(text ?? "").replace(
		/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
		(c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}

function set(node, text) {
	text = clean(text);
	if (node.textContent !== text)
		node.textContent = text;
}

function show(node, text) {
	node.hidden = !text;
	set(node, text ?? "");
}

function make(tag, text, kind) {
	const node = document.createElement(tag);
	if (text !== undefined)
		node.textContent = clean(text);
	if (kind)
		node.className = kind;
	return node;
}

const count = (n, word) => n + " " + word + (n === 1 ? "" : "s");

function duration(s) {
	if (s < 10)
		return s.toFixed(1) + " s";
	if (s < 120)
		return Math.round(s) + " s";
	if (s < 7200)
		return Math.round(s / 60) + " min";
	return (s / 3600).toFixed(1) + " h";
}

/* ---- the server's state ---- */

function shownJob() {
	const all = page.state?.status?.jobs;
	return all && all.length ? all[0] : null;
}

/* Nothing shows the progress of programs that report no steps and make no calls
 * that ddprun sees. */
function haveProgress(ranks) {
	return ranks.some((r) => r.step !== null || r.call ||
		r.collective_percent !== null);
}

function healthOf(rank, slowest, limit) {
	if (rank.does === "stopped" || rank.progress_seconds >= limit)
		return "quiet";
	if (rank.rank === slowest)
		return "slow";
	if (rank.does === "in_call" || rank.does === "blocked")
		return "waits";
	return rank.does === "starts" || rank.does === "sleeps" ? "starts"
								: "works";
}

/* The rank that waits least in collectives, if the others wait much longer. */
function findSlowest(ranks) {
	const waits = ranks.filter((r) => r.collective_percent !== null);
	if (waits.length < 2)
		return -1;
	waits.sort((a, b) => a.collective_percent - b.collective_percent);
	const median = waits[1 + Math.floor((waits.length - 2) / 2)];
	return median.collective_percent - waits[0].collective_percent >
		SLOW_PERCENT ? waits[0].rank : -1;
}

/* All ranks of the round by number; those that no agent has reported are
 * unknown. */
function makeRanks(job) {
	const ranks = [], slowest = findSlowest(job.ranks);
	const limit = haveProgress(job.ranks) ? QUIET_S : Infinity;
	for (let i = 0; i < job.world_size; i++)
		ranks.push({rank: i, health: "unknown", host: "", node: null});
	for (const node of job.nodes) {
		if (node.first_rank === null)
			continue;
		for (let i = 0; i < node.workers; i++) {
			const rank = ranks[node.first_rank + i];
			if (rank) {
				rank.host = node.host;
				rank.node = node.node_rank;
			}
		}
	}
	for (const r of job.ranks)
		if (ranks[r.rank])
			Object.assign(ranks[r.rank], r,
				      {health: healthOf(r, slowest, limit)});
	return ranks;
}

function addSample(job) {
	const rates = job.ranks.map((r) => r.steps_per_second)
		.filter((x) => x !== null).sort((a, b) => a - b);
	const waits = job.ranks.map((r) => r.collective_percent)
		.filter((x) => x !== null).sort((a, b) => a - b);
	const middle = (list) => list.length
		? list[Math.floor(list.length / 2)] : null;
	page.samples.push({
		rate: middle(rates), slowest: rates[0] ?? null,
		wait: middle(waits), least: waits[0] ?? null,
	});
	if (page.samples.length > SAMPLES)
		page.samples.shift();
}

/* ---- drawing ---- */

function drawJobs() {
	const list = byId("jobs"), jobs = page.state.jobs;
	while (list.children.length > jobs.length)
		list.lastChild.remove();
	while (list.children.length < jobs.length) {
		const button = make("button");
		button.type = "button";
		button.append(make("span"), make("small"));
		button.addEventListener("click", () =>
			chooseJob(button.jobName));
		const item = make("li");
		item.append(button);
		list.append(item);
	}
	jobs.forEach((job, i) => {
		const button = list.children[i].firstChild;
		button.jobName = job.job;
		set(button.firstChild, job.job);
		set(button.lastChild, job.state + ", " +
			count(job.world_size, "rank"));
		button.setAttribute("aria-current", job.job === page.job);
	});
	show(byId("more-jobs"), page.state.more_jobs
		? "and " + page.state.more_jobs + " more" : "");
}

/* The numbers of some ranks: "3, 7 and 12 more". */
function rankList(ranks) {
	const first = ranks.slice(0, 3).map((r) => r.rank);
	const more = ranks.length - first.length;
	if (more)
		return `${first.join(", ")} and ${more} more`;
	const last = first.pop();
	return first.length ? `${first.join(", ")} and ${last}` : String(last);
}

/* The first thing to know about a job: [class, text]. */
function verdict(job) {
	if (job.state !== "running")
		return ["wait", {gathering: "Its nodes are joining",
			restarting: "It restarts: its nodes join again",
			over: "It is over"}[job.state] ?? job.state];
	const quiet = page.ranks.filter((r) => r.health === "quiet");
	const slow = page.ranks.find((r) => r.health === "slow");
	if (quiet.length === 1)
		return ["bad", `Rank ${quiet[0].rank} on ${quiet[0].host} ` +
			"makes no progress"];
	if (quiet.length)
		return ["bad", quiet.length === page.ranks.length
			? "No rank makes progress"
			: `${quiet.length} ranks make no progress: ` +
				rankList(quiet)];
	if (slow)
		return ["wait", `Rank ${slow.rank} on ${slow.host} is slow: ` +
			"the others wait for it"];
	if (page.ranks.every((r) => r.health === "unknown"))
		return ["wait", "It runs; no rank has reported yet"];
	const all = page.ranks.length === 1 ? ["The rank", "s"]
		: [`All ${page.ranks.length} ranks`, ""];
	return ["good", haveProgress(job.ranks)
		? `${all[0]} make${all[1]} progress`
		: `${all[0]} run${all[1]}; the program reports no steps`];
}

function drawSummary(job) {
	const [kind, text] = verdict(job);
	const last = page.samples[page.samples.length - 1];
	set(byId("name"), job.job);
	set(byId("verdict"), text);
	byId("verdict").className = kind;
	const facts = [
		["state", job.state, "for " + duration(job.state_seconds)],
		["ranks", job.world_size,
		 `${job.connected} connected, ${job.ended} ended`],
		["nodes", job.joined, `of ${job.max_nodes}` +
			(job.spares ? `, ${count(job.spares, "spare")}` : "")],
		["restarts", job.restarts, "of " + job.max_restarts],
		["round", job.round, ""],
		["steps per second", last?.rate?.toPrecision(3) ?? "-",
		 last?.rate ? "median of all ranks" : "none reported"],
	];
	const list = byId("summary");
	while (list.children.length < facts.length) {
		const item = make("div");
		item.append(make("dt"), make("dd"), make("dd"));
		list.append(item);
	}
	facts.forEach((texts, i) => texts.forEach((text, k) =>
		set(list.children[i].children[k], text)));
	show(byId("waiting"), job.waiting
		? `waiting ${duration(job.waiting.seconds)} for ` +
			job.waiting.for : "");
	show(byId("last-end"), job.last_end
		? "The last round ended: " + job.last_end : "");
}

function roundText(round) {
	const began = new Date(Date.now() - round.began_seconds_ago * 1000);
	return `round ${round.round}, ${began.toLocaleTimeString()}, ` +
		`${duration(round.lasted_seconds)}, ` +
		`${count(round.nodes, "node")}, ` +
		`${count(round.world_size, "rank")}: ` +
		(round.end ?? "running") +
		(round.cause ? ": " + round.cause : "");
}

function drawRounds(rounds) {
	const bar = byId("timeline"), list = byId("rounds");
	const parts = [], lines = [];
	let before = null;
	for (const round of rounds) {
		const gap = before === null ? 0
			: before - round.began_seconds_ago;
		if (gap > 0)
			parts.push(["gap", gap]);
		parts.push([round.end ?? "running", round.lasted_seconds]);
		before = round.began_seconds_ago - round.lasted_seconds;
		lines.unshift(roundText(round));
	}
	while (bar.children.length > parts.length)
		bar.lastChild.remove();
	while (bar.children.length < parts.length)
		bar.append(make("div"));
	parts.forEach(([kind, seconds], i) => {
		bar.children[i].className = kind;
		bar.children[i].style.flexGrow = Math.max(seconds, 0.001);
	});
	while (list.children.length > lines.length)
		list.lastChild.remove();
	while (list.children.length < lines.length)
		list.append(make("li"));
	lines.forEach((line, i) => set(list.children[i], line));
}

function drawLegend() {
	const n = {};
	for (const rank of page.ranks)
		n[rank.health] = (n[rank.health] ?? 0) + 1;
	const list = byId("legend");
	if (!list.children.length)
		for (const [kind] of HEALTH) {
			const item = make("li");
			item.append(make("span", "", kind), make("b"));
			list.append(item);
		}
	HEALTH.forEach(([kind, text], i) => {
		set(list.children[i].lastChild, `${n[kind] ?? 0} ${text}`);
		list.children[i].hidden = !n[kind];
	});
}

/* Cells as large as the width allows, from 6 to 28 pixels. A row has whole nodes of
 * this many ranks if they fit. */
function gridGeometry(n, node, width) {
	let cell = 28;
	while (cell > 6 && Math.ceil(n / Math.floor(width / cell)) * cell > 420)
		cell--;
	let columns = Math.max(1, Math.min(n, Math.floor(width / cell)));
	if (columns < n && columns > node)
		columns -= columns % node;
	return {cell, columns, rows: Math.ceil(n / columns)};
}

function drawGrid() {
	const canvas = byId("grid"), n = page.ranks.length;
	const style = getComputedStyle(document.documentElement);
	const color = {};
	for (const [kind] of HEALTH)
		color[kind] = style.getPropertyValue("--" + kind);
	const node = Math.max(1, ...shownJob().nodes.map((x) => x.workers));
	const g = gridGeometry(n, node, canvas.parentNode.clientWidth);
	const scale = devicePixelRatio || 1;
	const width = g.columns * g.cell, height = g.rows * g.cell;
	page.grid = g;
	canvas.hidden = !n;
	if (canvas.width !== Math.round(width * scale) ||
	    canvas.height !== Math.round(height * scale)) {
		canvas.width = Math.round(width * scale);
		canvas.height = Math.round(height * scale);
		canvas.style.width = width + "px";
		canvas.style.height = height + "px";
	}
	const to = canvas.getContext("2d");
	to.setTransform(scale, 0, 0, scale, 0, 0);
	to.clearRect(0, 0, width, height);
	const side = g.cell - (g.cell > 8 ? 2 : 1);
	const at = (i) => [(i % g.columns) * g.cell,
			   Math.floor(i / g.columns) * g.cell];
	for (const [kind] of HEALTH) {
		to.fillStyle = color[kind];
		for (const rank of page.ranks)
			if (rank.health === kind) {
				const [x, y] = at(rank.rank);
				to.fillRect(x, y, side, side);
			}
	}
	/* not by color alone: a stroke for slow ranks, a cross for quiet ones */
	to.strokeStyle = style.getPropertyValue("--mark");
	to.lineWidth = Math.max(1, g.cell / 10);
	to.beginPath();
	for (const rank of page.ranks) {
		if (rank.health !== "slow" && rank.health !== "quiet")
			continue;
		const [x, y] = at(rank.rank), a = side * 0.2, b = side * 0.8;
		to.moveTo(x + a, y + b);
		to.lineTo(x + b, y + a);
		if (rank.health === "quiet") {
			to.moveTo(x + a, y + a);
			to.lineTo(x + b, y + b);
		}
	}
	to.stroke();
	const [x, y] = at(page.chosen);
	to.strokeStyle = style.getPropertyValue("--text");
	to.lineWidth = 2;
	to.strokeRect(x, y, side, side);
}

function rankText(rank) {
	const kind = HEALTH.find(([name]) => name === rank.health);
	const parts = [`rank ${rank.rank}`];
	if (rank.host)
		parts.push(`node ${rank.node} (${rank.host})`);
	if (rank.pid)
		parts.push(`pid ${rank.pid}`);
	parts.push(kind[1]);
	if (rank.call && rank.does === "in_call")
		parts.push("in " + rank.call);
	else if (rank.words)
		parts.push(rank.words);
	if (rank.step !== null && rank.step !== undefined)
		parts.push(`step ${rank.step}`);
	if (rank.steps_per_second)
		parts.push(rank.steps_per_second.toPrecision(3) +
			" steps per second");
	if (rank.collective_percent !== null &&
	    rank.collective_percent !== undefined)
		parts.push(`${Math.round(rank.collective_percent)} % of the ` +
			"time in collectives");
	if (rank.cpu_percent !== null && rank.cpu_percent !== undefined)
		parts.push(`${Math.round(rank.cpu_percent)} % of a CPU`);
	if (rank.memory_bytes)
		parts.push(`${Math.round(rank.memory_bytes / 1048576)} MiB`);
	if (rank.progress_seconds !== undefined)
		parts.push("last progress " +
			duration(rank.progress_seconds) + " ago");
	return parts.join(", ");
}

function drawChosen() {
	const canvas = byId("grid"), rank = page.ranks[page.chosen];
	const text = rank ? rankText(rank) : "";
	set(byId("chosen"), text);
	byId("output").disabled = !rank;
	canvas.setAttribute("aria-valuemax", Math.max(0, page.ranks.length - 1));
	canvas.setAttribute("aria-valuenow", page.chosen);
	canvas.setAttribute("aria-valuetext", clean(text));
}

/* Fills a table with rows of texts, and changes only what differs. */
function drawTable(table, rows) {
	const body = table.tBodies[0];
	while (body.rows.length > rows.length)
		body.lastElementChild.remove();
	rows.forEach((cells, i) => {
		const row = body.rows[i] ?? body.insertRow();
		cells.forEach((text, k) =>
			set(row.cells[k] ?? row.insertCell(), text));
	});
}

function drawOdd() {
	const odd = page.ranks.filter((r) => r.health === "slow" ||
		r.health === "quiet");
	odd.sort((a, b) => b.progress_seconds - a.progress_seconds);
	byId("odd").hidden = !odd.length;
	drawTable(byId("odd"), odd.slice(0, ODD_ROWS).map((r) => [
		r.rank, r.host, r.health === "slow" ? "slow" : "no progress",
		duration(r.progress_seconds) + " ago", r.step ?? "",
		r.does === "in_call" ? r.call ?? "" : r.words ?? "",
	]));
}

/* The newest value is at the right; the first minute grows from there. */
function drawLine(line, values, top) {
	const points = [], room = Math.max(60, values.length);
	values.forEach((v, i) => {
		if (v !== null)
			points.push(((i + room - values.length) /
				(room - 1) * 600).toFixed(1) + "," +
				(116 - v / top * 110).toFixed(1));
	});
	line.setAttribute("points", points.join(" "));
}

function drawPlot(id, high, low, unit, least) {
	const svg = byId(id), last = (list) => list[list.length - 1] ?? null;
	const number = (x) => x === null ? "not known"
		: x.toPrecision(3) + unit;
	let top = least;
	for (const v of high)
		top = Math.max(top, v ?? 0);
	for (const v of low)
		top = Math.max(top, v ?? 0);
	drawLine(svg.querySelector(".high"), high, top);
	drawLine(svg.querySelector(".low"), low, top);
	set(byId(id + "-top"), top === least && unit === "" ? "" : number(top));
	set(byId(id + "-begin"),
	    duration(Math.max(60, high.length) * POLL_MS / 1000) + " ago");
	return `median ${number(last(high))}, lowest ${number(last(low))} ` +
		"(dashed)";
}

function drawPlots() {
	const s = page.samples;
	set(byId("rate-text"), "Steps per second: " + drawPlot("rate",
		s.map((x) => x.rate), s.map((x) => x.slowest), "", 0.001));
	set(byId("wait-text"), "Time in collectives: " + drawPlot("wait",
		s.map((x) => x.wait), s.map((x) => x.least), " %", 100));
}

function drawNodes(job) {
	const rows = job.nodes.slice(0, ROWS).map((n) => [
		n.node_rank < 0 ? "-" : n.node_rank, n.host ?? "",
		n.address ?? "", n.state,
		n.first_rank === null ? count(n.workers, "worker")
			: `${n.first_rank} to ${n.first_rank + n.workers - 1}`,
		n.connected, n.ended,
		n.silent_seconds > 1.5 ? duration(n.silent_seconds) : "",
	]);
	if (job.nodes.length > ROWS)
		rows.push(["", `and ${job.nodes.length - ROWS} more`,
			   "", "", "", "", "", ""]);
	drawTable(byId("nodes"), rows);
}

function gpuState(g) {
	const parts = [];
	if (g.is_lost)
		parts.push("lost");
	if (g.ecc_volatile > 0)
		parts.push(g.ecc_volatile + " uncorrected memory errors");
	if (g.remap_failed === 1)
		parts.push("row remapping failed");
	if (g.remap_pending === 1)
		parts.push("row remapping pending");
	if (g.throttle & 0xe8)
		parts.push("slowed down");
	if (g.nvlinks_inactive > 0)
		parts.push(`${g.nvlinks_inactive} of ${g.nvlinks} NVLinks down`);
	return parts.join(", ");
}

function drawGpus(job) {
	const mib = (bytes) => Math.round(bytes / 1048576);
	const gpus = job.gpus ?? [];
	byId("gpu-section").hidden = !gpus.length;
	drawTable(byId("gpus"), gpus.slice(0, ROWS).map((g) => [
		g.node_rank, g.host ?? "", g.index, g.name ?? "",
		g.utilization === null ? "" : g.utilization + " %",
		g.memory_used === null ? ""
			: `${mib(g.memory_used)} of ${mib(g.memory_total)} MiB`,
		g.temperature === null ? "" : g.temperature + " °C",
		gpuState(g),
	]));
}

function draw() {
	if (!page.state)
		return;
	performance.mark("draw-begins");
	const job = shownJob();
	set(byId("server"), "server " + page.state.server);
	drawJobs();
	byId("no-job").hidden = page.state.jobs.length > 0;
	byId("shown").hidden = !job;
	document.title = job ? clean(`${job.job}: ${job.state} - ddprun`)
			     : "ddprun";
	if (job) {
		page.ranks = makeRanks(job);
		page.chosen = Math.min(page.chosen,
			Math.max(0, page.ranks.length - 1));
		drawSummary(job);
		drawRounds(page.state.rounds);
		drawLegend();
		drawGrid();
		drawChosen();
		drawOdd();
		drawPlots();
		drawNodes(job);
		drawGpus(job);
	}
	performance.clearMeasures("draw");
	performance.measure("draw", "draw-begins");
	performance.clearMarks("draw-begins");
}

/* ---- asking ---- */

function connection(text, isBad) {
	set(byId("connection"), text);
	byId("connection").className = isBad ? "bad" : "";
}

function take(state) {
	page.state = state;
	if (!state.jobs.some((job) => job.job === page.job)) {
		page.job = state.jobs.length ? state.jobs[0].job : null;
		page.samples = [];
		page.tag = null;
	}
	const job = shownJob();
	if (job)
		addSample(job);
	requestAnimationFrame(draw);
	return page.job !== null && job?.job !== page.job;
}

/* Returns whether to ask again at once. */
async function ask() {
	const headers = page.tag ? {"If-None-Match": page.tag} : {};
	const job = page.job;
	const query = job === null ? "" : "?job=" + encodeURIComponent(job);
	const reply = await fetch("/api/state" + query,
		{headers, cache: "no-store", signal: AbortSignal.timeout(10000)});
	if (reply.status === 401 || reply.status === 403)
		throw new Error("the session is over (was the server " +
			"restarted?): open the URL that it logged");
	if (reply.status === 304)
		return false;
	if (!reply.ok)
		throw new Error(await reply.text());
	const text = await reply.text();
	if (job !== page.job) /* the user has chosen another one meanwhile */
		return true;
	page.tag = reply.headers.get("ETag");
	return take(JSON.parse(text));
}

async function poll() {
	clearTimeout(page.timer);
	page.timer = 0;
	let wait = document.hidden ? HIDDEN_MS : POLL_MS;
	try {
		if (await ask())
			wait = 0;
		page.failures = 0;
		connection("live", false);
	} catch (error) {
		page.failures++;
		wait = RETRY_MS;
		connection(error.name === "TypeError" ||
			   error.name === "TimeoutError"
			? "the server does not answer; what you see is old"
			: error.message, true);
	}
	if (!page.timer)
		page.timer = setTimeout(poll, wait);
}

function chooseJob(name) {
	if (name === page.job)
		return;
	page.job = name;
	page.samples = [];
	page.tag = null;
	page.chosen = 0;
	drawJobs();
	clearTimeout(page.timer);
	page.timer = setTimeout(poll, 0);
}

/* ---- a dump ---- */

async function fetchDump(id) {
	const url = `/api/dump?job=${encodeURIComponent(page.job)}&id=${id}`;
	while (page.dump === id) {
		const reply = await fetch(url, {cache: "no-store"});
		const text = await reply.text();
		if (reply.status === 200)
			return text;
		if (reply.status !== 202 && reply.status !== 409)
			throw new Error(text);
		set(byId("dump-state"), text);
		await new Promise((done) => setTimeout(done, 400));
	}
	return "";
}

async function openDump() {
	const id = Math.floor(Math.random() * 1e15) + 1;
	page.dump = id;
	set(byId("dump-title"), "Dump of " + page.job);
	set(byId("dump-text"), "");
	set(byId("dump-state"), "asking the agents of all nodes");
	byId("dump-dialog").showModal();
	try {
		const text = await fetchDump(id);
		if (page.dump === id) {
			set(byId("dump-text"), text);
			set(byId("dump-state"), "");
			byId("dump-text").focus();
		}
	} catch (error) {
		if (page.dump === id)
			set(byId("dump-state"), error.message);
	}
}

/* ---- the last lines of a rank ---- */

/* The scroll position stays, but at the end it follows new lines. */
function setLines(node, lines) {
	const follows = node.scrollTop + node.clientHeight >=
		node.scrollHeight - 4;
	set(node, lines.length ? lines.join("\n") : "(nothing so far)");
	if (follows)
		node.scrollTop = node.scrollHeight;
}

async function fetchOutput(shown) {
	const url = `/api/output?job=${encodeURIComponent(shown.job)}` +
		`&rank=${shown.rank}`;
	const reply = await fetch(url,
		{cache: "no-store", signal: AbortSignal.timeout(10000)});
	const text = await reply.text();
	if (page.output !== shown)
		return;
	if (reply.status !== 200) {
		set(byId("output-state"), text);
		return;
	}
	const output = JSON.parse(text);
	set(byId("output-state"), output.error ??
		(output.host ? "on " + output.host : ""));
	setLines(byId("output-stdout"), output.stdout);
	setLines(byId("output-stderr"), output.stderr);
}

async function openOutput() {
	const rank = page.ranks[page.chosen];
	if (!rank)
		return;
	const shown = {job: page.job, rank: rank.rank};
	page.output = shown;
	set(byId("output-title"), `Last lines of rank ${rank.rank}`);
	set(byId("output-state"), "asking its agent");
	set(byId("output-stdout"), "");
	set(byId("output-stderr"), "");
	byId("output-dialog").showModal();
	while (page.output === shown) {
		try {
			await fetchOutput(shown);
		} catch (error) {
			if (page.output === shown)
				set(byId("output-state"), "the server does not " +
					"answer; what you see is old");
		}
		await new Promise((done) => setTimeout(done,
			document.hidden ? HIDDEN_MS : POLL_MS));
	}
}

/* ---- keys and the pointer ---- */

function chooseRank(rank) {
	page.chosen = Math.max(0, Math.min(page.ranks.length - 1, rank));
	drawGrid();
	drawChosen();
}

function onGridKey(event) {
	const row = page.grid?.columns ?? 1;
	const steps = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: row,
		       ArrowUp: -row, PageDown: 10 * row, PageUp: -10 * row,
		       Home: -Infinity, End: Infinity};
	if (!(event.key in steps) || event.altKey || event.ctrlKey ||
	    event.metaKey)
		return;
	event.preventDefault();
	chooseRank(page.chosen + steps[event.key]);
}

function onGridPointer(event) {
	const g = page.grid, x = Math.floor(event.offsetX / g.cell);
	const rank = Math.floor(event.offsetY / g.cell) * g.columns + x;
	if (x < g.columns && rank < page.ranks.length)
		chooseRank(rank);
}

byId("grid").addEventListener("keydown", onGridKey);
byId("grid").addEventListener("click", onGridPointer);
byId("dump").addEventListener("click", openDump);
byId("dump-close").addEventListener("click", () =>
	byId("dump-dialog").close());
byId("dump-dialog").addEventListener("close", () => {
	page.dump = 0;
	byId("dump").focus();
});
byId("output").addEventListener("click", openOutput);
byId("output-close").addEventListener("click", () =>
	byId("output-dialog").close());
byId("output-dialog").addEventListener("close", () => {
	page.output = null;
	byId("output").focus();
});
document.addEventListener("visibilitychange", () => {
	if (!document.hidden && page.timer)
		poll();
});
addEventListener("resize", () => requestAnimationFrame(draw));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
	requestAnimationFrame(draw));
poll();
