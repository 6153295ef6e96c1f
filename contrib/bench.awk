# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# What contrib/bench does with records, one JSON object a line, as fi_p2p_bench prints them:
#   -v mode=merge      those of several runs become one; figures of others become its "peers"
#   -v mode=goals      what is to be reached, and whether it is
#   -v mode=table      everything, in markdown
#   -v mode=osu -v provider=P -v path=P -v test=T -v sizes=LIST
#                      records of "SIDE SIZE FIGURE" lines, T being latency or bw [MB/s]
#   -v mode=series -v provider=P -v path=P -v test=T -v direction=D -v field=F -v by=B
#                      "SIZE FIGURE" lines of one line of a picture; "peers.NAME" is a field, too;
#                      no B: whatever way the data took
#
# "lanes" is how many lanes there were (none said: one). Records with "cpus" are of the rows about
# lanes, whose processes had so many CPUs each. They are apart from all others.

# get(LINE, KEY): the value, without quotes or brackets; "" for null, and if there is none
function get(line, key,    rest) {
	if (!match(line, "\"" key "\":"))
		return ""
	rest = substr(line, RSTART + RLENGTH)
	if (rest ~ /^"/) {
		match(rest, /^"[^"]*"/)
		return substr(rest, 2, RLENGTH - 2)
	}
	if (rest ~ /^[[{]/) {
		match(rest, /^[[{][^]}]*[]}]/)
		return substr(rest, 2, RLENGTH - 2)
	}
	match(rest, /^[^,}]*/)
	rest = substr(rest, 1, RLENGTH)
	return rest == "null" ? "" : rest
}

# median(LIST): of numbers, with spaces between them
function median(list,    v, n, i, j, t) {
	n = split(list, v, " ")
	if (!n)
		return ""
	for (i = 2; i <= n; i++)
		for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) {
			t = v[j]; v[j] = v[j - 1]; v[j - 1] = t
		}
	return (v[int((n + 1) / 2)] + v[int(n / 2) + 1]) / 2
}

function id_of(line) {
	return get(line, "provider") "|" get(line, "path") "|" get(line, "test") "|" \
		get(line, "direction") "|" get(line, "size") "|" lanes_of(line)
}

# lanes_of(LINE): how many lanes a row about lanes had; "" for any other row
function lanes_of(line) {
	return get(line, "cpus") == "" ? "" : get(line, "lanes")
}

function size_name(size) {
	if (size >= 1048576 && size % 1048576 == 0)
		return size / 1048576 " MiB"
	if (size >= 1024 && size % 1024 == 0)
		return size / 1024 " KiB"
	return size " B"
}

function number(value) {
	return value == "" ? "-" : sprintf("%.4g", value)
}

function json_number(value) {
	return value == "" ? "null" : sprintf("%.6g", value)
}

function interval(name, value) {
	return "\"" name "\":" (value == "" ? "null" : "[" value "]") ","
}

# ---- merge ----

# widen(OLD, NEW): the interval that has both in it
function widen(old, new,    a, b) {
	if (old == "" || new == "")
		return old == "" ? new : old
	split(old, a, ",")
	split(new, b, ",")
	return (a[1] + 0 < b[1] + 0 ? a[1] : b[1]) "," (a[2] + 0 > b[2] + 0 ? a[2] : b[2])
}

function merge_line(line,    key, i) {
	if (get(line, "peer") != "") {
		key = id_of(line) "|" get(line, "peer")
		if (!(key in peer_list))
			peer_names[id_of(line)] = peer_names[id_of(line)] " " get(line, "peer")
		peer_list[key] = peer_list[key] " " get(line, "figure")
		return
	}
	if (get(line, "test") == "machine") {
		if (!machine[line]++)
			print line
		return
	}
	key = id_of(line) "|" get(line, "inflight") "|" get(line, "call")
	if (!(key in first)) {
		first[key] = line
		order[++keys] = key
	}
	for (i = 1; i <= field_count; i++)
		lists[key, i] = lists[key, i] " " get(line, fields[i])
	spread[key] = widen(spread[key], get(line, "spread"))
	device_spread[key] = widen(device_spread[key], get(line, "device_spread"))
	floor_spread[key] = widen(floor_spread[key], get(line, "floor_spread"))
	n[key] += get(line, "n")
	runs[key]++
}

