# The tool and the library against Action Cable of Rails: one server, then two with Redis behind nginx.
set -euo pipefail
swift build --build-tests
.ci/peers/actioncable/run .build/release/websocket
