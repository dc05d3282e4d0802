// An echo server that rewrites the stream in place: it drops the masks and sends what it read, one `send` per `recv`.
//
//   raw-server [--tls CERTIFICATE KEY]     prints its port and serves 127.0.0.1 until it is killed
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>
#include "channel.h"
#include "handshake.h"

// Enough that headers which shrink, and one that was cut, find room before the input.
enum { SLACK = 16, INPUT = 512 << 10, PENDING_MAX = 32 << 20 };

typedef struct {
  Channel channel;
  int is_open;
  char *request;  // the opening handshake's, until it is complete
  size_t request_length;
  uint8_t header[HEADER_MAX];  // of the frame that is being read
  unsigned header_count;
  uint32_t key;
  uint64_t length, done;  // of its payload
  int in_payload, closes;
  uint8_t *pending;  // what the socket did not take
  size_t pending_start, pending_end, pending_capacity;
  uint32_t interest;
} Connection;

static int epoll;
static uint8_t memory[SLACK + INPUT];
static uint8_t *const input = memory + SLACK;

static void end(Connection *c) {
  SSL_free(c->channel.ssl);
  close(c->channel.descriptor);
  free(c->request);
  free(c->pending);
  free(c);
}

// Sends, or keeps what the socket does not take; false when the connection is lost.
static int put(Connection *c, const uint8_t *bytes, size_t count) {
  if (c->pending_start == c->pending_end && count) {
    ssize_t sent = channel_write(&c->channel, bytes, count);
    if (sent < 0 && errno != EAGAIN) return 0;
    if (sent > 0) {
      bytes += sent;
      count -= sent;
    }
  }
  if (count) {
    size_t waiting = c->pending_end - c->pending_start;
    if (c->pending_end + count > c->pending_capacity && c->pending_start) {
      memmove(c->pending, c->pending + c->pending_start, waiting);
      c->pending_start = 0;
      c->pending_end = waiting;
    }
    if (waiting + count > c->pending_capacity) {
      c->pending_capacity = 2 * (waiting + count);
      if (!(c->pending = realloc(c->pending, c->pending_capacity))) die("realloc");
    }
    memcpy(c->pending + c->pending_end, bytes, count);
    c->pending_end += count;
  }
  size_t waiting = c->pending_end - c->pending_start;
  uint32_t interest = (waiting < PENDING_MAX ? EPOLLIN : 0) | (waiting ? EPOLLOUT : 0);
  if (interest != c->interest) {
    struct epoll_event event = {.events = c->interest = interest, .data.ptr = c};
    epoll_ctl(epoll, EPOLL_CTL_MOD, c->channel.descriptor, &event);
  }
  return 1;
}

static int put_pending(Connection *c) {
  ssize_t sent = channel_write(&c->channel, c->pending + c->pending_start, c->pending_end - c->pending_start);
  if (sent < 0) return errno == EAGAIN;
  c->pending_start += sent;
  if (c->pending_start == c->pending_end) c->pending_start = c->pending_end = 0;
  return put(c, NULL, 0);
}

// Answers the opening handshake; returns the octets that belong to it, or -1 where it is none.
static ssize_t open_connection(Connection *c, size_t count) {
  size_t before = c->request_length;
  if (before + count > 8191) return -1;
  c->request = realloc(c->request, 8192);
  memcpy(c->request + before, input, count);
  c->request_length += count;
  c->request[c->request_length] = 0;
  char *rest = strstr(c->request, "\r\n\r\n");
  if (!rest) return count;
  char answer[256];
  int length = handshake_answer(c->request, answer, sizeof answer);
  size_t used = rest + 4 - c->request - before;
  free(c->request);
  c->request = NULL;
  c->is_open = 1;
  return length > 0 && put(c, (uint8_t *)answer, length) ? (ssize_t)used : -1;
}

// Echoes what was read, written over itself; false when the connection is to be ended.
static int echo(Connection *c, size_t at, size_t count) {
  uint8_t *out = input + at - SLACK, *start = out;
  while (at < count) {
    if (!c->in_payload) {
      uint8_t *header = c->header;
      header[c->header_count++] = input[at++];
      if (c->header_count < 2 || c->header_count < header_length(header)) continue;
      if (!(header[1] & 128)) return 0;
      c->length = payload_length(header);
      c->done = 0;
      c->in_payload = c->length > 0;
      c->closes |= (header[0] & 15) == 8;
      uint8_t first = (header[0] & 15) == 9 ? (header[0] & 0xF0) | 10 : header[0];
      out += put_header(out, first, c->length, 0);
      memcpy(&c->key, header + c->header_count - 4, 4);
      c->header_count = 0;
    } else {
      size_t piece = c->length - c->done;
      if (piece > count - at) piece = count - at;
      mask_copy(out, input + at, piece, c->key, c->done);
      out += piece;
      at += piece;
      c->done += piece;
      c->in_payload = c->done < c->length;
    }
  }
  if (!put(c, start, out - start)) return 0;
  if (c->closes && !c->in_payload) shutdown(c->channel.descriptor, SHUT_WR);
  return 1;
}

static int take(Connection *c) {
  ssize_t count, at;
  do {
    count = channel_fill(&c->channel, input, INPUT), at = 0;
    if (count < 0 && errno == EAGAIN) return 1;
    if (count <= 0) return 0;
    if (!c->is_open && (at = open_connection(c, count)) < 0) return 0;
    if (at < count && !echo(c, at, count)) return 0;
  } while (count == INPUT);  // what lies decrypted in OpenSSL's memory is no news of the socket's
  return 1;
}

int main(int argc, char **argv) {
  if (argc == 4 && !strcmp(argv[1], "--tls")) {
    prepare_tls();
    if (!SSL_CTX_use_certificate_chain_file(tls, argv[2]) || !SSL_CTX_use_PrivateKey_file(tls, argv[3], SSL_FILETYPE_PEM))
      die_of_tls(argv[2]);
  }
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 4096)) die("listen");
  getsockname(listener, (struct sockaddr *)&address, &length);
  epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN}, events[256];
  epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
  printf("%d\n", ntohs(address.sin_port));
  fflush(stdout);
  for (;;) {
    int count = epoll_wait(epoll, events, 256, -1);
    for (int i = 0; i < count; i++) {
      Connection *c = events[i].data.ptr;
      if (!c) {
        int on = 1, descriptor;
        while ((descriptor = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
          setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
          c = calloc(1, sizeof *c);
          c->channel = make_channel(descriptor);
          if (tls) SSL_set_accept_state(c->channel.ssl);
          event = (struct epoll_event){.events = EPOLLIN, .data.ptr = c};
          epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event);
        }
        continue;
      }
      int lives = !(events[i].events & EPOLLOUT) || put_pending(c);
      if (lives && events[i].events & ~EPOLLOUT) lives = take(c);
      if (!lives) end(c);
    }
  }
}
