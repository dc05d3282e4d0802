# What the README shows works: its listings compile and run, its commands run, and it names the tool's commands.
set -euo pipefail
.ci/listings README.md
commands=$(awk '/^```/ { inside = !inside; on = inside && $0 == "```"; next } on' README.md)
while IFS= read -r command; do
  case $command in
    'swift test') ;;  # the last step of .ci/run
    'swift run websocket chat') timeout 120 swift run --skip-build websocket chat >/dev/null ;;
    *) echo "the README has a command that no check runs: $command" >&2; exit 1 ;;
  esac
done <<<"$commands"
named=$(sed -n 's/^| `websocket` | the command-line tool: \(.*\) |$/\1/p' README.md | tr -d '`,' | tr ' ' '\n' | sort)
known=$(.build/debug/websocket help | awk '/^  / { print $1 }' | sort -u)
diff <(echo "$named") <(echo "$known")
