#define _GNU_SOURCE
#include "include/tlswire.h"

#ifndef CSYSTEM_CHECK_OPENSSL

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// The slot of a session's application data, which OpenSSL keeps free.
enum { APPLICATION_DATA = 0 };

static const int retry_flags = OPENSSL_BIO_FLAGS_READ | OPENSSL_BIO_FLAGS_WRITE | OPENSSL_BIO_FLAGS_SHOULD_RETRY;

static int wire_read(BIO *bio, char *buffer, int count) {
  struct tls_wire *wire = openssl_BIO_get_data(bio);
  openssl_BIO_clear_flags(bio, retry_flags);
  if (wire->input_count == 0) {
    openssl_BIO_set_flags(bio, OPENSSL_BIO_FLAGS_READ | OPENSSL_BIO_FLAGS_SHOULD_RETRY);
    return -1;
  }
  size_t taken = (size_t)count < wire->input_count ? (size_t)count : wire->input_count;
  memcpy(buffer, wire->input, taken);
  wire->input += taken;
  wire->input_count -= taken;
  return (int)taken;
}

void tls_wire_reserve(struct tls_wire *wire, size_t count) {
  if (wire->output_end + count <= wire->output_capacity) return;
  size_t waiting = wire->output_end - wire->output_start;
  size_t capacity = waiting + count;
  if (capacity < 2 * wire->output_capacity) capacity = 2 * wire->output_capacity;
  uint8_t *grown = malloc(capacity);
  if (!grown) return;
  if (waiting) memcpy(grown, wire->output + wire->output_start, waiting);
  free(wire->output);
  wire->output = grown;
  wire->output_start = 0;
  wire->output_end = waiting;
  wire->output_capacity = capacity;
}

static int wire_write(BIO *bio, const char *bytes, int count) {
  struct tls_wire *wire = openssl_BIO_get_data(bio);
  openssl_BIO_clear_flags(bio, retry_flags);
  size_t waiting = wire->output_end - wire->output_start;
  if (waiting >= TLS_WIRE_OUTPUT_LIMIT) {
    openssl_BIO_set_flags(bio, OPENSSL_BIO_FLAGS_WRITE | OPENSSL_BIO_FLAGS_SHOULD_RETRY);
    return -1;
  }
  tls_wire_reserve(wire, (size_t)count);
  if (wire->output_end + (size_t)count > wire->output_capacity) return -1;
  memcpy(wire->output + wire->output_end, bytes, (size_t)count);
  wire->output_end += (size_t)count;
  return count;
}

static long wire_control(BIO *bio, int command, long number, void *pointer) {
  (void)bio;
  (void)number;
  (void)pointer;
  return command == OPENSSL_BIO_CTRL_FLUSH;
}

static BIO_METHOD *method;

static void make_method(void) {
  method = openssl_BIO_meth_new(openssl_BIO_get_new_index() | OPENSSL_BIO_TYPE_SOURCE_SINK, "memory of the owner's");
  if (!method) return;
  openssl_BIO_meth_set_read(method, wire_read);
  openssl_BIO_meth_set_write(method, wire_write);
  openssl_BIO_meth_set_ctrl(method, wire_control);
}

int tls_wire_attach(SSL *ssl, struct tls_wire *wire) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_method);
  BIO *bio = method ? openssl_BIO_new(method) : NULL;
  if (!bio) return 0;
  openssl_BIO_set_data(bio, wire);
  openssl_BIO_set_init(bio, 1);
  openssl_SSL_set_bio(ssl, bio, bio);  // takes the one reference for both directions
  return openssl_SSL_set_ex_data(ssl, APPLICATION_DATA, wire);
}

void tls_wire_consume(struct tls_wire *wire, size_t count) {
  wire->output_start += count;
  if (wire->output_start < wire->output_end) return;
  // An idle connection owns no memory for what it may write one day.
  free(wire->output);
  wire->output = NULL;
  wire->output_start = wire->output_end = wire->output_capacity = 0;
}

void tls_wire_clear(struct tls_wire *wire) {
  free(wire->output);
  if (wire->session) openssl_SSL_SESSION_free(wire->session);
  memset(wire, 0, sizeof *wire);
}

static int note_verification(int is_good, X509_STORE_CTX *context) {
  SSL *ssl = openssl_X509_STORE_CTX_get_ex_data(context, openssl_SSL_get_ex_data_X509_STORE_CTX_idx());
  struct tls_wire *wire = openssl_SSL_get_ex_data(ssl, APPLICATION_DATA);
  if (!is_good && wire->verify_error == 0) wire->verify_error = openssl_X509_STORE_CTX_get_error(context);
  return is_good || wire->continues;
}

static int note_request(SSL *ssl, void *context) {
  (void)context;
  struct tls_wire *wire = openssl_SSL_get_ex_data(ssl, APPLICATION_DATA);
  wire->certificate_requested = 1;
  return 1;
}

static int keep_session(SSL *ssl, SSL_SESSION *session) {
  struct tls_wire *wire = openssl_SSL_get_ex_data(ssl, APPLICATION_DATA);
  if (wire->session) openssl_SSL_SESSION_free(wire->session);
  wire->session = session;
  return 1;  // the reference is ours now
}

// Selects http/1.1 from what a client offers with ALPN, or fails the handshake.
static int select_http(
    SSL *ssl, const unsigned char **selected, unsigned char *selected_length, const unsigned char *offered,
    unsigned int offered_length, void *context) {
  (void)ssl;
  (void)context;
  static const char name[] = "http/1.1";
  const unsigned char length = sizeof name - 1;
  for (unsigned int index = 0; index < offered_length; index += 1u + offered[index]) {
    if (offered[index] == length && memcmp(offered + index + 1, name, length) == 0) {
      *selected = offered + index + 1;
      *selected_length = length;
      return OPENSSL_SSL_TLSEXT_ERR_OK;
    }
  }
  return OPENSSL_SSL_TLSEXT_ERR_ALERT_FATAL;
}

void tls_wire_prepare_client(SSL_CTX *context) {
  openssl_SSL_CTX_set_verify(context, OPENSSL_SSL_VERIFY_PEER, note_verification);
  openssl_SSL_CTX_set_cert_cb(context, note_request, NULL);
  openssl_SSL_CTX_sess_set_new_cb(context, keep_session);
}

void tls_wire_prepare_server(SSL_CTX *context, int demands_certificate) {
  if (demands_certificate) {
    openssl_SSL_CTX_set_verify(
        context, OPENSSL_SSL_VERIFY_PEER | OPENSSL_SSL_VERIFY_FAIL_IF_NO_PEER_CERT, note_verification);
  }
  openssl_SSL_CTX_set_alpn_select_cb(context, select_http, NULL);
}

int tls_wire_no_passphrase(char *buffer, int size, int writing, void *context) {
  (void)buffer;
  (void)size;
  (void)writing;
  (void)context;
  return -1;
}

int64_t tls_wire_seconds(const ASN1_TIME *time) {
  struct tm parts;
  return openssl_ASN1_TIME_to_tm(time, &parts) ? timegm(&parts) : 0;
}

#endif
