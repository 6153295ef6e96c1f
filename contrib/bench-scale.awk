# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The tables of bench-scale, from its scale.jsonl. Variables: core, ours.

function field(name,    at, text) {
	at = index($0, "\"" name "\": ")
	if (!at)
		return ""
	text = substr($0, at + length(name) + 4)
	sub(/[,}].*/, "", text)
	gsub(/"/, "", text)
	return text
}

# add KEY VALUE: one more value of that key
function add(key, value) {
	values[key] = values[key] " " value
	counted[key]++
}

# quantile KEY Q: of its values; "" without any
function quantile(key, q,    v, n, i, j, t, place) {
	n = split(values[key], v, " ")
	if (!n)
		return ""
	for (i = 2; i <= n; i++)
		for (j = i; j > 1 && v[j] + 0 < v[j - 1] + 0; j--) {
			t = v[j]
			v[j] = v[j - 1]
			v[j - 1] = t
		}
	place = 1 + q * (n - 1)
	i = int(place)
	return i == n ? v[n] : v[i] + (place - i) * (v[i + 1] - v[i])
}

function median(key) {
	return quantile(key, 0.5)
}

# show VALUE FORMAT FACTOR: a cell
function show(value, format, factor) {
	return value == "" ? " - |" : sprintf(" " format " |", value * factor)
}

# once LIST KEY: keeps the order in which keys came
function once(list, key) {
	if (!((list, key) in known)) {
		known[list, key] = 1
		order[list, ++length_of[list]] = key
	}
}

# The two of a round follow each other. Their ratio is of that round
function pair_up(key, provider, value) {
	if (provider == core)
		core_last[key] = value
	else
		ours_last[key] = value
	if (core_last[key] != "" && ours_last[key] != "") {
		add(key " ratio", ours_last[key] / core_last[key])
		core_last[key] = ours_last[key] = ""
	}
}

function head(title, columns,    n, i, names) {
	printf "## %s\n\n| %s |\n", title, columns
	n = split(columns, names, "|")
	for (i = 1; i <= n; i++)
		printf i == 1 ? "|---|" : "---:|"
	print ""
}

{
	test = field("test")
	provider = field("provider")
	ranks = field("ranks")
	label = field("label")
	size = field("size")
}

label == "start" {
	key = (field("memory") == "host" ? "start " : "device ") ranks
	once(field("memory") == "host" ? "start" : "device", ranks)
	split("open_us open_cpu_us names_us messages_us slowest_us own pss descriptors threads", names, " ")
	for (i in names)
		add(key " " provider " " names[i], field(names[i]))
	if (field("memory") == "host")
		pair_up(key, provider, field("slowest_us"))
}

label ~ /^lanes / {
	once("lanes", substr(label, 7))
	split("messages_us lanes_us own descriptors threads", names, " ")
	for (i in names)
		add(label " " names[i], field(names[i]))
}

test == "object" {
	key = "object " field("kind") "|" field("count")
	once("objects", field("kind") "|" field("count"))
	split("us own descriptors threads", names, " ")
	for (i in names)
		add(key " " provider " " names[i], field(names[i]))
}

test == "pairs" || test == "alltoall" {
	key = test " " ranks "|" size
	once(test, ranks "|" size)
	split("core_us ours_us ratio ratio_q1 ratio_q3 control control_q1 control_q3 window", names, " ")
	for (i in names)
		add(key " " names[i], field(names[i]))
}

label == "osu" {
	key = test " " ranks "|" size
	once("osu", key)
	add(key " " provider, field("value"))
	pair_up(key, provider, field("value"))
}

# ---- tables ----

