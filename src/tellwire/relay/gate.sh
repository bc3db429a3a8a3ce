#!/bin/sh
# Before a hook that runs at every tool call: with nothing waiting for this client it costs a shell and one look.
# Usage: gate.sh CLIENT PYTHON MARKS [OPTION...]. The broker puts a file named after the client's process into
# MARKS while mail waits or is on its way; one too many costs a moment, one too few would be a bug.
[ -e "$3/$PPID" ] || exit 0
client=$1 python=$2
shift 3
exec "$python" -I -S "${0%/*}/hook.py" "$client" "$@"
