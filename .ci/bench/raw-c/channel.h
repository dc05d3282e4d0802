// A socket, or TLS 1.3 on one where `tls` is set: the same two calls for both.
#pragma once
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include "frames.h"

typedef struct {
  int descriptor;
  SSL *ssl;
} Channel;

static SSL_CTX *tls;

static void die_of_tls(const char *what) {
  fprintf(stderr, "%s: ", what);
  ERR_print_errors_fp(stderr);
  exit(1);
}

static void prepare_tls(void) {
  tls = SSL_CTX_new(TLS_method());
  SSL_CTX_set_min_proto_version(tls, TLS1_3_VERSION);
  SSL_CTX_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(tls, 1);  // one record: with more OpenSSL moves what it holds for each
}

static Channel make_channel(int descriptor) {
  Channel channel = {descriptor, NULL};
  if (tls && !((channel.ssl = SSL_new(tls)) && SSL_set_fd(channel.ssl, descriptor))) die_of_tls("SSL_new");
  return channel;
}

// The result of a call of OpenSSL's as the socket's own would be.
static ssize_t as_socket(SSL *ssl, int result) {
  if (result > 0) return result;
  int error = SSL_get_error(ssl, result);
  if (error == SSL_ERROR_ZERO_RETURN) return 0;
  errno = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? EAGAIN : EIO;
  ERR_clear_error();
  return -1;
}

// Reads what one record holds at most.
static ssize_t channel_read(Channel *c, void *bytes, size_t count) {
  return c->ssl ? as_socket(c->ssl, SSL_read(c->ssl, bytes, count)) : recv(c->descriptor, bytes, count, 0);
}

// Reads as much as there is; less than `count`: there is no more now.
static ssize_t channel_fill(Channel *c, uint8_t *bytes, size_t count) {
  size_t filled = 0;
  ssize_t got = channel_read(c, bytes, count);
  if (!c->ssl) return got;
  for (; got > 0 && (filled += got) < count; got = channel_read(c, bytes + filled, count - filled)) continue;
  return filled ? (ssize_t)filled : got;
}

static ssize_t channel_write(Channel *c, const uint8_t *bytes, size_t count) {
  if (!c->ssl) return send(c->descriptor, bytes, count, MSG_NOSIGNAL);
  size_t written = 0;
  ssize_t put = 1;
  for (; put > 0 && written < count; written += put > 0 ? put : 0) {
    put = as_socket(c->ssl, SSL_write(c->ssl, bytes + written, count - written));
  }
  return written ? (ssize_t)written : put;
}