function merge_end(    k, key, line, id, i, j, names, count, peers) {
	for (k = 1; k <= keys; k++) {
		key = order[k]
		line = first[key]
		id = id_of(line)
		sub(/"host":.*/, "", line)
		for (i = 1; i <= field_count; i++)
			line = line "\"" fields[i] "\":" json_number(median(lists[key, i])) ","
		line = line interval("device_spread", device_spread[key]) \
			interval("spread", spread[key]) interval("floor_spread", floor_spread[key])
		peers = ""
		# others have many under way, but when they measure latency
		count = split(peer_names[id], names, " ")
		if (get(line, "inflight") == 1 && get(line, "test") != "latency")
			count = 0
		for (j = 1; j <= count; j++)
			peers = peers (peers == "" ? "" : ",") "\"" names[j] "\":" \
				json_number(median(peer_list[id "|" names[j]]))
		print line "\"peers\":{" peers "},\"n\":" n[key] ",\"runs\":" runs[key] "}"
	}
}

# ---- what OSU's programs say ----

function osu_end(    count, i, list, lat, device, host) {
	lat = test == "latency"
	count = split(sizes, list, ",")
	for (i = 1; i <= count; i++) {
		device = osu["device", list[i]]
		host = osu["host", list[i]]
		if (device <= 0)
			continue
		printf "{\"test\":\"osu-%s\",\"provider\":\"%s\",\"lanes\":1,\"size\":%s," \
			"\"direction\":\"one\",\"inflight\":%d,\"unit\":\"%s\",\"path\":\"%s\"," \
			"\"by\":\"-\",\"floor_kind\":\"none\",\"host\":%s,\"ours\":%s," \
			"\"device\":%s,\"ratio\":%s,\"n\":1}\n", lat ? "latency" : "bandwidth",
			provider, list[i], lat ? 1 : 64, lat ? "us" : "GB/s", path,
			json_number(host), json_number(osu["ours", list[i]]), json_number(device),
			json_number(host == "" ? "" : lat ? host / device : device / host)
	}
}

# ---- what was read, for the modes after merge ----

function keep_line(line,    key) {
	if (get(line, "test") == "machine")
		return
	key = id_of(line) "|" get(line, "inflight")
	if (get(line, "call") != "")
		key = key "|" get(line, "call")
	record[key] = line
	order[++keys] = key
	if (!(get(line, "provider") in is_provider)) {
		is_provider[get(line, "provider")] = 1
		providers[++provider_count] = get(line, "provider")
	}
}

# one(PROVIDER, PATH, TEST, DIRECTION, SIZE, INFLIGHT, LANES): that record; without INFLIGHT the
# one with most under way; without LANES not one about lanes
function one(provider, path, test, direction, size, inflight, lanes,    k, id, found) {
	id = provider "|" path "|" test "|" direction "|" size "|" lanes
	for (k = 1; k <= keys; k++)
		if (id_of(record[order[k]]) == id &&
		    (inflight == "" || get(record[order[k]], "inflight") == inflight))
			found = record[order[k]]
	return found
}

# ---- goals ----

# goal(WHAT, FIGURE, SPREAD, SIGN, LIMIT, UNIT): one line; SIGN 1: at least, -1: at most
function goal(what, figure, spread, sign, limit, unit,    verdict, bounds) {
	verdict = sign * figure >= sign * limit ? "met" : "NOT MET"
	if (figure == "")
		verdict = "not measured"
	else
		figure = sprintf("%.4g", figure) unit
	if (spread != "") {
		split(spread, bounds, ",")
		spread = sprintf(" (%.3g to %.3g)", bounds[1], bounds[2])
	}
	limit = (sign > 0 ? "at least " : "at most ") limit unit
	print "| " what " | " figure spread " | " limit " | " verdict " |"
}

