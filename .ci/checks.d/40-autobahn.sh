# The Autobahn test suite, sections 1 to 10, both roles: 301 of 301 strict.
set -euo pipefail
export AUTOBAHN_EXCLUDE='"12.*","13.*"' AUTOBAHN_CASES=301
work=$(mktemp -d)
trap 'kill ${server:-} 2>/dev/null || true; rm -rf "$work"' EXIT
[[ -f ${AUTOBAHN_HOME:-$HOME/.cache/autobahn}/.complete ]] || apt-get update >/dev/null
.ci/peers/autobahn/run client "$work/client" .build/release/websocket autobahn
.build/release/websocket serve --echo >"$work/url" 2>/dev/null & server=$!
for _ in $(seq 1200); do [[ -s $work/url ]] && break; sleep 0.05; done
.ci/peers/autobahn/run server "$work/server" "$(head -n 1 "$work/url")"
