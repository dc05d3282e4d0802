#include "include/openssl.h"

#ifdef CSYSTEM_CHECK_OPENSSL

// Nothing but a check: each declaration is repeated beside OpenSSL's own, which the compiler refuses where they differ.
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#define COMPARE(library, result, name, parameters, arguments) result name parameters;
OPENSSL_FUNCTIONS(COMPARE)

#define SAME(name) _Static_assert((unsigned long)OPENSSL_##name == (unsigned long)(name), #name)
SAME(OPENSSL_INIT_NO_ATEXIT);
SAME(SSL_ERROR_SSL);
SAME(SSL_ERROR_WANT_READ);
SAME(SSL_ERROR_WANT_WRITE);
SAME(SSL_ERROR_SYSCALL);
SAME(SSL_ERROR_ZERO_RETURN);
SAME(SSL_VERIFY_PEER);
SAME(SSL_VERIFY_FAIL_IF_NO_PEER_CERT);
SAME(SSL_CTRL_MODE);
SAME(SSL_CTRL_SET_SESS_CACHE_MODE);
SAME(SSL_CTRL_SET_TLSEXT_HOSTNAME);
SAME(SSL_CTRL_CHAIN_CERT);
SAME(SSL_CTRL_SET_MIN_PROTO_VERSION);
SAME(SSL_CTRL_SET_MAX_PROTO_VERSION);
SAME(TLS1_2_VERSION);
SAME(TLS1_3_VERSION);
SAME(SSL_MODE_ENABLE_PARTIAL_WRITE);
SAME(SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
SAME(SSL_MODE_RELEASE_BUFFERS);
SAME(SSL_OP_NO_COMPRESSION);
SAME(SSL_OP_NO_RENEGOTIATION);
SAME(SSL_SESS_CACHE_CLIENT);
SAME(SSL_SESS_CACHE_SERVER);
SAME(SSL_SESS_CACHE_NO_INTERNAL);
SAME(SSL_TLSEXT_ERR_OK);
SAME(SSL_TLSEXT_ERR_ALERT_FATAL);
SAME(TLSEXT_NAMETYPE_host_name);
SAME(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
SAME(NID_subject_alt_name);
SAME(GEN_DNS);
SAME(GEN_IPADD);
SAME(XN_FLAG_RFC2253);
SAME(BIO_FLAGS_READ);
SAME(BIO_FLAGS_WRITE);
SAME(BIO_FLAGS_SHOULD_RETRY);
SAME(BIO_CTRL_FLUSH);
SAME(BIO_TYPE_SOURCE_SINK);
SAME(SSL_R_BAD_EXTENSION);
SAME(SSL_R_CERTIFICATE_VERIFY_FAILED);
SAME(SSL_R_HTTPS_PROXY_REQUEST);
SAME(SSL_R_HTTP_REQUEST);
SAME(SSL_R_VERSION_TOO_HIGH);
SAME(SSL_R_NO_CIPHERS_AVAILABLE);
SAME(SSL_R_NO_PROTOCOLS_AVAILABLE);
SAME(SSL_R_NO_SHARED_CIPHER);
SAME(SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE);
SAME(SSL_R_NO_APPLICATION_PROTOCOL);
SAME(SSL_R_UNSUPPORTED_PROTOCOL);
SAME(SSL_R_WRONG_VERSION_NUMBER);
SAME(SSL_R_VERSION_TOO_LOW);
SAME(SSL_AD_REASON_OFFSET);
SAME(SSL_AD_HANDSHAKE_FAILURE);
SAME(SSL_AD_BAD_CERTIFICATE);
SAME(SSL_AD_UNSUPPORTED_CERTIFICATE);
SAME(SSL_AD_CERTIFICATE_REVOKED);
SAME(SSL_AD_CERTIFICATE_EXPIRED);
SAME(SSL_AD_CERTIFICATE_UNKNOWN);
SAME(SSL_AD_UNKNOWN_CA);
SAME(SSL_AD_ACCESS_DENIED);
SAME(SSL_AD_DECRYPT_ERROR);
SAME(SSL_AD_PROTOCOL_VERSION);
SAME(SSL_AD_INSUFFICIENT_SECURITY);
SAME(SSL_AD_CERTIFICATE_REQUIRED);
SAME(SSL_AD_NO_APPLICATION_PROTOCOL);
SAME(X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT);
SAME(X509_V_ERR_CERT_NOT_YET_VALID);
SAME(X509_V_ERR_CERT_HAS_EXPIRED);
SAME(X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT);
SAME(X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN);
SAME(X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY);
SAME(X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE);
SAME(X509_V_ERR_INVALID_PURPOSE);
SAME(X509_V_ERR_HOSTNAME_MISMATCH);
SAME(X509_V_ERR_IP_ADDRESS_MISMATCH);

#else

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#define MEMBER(library, result, name, parameters, arguments) result(*name) parameters;
static struct {
  OPENSSL_FUNCTIONS(MEMBER)
  X509 *(*peer_certificate)(const SSL *);
  unsigned long (*take_error)(const char **file, int *line, const char **function, const char **data, int *flags);
} table;

#define DEFINE(library, result, name, parameters, arguments) \
  result openssl_##name parameters { return table.name arguments; }
OPENSSL_FUNCTIONS(DEFINE)

X509 *openssl_peer_certificate(const SSL *ssl) { return table.peer_certificate(ssl); }

static void free_name(void *name) { openssl_GENERAL_NAME_free(name); }

void openssl_free_names(void *names) { openssl_OPENSSL_sk_pop_free(names, free_name); }

unsigned long openssl_take_error(const char **function) {
  *function = NULL;
  return table.take_error ? table.take_error(NULL, NULL, function, NULL, NULL) : openssl_ERR_get_error();
}

int openssl_ssl_reason(unsigned long error) {
  int is_old = openssl_OpenSSL_version_num() < 0x30000000UL;
  unsigned long library = error >> (is_old ? 24 : 23) & 0xFF;
  return library == 20 ? (int)(error & 0xFFF) : 0;
}

static char failure[512];
static int is_loaded;

// Fills the table from one pair of libraries; 0 where a function is missing.
static int fill_table(void *ssl, void *crypto) {
#define LOOK_UP(library, result, name, parameters, arguments)         \
  table.name = (result(*) parameters)dlsym(library, #name);           \
  if (!table.name) {                                                  \
    snprintf(failure, sizeof failure, "OpenSSL has no %s", #name);    \
    return 0;                                                         \
  }
  OPENSSL_FUNCTIONS(LOOK_UP)
  table.peer_certificate = (X509 * (*)(const SSL *)) dlsym(ssl, "SSL_get1_peer_certificate");
  if (!table.peer_certificate) {
    table.peer_certificate = (X509 * (*)(const SSL *)) dlsym(ssl, "SSL_get_peer_certificate");
  }
  table.take_error = (unsigned long (*)(const char **, int *, const char **, const char **, int *))dlsym(
      crypto, "ERR_get_error_all");
  return table.peer_certificate != NULL;
}

static void load(void) {
  static const char *const versions[] = {"4", "3", "1.1"};
  for (size_t index = 0; index < sizeof versions / sizeof *versions; index += 1) {
    char name[32];
    snprintf(name, sizeof name, "libcrypto.so.%s", versions[index]);
    void *crypto = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    snprintf(name, sizeof name, "libssl.so.%s", versions[index]);
    void *ssl = crypto ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (ssl && fill_table(ssl, crypto)) {
      // By default `exit` frees what OpenSSL has, while other threads still use it, which then crash.
      is_loaded = table.OPENSSL_init_crypto(OPENSSL_OPENSSL_INIT_NO_ATEXIT, NULL);
      if (!is_loaded) snprintf(failure, sizeof failure, "OpenSSL cannot be initialized");
      return;
    }
    const char *reason = dlerror();
    if (reason) snprintf(failure, sizeof failure, "%s", reason);
    if (ssl) dlclose(ssl);
    if (crypto) dlclose(crypto);
  }
}

const char *openssl_load(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load);
  return is_loaded ? NULL : failure;
}

#endif
