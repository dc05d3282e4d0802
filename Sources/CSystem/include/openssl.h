// OpenSSL, loaded at run time: nothing of it is needed to build, and nothing is loaded before the first use of TLS.
//
// Every function used is declared once, in the list below, as OpenSSL 3.0 declares it. For each there is a function of
// the same name behind `openssl_`, which may be called once `openssl_load` has succeeded. Compiled with
// CSYSTEM_CHECK_OPENSSL, each line of the list is compared with OpenSSL's own headers (see openssl.c).
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <time.h>

// OpenSSL's types, all used through pointers only; the tags are OpenSSL's own.
typedef struct asn1_string_st ASN1_STRING;
typedef struct asn1_string_st ASN1_TIME;
typedef struct bio_method_st BIO_METHOD;
typedef struct bio_st BIO;
typedef struct engine_st ENGINE;
typedef struct evp_md_st EVP_MD;
typedef struct evp_pkey_st EVP_PKEY;
typedef struct GENERAL_NAME_st GENERAL_NAME;
typedef struct ossl_init_settings_st OPENSSL_INIT_SETTINGS;
typedef struct ssl_cipher_st SSL_CIPHER;
typedef struct ssl_ctx_st SSL_CTX;
typedef struct ssl_method_st SSL_METHOD;
typedef struct ssl_session_st SSL_SESSION;
typedef struct ssl_st SSL;
typedef struct stack_st OPENSSL_STACK;
typedef struct X509_name_st X509_NAME;
typedef struct X509_pubkey_st X509_PUBKEY;
typedef struct x509_st X509;
typedef struct x509_store_ctx_st X509_STORE_CTX;
typedef struct x509_store_st X509_STORE;
typedef struct X509_VERIFY_PARAM_st X509_VERIFY_PARAM;

// Callbacks.
typedef int openssl_pem_password(char *buffer, int size, int writing, void *context);
typedef int openssl_verify(int is_good, X509_STORE_CTX *context);
typedef int openssl_alpn_select(
    SSL *ssl, const unsigned char **selected, unsigned char *selected_length, const unsigned char *offered,
    unsigned int offered_length, void *context);

