# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Records what happens to each message, for contrib/trace2svg, as message.bt does: where BPF may not be used. Each
# event takes a tenth of a millisecond or more. So the order is right, and the times are not.
#
#   TRACE_TO=FILE gdb -batch -x message.gdb --args PROGRAM [ARGUMENT...]

set pagination off
set breakpoint pending on
set print thread-events off
python
import os, time

# An argument is a number in hex or decimal, a string, or not shown
EVENTS = {"req_post": "xxxxdx", "req_undo": "x", "req_path": "xds", "req_id": "xx", "req_move": "x-s", "req_end": "xddsdd",
          "piece_begin": "xxddx", "piece_send": "xxd", "piece_sent": "xxd", "piece_received": "xxd",
          "copy_begin": "xdd", "copy_end": "xd"}
TO = open(os.environ["TRACE_TO"], "w", buffering=1)

class Event(gdb.Breakpoint):
    def __init__(self, name, kinds):
        super().__init__("-probe-stap ofi_p2p:" + name)
        self.silent, self.name, self.kinds = True, name, kinds

    def argument(self, index, kind):
        value = gdb.parse_and_eval("$_probe_arg%d" % index)
        if kind == "s":
            text = value.cast(gdb.lookup_type("char").pointer())
            return text.string(errors="replace") if int(text) else ""
        return format(int(value) & (1 << 64) - 1, "x") if kind == "x" else str(int(value))

    def stop(self):
        now = time.monotonic_ns()
        args = [self.argument(i, kind) for i, kind in enumerate(self.kinds) if kind != "-"]
        TO.write("\t".join([str(now), str(gdb.selected_inferior().pid), self.name] + args) + "\n")
        return False

for name, kinds in EVENTS.items():
    Event(name, kinds)
end
run
