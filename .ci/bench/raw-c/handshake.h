// The server's half of the opening handshake (RFC 6455 §4.2.2): SHA-1, Base64, and the answer.
#pragma once
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static inline uint32_t rotate(uint32_t word, int count) { return word << count | word >> (32 - count); }

// SHA-1 (RFC 3174) of at most 119 octets.
static void sha1(const uint8_t *octets, size_t count, uint8_t digest[20]) {
  uint32_t hash[5] = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
  uint8_t padded[128] = {0};
  size_t blocks = (count + 9 + 63) / 64;
  memcpy(padded, octets, count);
  padded[count] = 0x80;
  padded[blocks * 64 - 2] = count * 8 >> 8;
  padded[blocks * 64 - 1] = count * 8;
  for (size_t block = 0; block < blocks; block++) {
    const uint8_t *p = padded + block * 64;
    uint32_t w[80], a = hash[0], b = hash[1], c = hash[2], d = hash[3], e = hash[4];
    for (int t = 0; t < 16; t++, p += 4) w[t] = (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
    for (int t = 16; t < 80; t++) w[t] = rotate(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
    for (int t = 0; t < 80; t++) {
      uint32_t f = t < 20   ? ((b & c) | (~b & d)) + 0x5A827999
                   : t < 40 ? (b ^ c ^ d) + 0x6ED9EBA1
                   : t < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8F1BBCDC
                            : (b ^ c ^ d) + 0xCA62C1D6;
      uint32_t next = rotate(a, 5) + f + e + w[t];
      e = d, d = c, c = rotate(b, 30), b = a, a = next;
    }
    hash[0] += a, hash[1] += b, hash[2] += c, hash[3] += d, hash[4] += e;
  }
  for (int i = 0; i < 20; i++) digest[i] = hash[i / 4] >> 8 * (3 - i % 4);
}

// Base64 of a digest: 28 characters and a zero.
static void base64(const uint8_t digest[20], char text[29]) {
  static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (int i = 0; i < 7; i++) {
    uint32_t bits = digest[3 * i] << 16 | digest[3 * i + 1] << 8 | (i < 6 ? digest[3 * i + 2] : 0);
    for (int j = 0; j < 4; j++) text[4 * i + j] = alphabet[bits >> 6 * (3 - j) & 63];
  }
  strcpy(text + 27, "=");
}

// Writes the answer to a complete request; returns its length, or -1 where the request is no opening handshake.
static int handshake_answer(const char *request, char *answer, size_t room) {
  static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  const char *key = strcasestr(request, "\nSec-WebSocket-Key:");
  if (!key) return -1;
  key += sizeof "\nSec-WebSocket-Key:" - 1;
  key += strspn(key, " ");
  size_t length = strcspn(key, "\r");
  if (length > 64) return -1;
  uint8_t joined[128], digest[20];
  char accept[29];
  memcpy(joined, key, length);
  memcpy(joined + length, guid, sizeof guid - 1);
  sha1(joined, length + sizeof guid - 1, digest);
  base64(digest, accept);
  return snprintf(answer, room,
                  "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                  "Sec-WebSocket-Accept: %s\r\n\r\n",
                  accept);
}
