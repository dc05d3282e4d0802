// One TLS session's side of OpenSSL: a BIO on memory, so that OpenSSL never sees a descriptor, and what its callbacks
// noted on the way.
#pragma once

#include "openssl.h"

struct tls_wire {
  // Records that came and were not read yet; lent by the owner for the time of a call.
  const uint8_t *input;
  size_t input_count;
  // Records to be written, from `output_start` on; owned by the wire.
  uint8_t *output;
  size_t output_start, output_end, output_capacity;
  // The first thing wrong with the peer's certificate, as OpenSSL's X509_V_ERR number; 0: nothing.
  int verify_error;
  // Whether the handshake goes on in spite of that, since somebody else decides.
  int continues;
  // Whether the peer asked for a certificate.
  int certificate_requested;
  // The newest session that the peer offers to resume; owned by the wire.
  SSL_SESSION *session;
};

// Beyond this many bytes that nobody takes, OpenSSL is told to wait: a peer that does not read cannot make them grow.
enum { TLS_WIRE_OUTPUT_LIMIT = 256 << 10 };

// Makes a client's sessions note on their wires what is wrong with the certificate, whether one was asked for, and the
// sessions offered.
void tls_wire_prepare_client(SSL_CTX *context);

// Makes a server's sessions select http/1.1 with ALPN, and demand a certificate of the client's where wanted.
void tls_wire_prepare_server(SSL_CTX *context, int demands_certificate);

// Ties a new session to its wire, which must outlive it; 0 where memory is missing.
int tls_wire_attach(SSL *ssl, struct tls_wire *wire);

// Makes room for that many more bytes of output, so that they need not be moved; where memory is missing, later.
void tls_wire_reserve(struct tls_wire *wire, size_t count);

// Forgets the first bytes of the output.
void tls_wire_consume(struct tls_wire *wire, size_t count);

// Gives back what the wire owns.
void tls_wire_clear(struct tls_wire *wire);

// Gives no passphrase, where OpenSSL would ask on the terminal.
int tls_wire_no_passphrase(char *buffer, int size, int writing, void *context);

// The seconds since 1970 of a certificate's time, in UTC.
int64_t tls_wire_seconds(const ASN1_TIME *time);