# host_goal(PROVIDER, TEST, SIZE, LIMIT, LANES): staged, several under way, to the host's speed
function host_goal(p, test, size, limit, lanes,    line, what) {
	line = one(p, "stage", test, "one", size, "", lanes)
	what = p ", staged" (lanes == "" ? "" : ", " lanes " lanes") ": " test \
		", device / host, " size_name(size)
	if (line != "")
		what = what sprintf(", %s under way: %.4g, %.4g GB/s", get(line, "inflight"),
				    get(line, "device"), get(line, "host"))
	goal(what, get(line, "ratio"), get(line, "spread"), 1, limit, "")
}

# added_goal(PROVIDER, TEST, SIZE, LIMIT): what device memory adds to one operation alone, in copies
function added_goal(p, test, size, limit,    line, what) {
	line = one(p, "stage", test, "one", size, 1)
	what = p ", staged: " test ", " size_name(size) ", (device - host) / raw copies"
	if (line != "")
		what = what sprintf(": (%.4g - %.4g) / %s us", get(line, "device"),
				    get(line, "host"), number(get(line, "floor")))
	goal(what, get(line, "floor_ratio"), get(line, "floor_spread"), -1, limit, "")
}

# rate_goal(PROVIDER, WHAT, MANY, SINGLE): of 8 B, 64 under way, and one at a time [M/s]
function rate_goal(p, what, many, single) {
	goal(sprintf("%s, staged: %s, 8 B, rate, device, 64 under way / one at a time: %s / %s M/s", p,
		     what, number(many), number(single)),
	     single > 0 ? many / single : "", "", 1, 5, "")
}

function staged_goals(p,    i, sizes, count, many, single) {
	count = split("65536 1048576 4194304 16777216", sizes, " ")
	for (i = 1; i <= count; i++)
		host_goal(p, "bandwidth", sizes[i], 0.95)
	added_goal(p, "latency", 8, 1.05)
	count = split("256 4096 32768 65536 262144 1048576", sizes, " ")
	for (i = 1; i <= count; i++)
		if (one(p, "stage", "latency", "one", sizes[i]) != "")
			added_goal(p, "latency", sizes[i], 1.1)
	many = get(one(p, "stage", "rate", "one", 8), "device")
	single = get(one(p, "stage", "rate", "one", 8, 1), "device")
	rate_goal(p, "messages", many, single)
}

# lanes_goals(PROVIDER, LANES, LIMIT): of device memory over so many lanes
function lanes_goals(p, lanes, limit,    i, sizes, count, line) {
	if (!has(p, "stage", "^bandwidth$", lanes))
		return
	count = split("1048576 4194304 16777216 67108864", sizes, " ")
	for (i = 1; i <= count; i++)
		host_goal(p, "bandwidth", sizes[i], limit, lanes)
	line = one(p, "stage", "latency", "one", 16777216, 1, lanes)
	goal(sprintf("%s, staged, %s lanes: 16 MiB alone, speed, device / host: %s, %s us", p,
		     lanes, number(get(line, "device")), number(get(line, "host"))),
	     get(line, "ratio"), get(line, "spread"), 1, 2, "")
}

