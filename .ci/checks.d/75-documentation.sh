# The documentation builds without a warning, its listings compile and run, and the tests that it names exist.
set -euo pipefail
catalog=Sources/WebSocketHandling/WebSocketHandling.docc
.ci/listings "$catalog"/*.md

missing=0
while IFS= read -r suite; do
  grep -rqF "@Suite(\"$suite\"" Tests || { echo "no test suite is named: $suite" >&2; missing=1; }
done < <(grep -o '“[^”]*”' "$catalog/TheContract.md" | tr -d '“”' | sort -u)
[[ $missing -eq 0 ]]

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build=$(swift build --show-bin-path)
# What WebSocketHandling exports of the modules below it is documented with it.
swift symbolgraph-extract -module-name WebSocketHandling -minimum-access-level public \
  -experimental-allowed-reexported-modules=WebSocketCore,WebSocketTransport -skip-inherited-docs \
  -I "$build/Modules" -Xcc "-fmodule-map-file=$build/CSystem.build/module.modulemap" \
  -target "$(uname -m)-unknown-linux-gnu" -output-dir "$work"
docc convert "$catalog" --additional-symbol-graph-dir "$work" --output-path "$work/archive" --warnings-as-errors \
  --fallback-display-name WebSocketHandling --fallback-bundle-identifier WebSocketHandling
