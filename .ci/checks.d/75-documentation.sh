# The documentation builds without a warning, its listings compile and run, and the tests that it names exist.
set -euo pipefail
.ci/listings Sources/*/*.docc/*.md

missing=0
while IFS= read -r suite; do
  grep -rqF "@Suite(\"$suite\"" Tests || { echo "no test suite is named: $suite" >&2; missing=1; }
done < <(grep -o '“[^”]*”' Sources/WebSocketHandling/WebSocketHandling.docc/TheContract.md | tr -d '“”' | sort -u)
[[ $missing -eq 0 ]]

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build=$(swift build --show-bin-path)
for catalog in Sources/*/*.docc; do
  module=$(basename "$catalog" .docc)
  echo "-- $module"
  mkdir "$work/$module"
  # What WebSocketHandling exports of the modules below it is documented with it.
  exported=()
  [[ $module == WebSocketHandling ]] \
    && exported=(-experimental-allowed-reexported-modules=WebSocketCore,WebSocketTransport)
  swift symbolgraph-extract -module-name "$module" -minimum-access-level public "${exported[@]}" -skip-inherited-docs \
    -I "$build/Modules" -Xcc "-fmodule-map-file=$build/CSystem.build/module.modulemap" \
    -target "$(uname -m)-unknown-linux-gnu" -output-dir "$work/$module"
  docc convert "$catalog" --additional-symbol-graph-dir "$work/$module" --output-path "$work/$module/archive" \
    --warnings-as-errors --fallback-display-name "$module" --fallback-bundle-identifier "$module"
done