// F(library, result, name, parameters, arguments): what the two libraries offer and this one uses.
#define OPENSSL_FUNCTIONS(F)                                                                                            \
  F(ssl, const SSL_METHOD *, TLS_method, (void), ())                                                                    \
  F(ssl, SSL_CTX *, SSL_CTX_new, (const SSL_METHOD *method), (method))                                                  \
  F(ssl, void, SSL_CTX_free, (SSL_CTX *context), (context))                                                             \
  F(ssl, long, SSL_CTX_ctrl, (SSL_CTX *context, int command, long number, void *pointer),                               \
    (context, command, number, pointer))                                                                                \
  F(ssl, uint64_t, SSL_CTX_set_options, (SSL_CTX *context, uint64_t options), (context, options))                       \
  F(ssl, int, SSL_CTX_set_default_verify_paths, (SSL_CTX *context), (context))                                          \
  F(ssl, int, SSL_CTX_load_verify_locations, (SSL_CTX *context, const char *file, const char *directory),               \
    (context, file, directory))                                                                                         \
  F(ssl, X509_STORE *, SSL_CTX_get_cert_store, (const SSL_CTX *context), (context))                                     \
  F(ssl, int, SSL_CTX_use_certificate, (SSL_CTX *context, X509 *certificate), (context, certificate))                   \
  F(ssl, int, SSL_CTX_use_PrivateKey, (SSL_CTX *context, EVP_PKEY *key), (context, key))                                \
  F(ssl, int, SSL_CTX_check_private_key, (const SSL_CTX *context), (context))                                           \
  F(ssl, void, SSL_CTX_set_verify, (SSL_CTX *context, int mode, openssl_verify *callback), (context, mode, callback))   \
  F(ssl, void, SSL_CTX_set_cert_cb, (SSL_CTX *context, int (*callback)(SSL *, void *), void *pointer),                  \
    (context, callback, pointer))                                                                                       \
  F(ssl, int, SSL_CTX_set_alpn_protos, (SSL_CTX *context, const unsigned char *names, unsigned int length),             \
    (context, names, length))                                                                                           \
  F(ssl, void, SSL_CTX_set_alpn_select_cb, (SSL_CTX *context, openssl_alpn_select *callback, void *pointer),            \
    (context, callback, pointer))                                                                                       \
  F(ssl, void, SSL_CTX_sess_set_new_cb, (SSL_CTX *context, int (*callback)(SSL *, SSL_SESSION *)),                      \
    (context, callback))                                                                                                \
  F(ssl, int, SSL_CTX_set_session_id_context, (SSL_CTX *context, const unsigned char *id, unsigned int length),         \
    (context, id, length))                                                                                              \
  F(ssl, SSL *, SSL_new, (SSL_CTX *context), (context))                                                                 \
  F(ssl, void, SSL_free, (SSL *ssl), (ssl))                                                                             \
  F(ssl, void, SSL_set_bio, (SSL *ssl, BIO *reading, BIO *writing), (ssl, reading, writing))                            \
  F(ssl, void, SSL_set_connect_state, (SSL *ssl), (ssl))                                                                \
  F(ssl, void, SSL_set_accept_state, (SSL *ssl), (ssl))                                                                 \
  F(ssl, int, SSL_do_handshake, (SSL *ssl), (ssl))                                                                      \
  F(ssl, int, SSL_is_init_finished, (const SSL *ssl), (ssl))                                                            \
  F(ssl, int, SSL_read, (SSL *ssl, void *buffer, int count), (ssl, buffer, count))                                      \
  F(ssl, int, SSL_write, (SSL *ssl, const void *buffer, int count), (ssl, buffer, count))                               \
  F(ssl, int, SSL_shutdown, (SSL *ssl), (ssl))                                                                          \
  F(ssl, int, SSL_get_error, (const SSL *ssl, int result), (ssl, result))                                               \
  F(ssl, long, SSL_ctrl, (SSL *ssl, int command, long number, void *pointer), (ssl, command, number, pointer))          \
  F(ssl, X509_VERIFY_PARAM *, SSL_get0_param, (SSL *ssl), (ssl))                                                        \
  F(ssl, const char *, SSL_get_version, (const SSL *ssl), (ssl))                                                        \
  F(ssl, const SSL_CIPHER *, SSL_get_current_cipher, (const SSL *ssl), (ssl))                                           \
  F(ssl, const char *, SSL_CIPHER_get_name, (const SSL_CIPHER *cipher), (cipher))                                       \
  F(ssl, void, SSL_get0_alpn_selected, (const SSL *ssl, const unsigned char **name, unsigned int *length),              \
    (ssl, name, length))                                                                                                \
  F(ssl, struct stack_st_X509 *, SSL_get_peer_cert_chain, (const SSL *ssl), (ssl))                                      \
  F(ssl, struct stack_st_X509 *, SSL_get0_verified_chain, (const SSL *ssl), (ssl))                                      \
  F(ssl, int, SSL_set_session, (SSL *ssl, SSL_SESSION *session), (ssl, session))                                        \
  F(ssl, int, SSL_session_reused, (const SSL *ssl), (ssl))                                                              \
  F(ssl, void, SSL_SESSION_free, (SSL_SESSION *session), (session))                                                     \
  F(ssl, int, SSL_set_ex_data, (SSL *ssl, int index, void *data), (ssl, index, data))                                   \
  F(ssl, void *, SSL_get_ex_data, (const SSL *ssl, int index), (ssl, index))                                            \
  F(ssl, int, SSL_get_ex_data_X509_STORE_CTX_idx, (void), ())                                                           \
  F(crypto, int, OPENSSL_init_crypto, (uint64_t options, const OPENSSL_INIT_SETTINGS *settings), (options, settings))   \
  F(crypto, unsigned long, OpenSSL_version_num, (void), ())                                                             \
  F(crypto, unsigned long, ERR_get_error, (void), ())                                                                   \
  F(crypto, void, ERR_clear_error, (void), ())                                                                          \
  F(crypto, void, ERR_error_string_n, (unsigned long error, char *buffer, size_t length), (error, buffer, length))      \
  F(crypto, const char *, ERR_reason_error_string, (unsigned long error), (error))                                      \
  F(crypto, int, BIO_get_new_index, (void), ())                                                                         \
  F(crypto, BIO_METHOD *, BIO_meth_new, (int type, const char *name), (type, name))                                     \
  F(crypto, int, BIO_meth_set_read, (BIO_METHOD *method, int (*read)(BIO *, char *, int)), (method, read))              \
  F(crypto, int, BIO_meth_set_write, (BIO_METHOD *method, int (*write)(BIO *, const char *, int)), (method, write))     \
  F(crypto, int, BIO_meth_set_ctrl, (BIO_METHOD *method, long (*ctrl)(BIO *, int, long, void *)), (method, ctrl))       \
  F(crypto, BIO *, BIO_new, (const BIO_METHOD *method), (method))                                                       \
  F(crypto, int, BIO_free, (BIO *bio), (bio))                                                                           \
  F(crypto, void, BIO_set_data, (BIO *bio, void *data), (bio, data))                                                    \
  F(crypto, void *, BIO_get_data, (BIO *bio), (bio))                                                                    \
  F(crypto, void, BIO_set_init, (BIO *bio, int is_ready), (bio, is_ready))                                              \
  F(crypto, void, BIO_set_flags, (BIO *bio, int flags), (bio, flags))                                                   \
  F(crypto, void, BIO_clear_flags, (BIO *bio, int flags), (bio, flags))                                                 \
  F(crypto, const BIO_METHOD *, BIO_s_mem, (void), ())                                                                  \
  F(crypto, BIO *, BIO_new_mem_buf, (const void *bytes, int count), (bytes, count))                                     \
  F(crypto, int, BIO_read, (BIO *bio, void *buffer, int count), (bio, buffer, count))                                   \
  F(crypto, X509 *, PEM_read_bio_X509, (BIO *bio, X509 **reuse, openssl_pem_password *password, void *context),         \
    (bio, reuse, password, context))                                                                                    \
  F(crypto, EVP_PKEY *, PEM_read_bio_PrivateKey,                                                                        \
    (BIO *bio, EVP_PKEY **reuse, openssl_pem_password *password, void *context), (bio, reuse, password, context))       \
  F(crypto, void, EVP_PKEY_free, (EVP_PKEY *key), (key))                                                                \
  F(crypto, const EVP_MD *, EVP_sha256, (void), ())                                                                     \
  F(crypto, int, EVP_Digest,                                                                                            \
    (const void *bytes, size_t count, unsigned char *digest, unsigned int *length, const EVP_MD *type, ENGINE *engine), \
    (bytes, count, digest, length, type, engine))                                                                       \
  F(crypto, void, X509_free, (X509 *certificate), (certificate))                                                        \
  F(crypto, int, X509_STORE_add_cert, (X509_STORE *store, X509 *certificate), (store, certificate))                     \
  F(crypto, int, X509_VERIFY_PARAM_set1_host, (X509_VERIFY_PARAM *param, const char *name, size_t length),              \
    (param, name, length))                                                                                              \
  F(crypto, int, X509_VERIFY_PARAM_set1_ip_asc, (X509_VERIFY_PARAM *param, const char *address), (param, address))      \
  F(crypto, void, X509_VERIFY_PARAM_set_hostflags, (X509_VERIFY_PARAM *param, unsigned int flags), (param, flags))      \
  F(crypto, const char *, X509_verify_cert_error_string, (long error), (error))                                         \
  F(crypto, int, X509_STORE_CTX_get_error, (const X509_STORE_CTX *context), (context))                                  \
  F(crypto, void *, X509_STORE_CTX_get_ex_data, (const X509_STORE_CTX *context, int index), (context, index))           \
  F(crypto, X509_NAME *, X509_get_subject_name, (const X509 *certificate), (certificate))                               \
  F(crypto, int, X509_NAME_print_ex, (BIO *bio, const X509_NAME *name, int indent, unsigned long flags),                \
    (bio, name, indent, flags))                                                                                         \
  F(crypto, const ASN1_TIME *, X509_get0_notBefore, (const X509 *certificate), (certificate))                           \
  F(crypto, const ASN1_TIME *, X509_get0_notAfter, (const X509 *certificate), (certificate))                            \
  F(crypto, int, ASN1_TIME_to_tm, (const ASN1_TIME *time, struct tm *parts), (time, parts))                             \
  F(crypto, void *, X509_get_ext_d2i, (const X509 *certificate, int extension, int *critical, int *index),              \
    (certificate, extension, critical, index))                                                                          \
  F(crypto, int, OPENSSL_sk_num, (const OPENSSL_STACK *stack), (stack))                                                 \
  F(crypto, void *, OPENSSL_sk_value, (const OPENSSL_STACK *stack, int index), (stack, index))                          \
  F(crypto, void, OPENSSL_sk_pop_free, (OPENSSL_STACK *stack, void (*release)(void *)), (stack, release))               \
  F(crypto, void, GENERAL_NAME_free, (GENERAL_NAME *name), (name))                                                      \
  F(crypto, void *, GENERAL_NAME_get0_value, (const GENERAL_NAME *name, int *type), (name, type))                       \
  F(crypto, const unsigned char *, ASN1_STRING_get0_data, (const ASN1_STRING *string), (string))                        \
  F(crypto, int, ASN1_STRING_length, (const ASN1_STRING *string), (string))                                             \
  F(crypto, X509_PUBKEY *, X509_get_X509_PUBKEY, (const X509 *certificate), (certificate))                              \
  F(crypto, int, i2d_X509_PUBKEY, (const X509_PUBKEY *key, unsigned char **bytes), (key, bytes))                        \
  F(crypto, int, i2d_X509, (const X509 *certificate, unsigned char **bytes), (certificate, bytes))

