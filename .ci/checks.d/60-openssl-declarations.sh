# What CSystem declares of OpenSSL is compared with OpenSSL's own headers; nothing is linked.
set -euo pipefail
if ! [[ -f /usr/include/openssl/ssl.h ]]; then
  apt-get update >/dev/null
  apt-get install -y --no-install-recommends libssl-dev >/dev/null
fi
clang -fsyntax-only -Wall -Wextra -Werror -DCSYSTEM_CHECK_OPENSSL Sources/CSystem/openssl.c