function start_table(    i, n, key) {
	head("Start-up", "ranks | core alone, ms | ofi_p2p, ms | ratio | quartiles | of that open, ms | its processor time, ms | names, ms | messages, ms")
	for (i = 1; i <= length_of["start"]; i++) {
		n = order["start", i]
		key = "start " n
		printf "| %s |%s%s%s", n, show(median(key " " core " slowest_us"), "%.1f", 1e-3),
			show(median(key " " ours " slowest_us"), "%.1f", 1e-3), show(median(key " ratio"), "%.3f", 1)
		printf " %.3f, %.3f |", quantile(key " ratio", 0.25), quantile(key " ratio", 0.75)
		print both(key, "open_us", "%.1f", 1e-3) both(key, "open_cpu_us", "%.1f", 1e-3) both(key, "names_us", "%.1f", 1e-3) both(key, "messages_us", "%.1f", 1e-3)
	}
	print "\nThe slowest rank's time, from fi_getinfo until a message has come from each other rank. Ratio: ofi_p2p to the core"
	print "alone, in each round. The phases are of the middle rank: core alone, ofi_p2p. Processor time does not count waiting for a"
	print "processor; names also wait for the slowest rank.\n"
}

# both KEY FIELD FORMAT FACTOR: a cell with both figures
function both(key, name, format, factor,    one, other) {
	one = median(key " " core " " name)
	other = median(key " " ours " " name)
	return " " (one == "" ? "-" : sprintf(format, one * factor)) ", " \
		(other == "" ? "-" : sprintf(format, other * factor)) " |"
}

function memory_table(    i, n, key) {
	head("What a rank has", "ranks | private, MiB | Pss, MiB | descriptors | threads")
	for (i = 1; i <= length_of["start"]; i++) {
		n = order["start", i]
		key = "start " n
		print "| " n " |" both(key, "own", "%.2f", 2 ^ -20) both(key, "pss", "%.2f", 2 ^ -20) \
			both(key, "descriptors", "%d", 1) both(key, "threads", "%d", 1)
	}
	print "\nCore alone, ofi_p2p: after start-up, beyond what the process had before fi_getinfo. Private: no other process has it.\n"
}

# per_peer FIELD PROVIDER: from the fewest ranks to the most
function per_peer(name, provider,    few, many, one, other) {
	few = order["start", 1]
	many = order["start", length_of["start"]]
	one = median("start " few " " provider " " name)
	other = median("start " many " " provider " " name)
	return one == "" || other == "" || many == few ? "" : (other - one) / (many - few)
}

function peer_table(    p, provider) {
	if (length_of["start"] < 2)
		return
	head("What each peer costs", "provider | bytes | descriptors | threads | microseconds of messages")
	for (p = 1; p <= 2; p++) {
		provider = p == 1 ? core : ours
		print "| " (p == 1 ? "core alone" : "ofi_p2p") " |" show(per_peer("own", provider), "%.0f", 1) \
			show(per_peer("descriptors", provider), "%.2f", 1) show(per_peer("threads", provider), "%.2f", 1) \
			show(per_peer("messages_us", provider), "%.0f", 1)
	}
	printf "\nFrom %s ranks to %s, for each rank more. [Up to 1,000 ranks](../performance.md#many-ranks-simulated) are simulated.\n\n",
		order["start", 1], order["start", length_of["start"]]
}

function device_table(    i, n, key) {
	head("Device memory, ofi_p2p", "ranks | ms | of that open | names | messages | private, MiB | descriptors | threads")
	for (i = 1; i <= length_of["device"]; i++) {
		n = order["device", i]
		key = "device " n " " ours " "
		print "| " n " |" show(median(key "slowest_us"), "%.1f", 1e-3) show(median(key "open_us"), "%.1f", 1e-3) \
			show(median(key "names_us"), "%.1f", 1e-3) show(median(key "messages_us"), "%.1f", 1e-3) \
			show(median(key "own"), "%.2f", 2 ^ -20) show(median(key "descriptors"), "%d", 1) show(median(key "threads"), "%d", 1)
	}
	print ""
}

function object_table(    i, key, part) {
	head("What one more object costs", "object | opened | us | bytes | descriptors | threads")
	for (i = 1; i <= length_of["objects"]; i++) {
		split(order["objects", i], part, "|")
		key = "object " order["objects", i]
		print "| " part[1] " | " part[2] " |" both(key, "us", "%.1f", 1) both(key, "own", "%d", 1) \
			both(key, "descriptors", "%.1f", 1) both(key, "threads", "%.1f", 1)
	}
	print "\nCore alone, ofi_p2p. Each row: those since the row before, divided by their number. Private memory, in whole pages.\n"
}

