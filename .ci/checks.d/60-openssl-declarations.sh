# What CSystem declares of OpenSSL is compared with OpenSSL's own headers; nothing is linked.
set -euo pipefail
.ci/peers/tls/headers
clang -fsyntax-only -Wall -Wextra -Werror -DCSYSTEM_CHECK_OPENSSL Sources/CSystem/openssl.c