#define OPENSSL_DECLARE(library, result, name, parameters, arguments) result openssl_##name parameters;
OPENSSL_FUNCTIONS(OPENSSL_DECLARE)
#undef OPENSSL_DECLARE

// Values that OpenSSL's headers define as macros.
enum {
  OPENSSL_OPENSSL_INIT_NO_ATEXIT = 0x80000,
  OPENSSL_SSL_ERROR_SSL = 1,
  OPENSSL_SSL_ERROR_WANT_READ = 2,
  OPENSSL_SSL_ERROR_WANT_WRITE = 3,
  OPENSSL_SSL_ERROR_SYSCALL = 5,
  OPENSSL_SSL_ERROR_ZERO_RETURN = 6,
  OPENSSL_SSL_VERIFY_PEER = 1,
  OPENSSL_SSL_VERIFY_FAIL_IF_NO_PEER_CERT = 2,
  OPENSSL_SSL_CTRL_MODE = 33,
  OPENSSL_SSL_CTRL_SET_SESS_CACHE_MODE = 44,
  OPENSSL_SSL_CTRL_SET_TLSEXT_HOSTNAME = 55,
  OPENSSL_SSL_CTRL_CHAIN_CERT = 89,
  OPENSSL_SSL_CTRL_SET_MIN_PROTO_VERSION = 123,
  OPENSSL_SSL_CTRL_SET_MAX_PROTO_VERSION = 124,
  OPENSSL_TLS1_2_VERSION = 0x0303,
  OPENSSL_TLS1_3_VERSION = 0x0304,
  OPENSSL_SSL_MODE_ENABLE_PARTIAL_WRITE = 0x1,
  OPENSSL_SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER = 0x2,
  OPENSSL_SSL_MODE_RELEASE_BUFFERS = 0x10,
  OPENSSL_SSL_OP_NO_COMPRESSION = 0x20000,
  OPENSSL_SSL_OP_NO_RENEGOTIATION = 0x40000000,
  OPENSSL_SSL_SESS_CACHE_CLIENT = 1,
  OPENSSL_SSL_SESS_CACHE_SERVER = 2,
  OPENSSL_SSL_SESS_CACHE_NO_INTERNAL = 0x300,
  OPENSSL_SSL_TLSEXT_ERR_OK = 0,
  OPENSSL_SSL_TLSEXT_ERR_ALERT_FATAL = 2,
  OPENSSL_TLSEXT_NAMETYPE_host_name = 0,
  OPENSSL_X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS = 0x4,
  OPENSSL_NID_subject_alt_name = 85,
  OPENSSL_GEN_DNS = 2,
  OPENSSL_GEN_IPADD = 7,
  OPENSSL_XN_FLAG_RFC2253 = 0x1110317,
  OPENSSL_BIO_FLAGS_READ = 1,
  OPENSSL_BIO_FLAGS_WRITE = 2,
  OPENSSL_BIO_FLAGS_SHOULD_RETRY = 8,
  OPENSSL_BIO_CTRL_FLUSH = 11,
  OPENSSL_BIO_TYPE_SOURCE_SINK = 0x400,
  OPENSSL_SSL_R_BAD_EXTENSION = 110,
  OPENSSL_SSL_R_CERTIFICATE_VERIFY_FAILED = 134,
  OPENSSL_SSL_R_HTTPS_PROXY_REQUEST = 155,
  OPENSSL_SSL_R_HTTP_REQUEST = 156,
  OPENSSL_SSL_R_VERSION_TOO_HIGH = 166,
  OPENSSL_SSL_R_NO_CIPHERS_AVAILABLE = 181,
  OPENSSL_SSL_R_NO_PROTOCOLS_AVAILABLE = 191,
  OPENSSL_SSL_R_NO_SHARED_CIPHER = 193,
  OPENSSL_SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE = 199,
  OPENSSL_SSL_R_NO_APPLICATION_PROTOCOL = 235,
  OPENSSL_SSL_R_UNSUPPORTED_PROTOCOL = 258,
  OPENSSL_SSL_R_WRONG_VERSION_NUMBER = 267,
  OPENSSL_SSL_R_VERSION_TOO_LOW = 396,
  OPENSSL_SSL_AD_REASON_OFFSET = 1000,
  OPENSSL_SSL_AD_HANDSHAKE_FAILURE = 40,
  OPENSSL_SSL_AD_BAD_CERTIFICATE = 42,
  OPENSSL_SSL_AD_UNSUPPORTED_CERTIFICATE = 43,
  OPENSSL_SSL_AD_CERTIFICATE_REVOKED = 44,
  OPENSSL_SSL_AD_CERTIFICATE_EXPIRED = 45,
  OPENSSL_SSL_AD_CERTIFICATE_UNKNOWN = 46,
  OPENSSL_SSL_AD_UNKNOWN_CA = 48,
  OPENSSL_SSL_AD_ACCESS_DENIED = 49,
  OPENSSL_SSL_AD_DECRYPT_ERROR = 51,
  OPENSSL_SSL_AD_PROTOCOL_VERSION = 70,
  OPENSSL_SSL_AD_INSUFFICIENT_SECURITY = 71,
  OPENSSL_SSL_AD_CERTIFICATE_REQUIRED = 116,
  OPENSSL_SSL_AD_NO_APPLICATION_PROTOCOL = 120,
  OPENSSL_X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT = 2,
  OPENSSL_X509_V_ERR_CERT_NOT_YET_VALID = 9,
  OPENSSL_X509_V_ERR_CERT_HAS_EXPIRED = 10,
  OPENSSL_X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT = 18,
  OPENSSL_X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN = 19,
  OPENSSL_X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY = 20,
  OPENSSL_X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE = 21,
  OPENSSL_X509_V_ERR_INVALID_PURPOSE = 26,
  OPENSSL_X509_V_ERR_HOSTNAME_MISMATCH = 62,
  OPENSSL_X509_V_ERR_IP_ADDRESS_MISMATCH = 64,
};

// Loads the newest of libssl.so.4, .so.3 and .so.1.1 with its libcrypto, once; NULL where that succeeded, else why not.
// The text stays valid.
const char *openssl_load(void);

// The peer's certificate, owned by the caller; NULL where it sent none. Its function has a new name since OpenSSL 3.
X509 *openssl_peer_certificate(const SSL *ssl);

// Takes the oldest error of this thread; 0: there is none. `function` becomes the name of the function of OpenSSL's
// that found it, NULL before OpenSSL 3.
unsigned long openssl_take_error(const char **function);

// The reason code of an error of libssl's; 0 for an error of another part. The bits differ between 1.1 and 3.
int openssl_ssl_reason(unsigned long error);

// Frees what X509_get_ext_d2i returned for the subject alternative names.
void openssl_free_names(void *names);