function host_goals(p,    sizes, i, count, line, what) {
	count = split("16777216 67108864", sizes, " ")
	for (i = 1; i <= count; i++) {
		line = one(p, "auto", "bandwidth", "one", sizes[i])
		what = p ", same host: bandwidth, device / raw peer copy, " size_name(sizes[i])
		if (line != "")
			what = what sprintf(": %.4g of %.4g GB/s, by %s", get(line, "device"),
					    get(line, "floor"), get(line, "by"))
		goal(what, get(line, "floor_ratio"), get(line, "floor_spread"), 1, 0.95, "")
	}
	if (p != "shm")
		return
	line = one(p, "auto", "latency", "one", 1048576)
	goal(p ", same host: 1 MiB, one way", get(line, "device"),
	     get(line, "device_spread"), -1, 12, " us")
	line = one(p, "auto", "latency", "one", 8)
	goal(p ", same host: 8 B, one way", get(line, "device"),
	     get(line, "device_spread"), -1, 10, " us")
}

# Goals of one kind of operation on remote memory
function remote_goals(p, test,    i, sizes, count, many, single) {
	added_goal(p, test, 8, 1.1)
	single = get(one(p, "stage", test, "one", 8, 1), "device")
	many = get(one(p, "stage", test, "one", 8), "device")
	rate_goal(p, test, many, single > 0 ? 1 / single : "")
	count = split(test == "atomic" || test == "fetch" ? "" : "65536 1048576 16777216", sizes, " ")
	for (i = 1; i <= count; i++)
		host_goal(p, test, sizes[i], 0.95)
}

# Goals of long writes and reads within a host
function remote_host_goals(p, test,    line, what) {
	line = one(p, "auto", test, "one", 16777216)
	what = p ", same host: " test ", device / raw peer copy, 16 MiB"
	if (line != "")
		what = what sprintf(": %.4g of %.4g GB/s, by %s", get(line, "device"),
				    get(line, "floor"), get(line, "by"))
	goal(what, get(line, "floor_ratio"), get(line, "floor_spread"), 1, 0.95, "")
}

# The least ratio of all rows of a test of contrib/bench-overhead
function overhead_goal(p, test,    k, line, least, worst, what) {
	for (k = 1; k <= keys; k++) {
		line = record[order[k]]
		if (get(line, "test") != "overhead-" test || get(line, "provider") != p)
			continue
		if (least == "" || get(line, "ratio") < least) {
			least = get(line, "ratio") + 0
			worst = line
		}
	}
	what = p ", host to host: " test ", ofi_p2p / core alone"
	if (worst != "")
		what = what ", worst row: " get(worst, "size") " B " get(worst, "call")
	goal(what, least, get(worst, "spread"), 1, 0.99, "")
}

# has(PROVIDER, PATH, PATTERN, LANES): is there any record of such a test? LANES as in one()
function has(provider, path, pattern, lanes,    k, line) {
	for (k = 1; k <= keys; k++) {
		line = record[order[k]]
		if (get(line, "provider") == provider && get(line, "path") == path &&
		    get(line, "test") ~ pattern && lanes_of(line) == lanes "")
			return 1
	}
	return 0
}

function goals(    i, k, p, tests, count) {
	count = split("write writedata read atomic fetch", tests, " ")
	print "| what | figure (spread) | goal | |"
	print "|---|---|---|---|"
	for (i = 1; i <= provider_count; i++)
		if (providers[i] != "shm" && has(providers[i], "stage", "bandwidth"))
			staged_goals(providers[i])
	for (i = 1; i <= provider_count; i++) {
		lanes_goals(providers[i], 4, 2.5)
		lanes_goals(providers[i], 8, 4)
	}
	for (i = 1; i <= provider_count; i++)
		if (has(providers[i], "auto", "bandwidth"))
			host_goals(providers[i])
	for (i = 1; i <= provider_count; i++)
		for (k = 1; k <= count; k++) {
			if (has(providers[i], "stage", "^" tests[k] "$"))
				remote_goals(providers[i], tests[k])
			if (tests[k] ~ /^(write|read)$/ &&
			    has(providers[i], "auto", "^" tests[k] "$"))
				remote_host_goals(providers[i], tests[k])
		}
	for (i = 1; i <= provider_count; i++)
		if (has(providers[i], "auto", "overhead")) {
			overhead_goal(providers[i], "latency")
			overhead_goal(providers[i], "rate")
		}
}

