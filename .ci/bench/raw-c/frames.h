// What both programs need of RFC 6455: frame headers and masking.
#pragma once
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_MAX = 14 };

static inline void die(const char *what) {
  perror(what);
  exit(1);
}

// The length of the header that starts with these two octets.
static inline unsigned header_length(const uint8_t *octets) {
  unsigned length = octets[1] & 127;
  return 2 + (length == 126 ? 2 : length == 127 ? 8 : 0) + (octets[1] & 128 ? 4 : 0);
}

// The payload length that a complete header announces.
static inline uint64_t payload_length(const uint8_t *octets) {
  unsigned length = octets[1] & 127, count = length == 126 ? 2 : length == 127 ? 8 : 0;
  if (!count) return length;
  uint64_t value = 0;
  for (unsigned i = 0; i < count; i++) value = value << 8 | octets[2 + i];
  return value;
}

// Writes a header without its masking key and returns its length.
static inline unsigned put_header(uint8_t *out, uint8_t first, uint64_t length, int masked) {
  out[0] = first;
  unsigned count = length < 126 ? 0 : length < 65536 ? 2 : 8;
  out[1] = (masked ? 128 : 0) | (count == 0 ? length : count == 2 ? 126 : 127);
  for (unsigned i = 0; i < count; i++) out[2 + i] = length >> 8 * (count - 1 - i);
  return 2 + count;
}

// Copies and masks; `offset` is the place of the first octet in its payload.
static inline void mask_copy(uint8_t *out, const uint8_t *in, size_t count, uint32_t key, uint64_t offset) {
  unsigned turn = 8 * (offset & 3);
  if (turn) key = key >> turn | key << (32 - turn);
  uint64_t wide = (uint64_t)key << 32 | key;
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    uint64_t word;
    memcpy(&word, in + i, 8);
    word ^= wide;
    memcpy(out + i, &word, 8);
  }
  for (; i < count; i++) out[i] = in[i] ^ (uint8_t)(key >> 8 * (i & 3));
}