function lane_table(    i, n, key, last) {
	head("What each lane costs", "lanes | the first 16 MiB, ms | until 16 MiB go by lanes, ms | private, MiB | descriptors | threads")
	for (i = 1; i <= length_of["lanes"]; i++) {
		n = order["lanes", i]
		key = "lanes " n " "
		print "| " n " |" show(median(key "messages_us"), "%.1f", 1e-3) show(median(key "lanes_us"), "%.1f", 1e-3) \
			show(median(key "own"), "%.2f", 2 ^ -20) show(median(key "descriptors"), "%d", 1) \
			show(median(key "threads"), "%d", 1)
	}
	last = order["lanes", length_of["lanes"]]
	if (last > 2)
		printf "\nEach lane beyond the second: %.0f bytes, %.1f descriptors, %.1f threads.\n\n",
			(median("lanes " last " own") - median("lanes 2 own")) / (last - 2),
			(median("lanes " last " descriptors") - median("lanes 2 descriptors")) / (last - 2),
			(median("lanes " last " threads") - median("lanes 2 threads")) / (last - 2)
}

function turn_table(test, title, unit,    i, key, part, factor) {
	head(title, "ranks | bytes | core alone, " unit " | ofi_p2p, " unit " | ratio | quartiles | control | quartiles")
	for (i = 1; i <= length_of[test]; i++) {
		split(order[test, i], part, "|")
		key = test " " order[test, i] " "
		printf "| %s | %s |", part[1], part[2]
		if (test == "pairs") {
			# messages in a microsecond, of all pairs
			factor = part[1] / 2 * median(key "window")
			printf " %.3f, %.0f | %.3f, %.0f |", factor / median(key "core_us"), factor * part[2] / median(key "core_us"),
				factor / median(key "ours_us"), factor * part[2] / median(key "ours_us")
		} else
			printf " %.1f | %.1f |", median(key "core_us"), median(key "ours_us")
		printf " %.3f | %.3f, %.3f | %.3f | %.3f, %.3f |\n", median(key "ratio"), median(key "ratio_q1"), median(key "ratio_q3"),
			median(key "control"), median(key "control_q1"), median(key "control_q3")
	}
	print ""
}

function osu_table(    i, key, part) {
	head("OSU's programs", "program, ranks | bytes | core alone | ofi_p2p | ratio | lowest, highest")
	for (i = 1; i <= length_of["osu"]; i++) {
		key = order["osu", i]
		split(key, part, "|")
		printf "| %s | %s |%s%s%s %.3f, %.3f |\n", part[1], part[2], show(median(key " " core), "%.2f", 1),
			show(median(key " " ours), "%.2f", 1), show(median(key " ratio"), "%.3f", 1), quantile(key " ratio", 0),
			quantile(key " ratio", 1)
	}
	print "\nosu_mbw_mr: MB/s, the more the better. osu_alltoall: us, the less the better. Ratio: ofi_p2p to the core alone.\n"
}

END {
	if (length_of["start"]) {
		start_table()
		memory_table()
		peer_table()
	}
	if (length_of["device"])
		device_table()
	if (length_of["objects"])
		object_table()
	if (length_of["lanes"])
		lane_table()
	if (length_of["pairs"])
		turn_table("pairs", "Pairs: half of the ranks send to the others", "messages/us, MB/s")
	if (length_of["alltoall"])
		turn_table("alltoall", "All to all", "us")
	if (length_of["pairs"] || length_of["alltoall"]) {
		print "Ratio: the core alone's time to ofi_p2p's, in each round of turns: 1 or more is no loss. Control: the same for a second"
		print "endpoint of the core alone. The medians of all starts.\n"
	}
	if (length_of["osu"])
		osu_table()
}