# ---- table ----

function table(    k, line, head, last, key) {
	for (k = 1; k <= keys; k++) {
		line = record[order[k]]
		head = get(line, "provider") ", FI_P2P_PATH=" get(line, "path") ", " \
			get(line, "test") lanes_title(line) (get(line, "direction") == "both" ? ", both ways" : "") \
			", " get(line, "unit")
		key[head] = key[head] " " k
		if (!(head in last)) {
			last[head] = 1
			heads[++head_count] = head
		}
	}
	for (k = 1; k <= head_count; k++)
		table_part(heads[k], key[heads[k]])
}

function lanes_title(line,    lanes) {
	lanes = lanes_of(line)
	return lanes == "" ? "" : \
		sprintf(" over %s, %s CPUs for each process", lanes == 1 ? "1 lane" : lanes " lanes",
			get(line, "cpus"))
}

function table_part(head, list,    rows, count, i, line, both) {
	count = split(list, rows, " ")
	line = record[order[rows[1]]]
	print "\n### " head "\n"
	if (get(line, "test") ~ /^overhead/) {
		print "| size | call | core alone | ofi_p2p | ratio in speed | spread | runs |"
		print "|---|---|---|---|---|---|---|"
		for (i = 1; i <= count; i++) {
			line = record[order[rows[i]]]
			print "| " size_name(get(line, "size")) " | " get(line, "call") " | " \
				number(get(line, "host")) " | " number(get(line, "ours")) " | " \
				number(get(line, "ratio")) " | " get(line, "spread") " | " \
				get(line, "n") " |"
		}
		return
	}
	print "| size | under way | by | host, core alone | host, ofi_p2p | device | " \
		"device / host | spread | raw " (get(line, "floor_kind") == "peer" ? "peer copy" : \
		"D2H, H2D") " | " \
		(get(line, "unit") == "us" && get(line, "floor_kind") == "copy" ? \
		"(device - host) / raw" : "device / raw") " | spread | others | n |"
	print "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
	for (i = 1; i <= count; i++) {
		line = record[order[rows[i]]]
		both = get(line, "peers")
		gsub(/"/, "", both)
		gsub(/,/, ", ", both)
		print "| " size_name(get(line, "size")) " | " get(line, "inflight") " | " \
			get(line, "by") " | " number(get(line, "host")) " | " \
			number(get(line, "ours")) " | " number(get(line, "device")) \
			" | " number(get(line, "ratio")) " | " \
			get(line, "spread") " | " number(get(line, "floor")) " | " \
			number(get(line, "floor_ratio")) " | " get(line, "floor_spread") \
			" | " both " | " get(line, "n") " |"
	}
}

function series(    k, line, value) {
	for (k = 1; k <= keys; k++) {
		line = record[order[k]]
		if (get(line, "provider") != provider || get(line, "path") != path ||
		    get(line, "test") != test || get(line, "direction") != direction ||
		    lanes_of(line) != "" ||
		    (by != "" && get(line, "by") != by))
			continue
		value = field ~ /^peers\./ ? get("{" get(line, "peers") "}", substr(field, 7)) : \
			get(line, field)
		if (value != "")
			print get(line, "size"), value
	}
}

BEGIN {
	field_count = split("host ours device floor ratio floor_ratio", fields, " ")
}

mode == "osu" {
	osu[$1, $2] = test == "latency" ? $3 : $3 / 1e3
	next
}

/^{/ {
	if (mode == "merge")
		merge_line($0)
	else
		keep_line($0)
}

END {
	if (mode == "merge")
		merge_end()
	else if (mode == "osu")
		osu_end()
	else if (mode == "goals")
		goals()
	else if (mode == "table")
		table()
	else if (mode == "series")
		series()
}
