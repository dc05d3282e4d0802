// A client that allows itself every shortcut: what this kernel and this processor can do at most.
//
//   raw-client PORT s1|s2|s3a|s3b|s4 [COUNT] [--ca FILE]     with an authority's certificate: over TLS
//
// Prints one line of JSON; us, cpu, user, sys: microseconds per message; p50, p99: of a trip; kib: KiB per connection.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include "channel.h"

static uint16_t port;

// MARK: Measuring

typedef struct {
  double time, user, system;
} Mark;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

static Mark mark(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (Mark){now(), usage.ru_utime.tv_sec + usage.ru_utime.tv_usec * 1e-6,
                usage.ru_stime.tv_sec + usage.ru_stime.tv_usec * 1e-6};
}

static double resident_kib(void) {
  long size, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%ld %ld", &size, &resident) != 2) die("statm");
  fclose(file);
  return resident * (double)sysconf(_SC_PAGESIZE) / 1024;
}

static int compare(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return a < b ? -1 : a > b;
}

static void report(const char *scenario, long count, Mark start, double *trips, double kib) {
  Mark end = mark();
  double each = 1e6 / count, user = (end.user - start.user) * each, system = (end.system - start.system) * each;
  if (trips) qsort(trips, count, sizeof *trips, compare);
  printf("{\"peer\":\"raw-c\",\"sc\":\"%s\",\"n\":%ld,\"us\":%.3f,\"cpu\":%.3f,\"user\":%.3f,\"sys\":%.3f,"
         "\"p50\":%.2f,\"p99\":%.2f,\"kib\":%.2f}\n",
         scenario, count, (end.time - start.time) * each, user + system, user, system,
         trips ? trips[count / 2] * 1e6 : 0, trips ? trips[count * 99 / 100] * 1e6 : 0, kib);
}

// MARK: Connections

static uint32_t random_bits(void) {
  static uint64_t state = 88172645463325252;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state >> 16;
}

// A connection behind the opening handshake, whose key is always the RFC's example.
static Channel open_connection(void) {
  static const char request[] =
      "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int on = 1, descriptor = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(descriptor, (struct sockaddr *)&address, sizeof address)) die("connect");
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  Channel channel = make_channel(descriptor);
  if (tls && !(X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(channel.ssl), "127.0.0.1") && SSL_connect(channel.ssl) == 1))
    die_of_tls("TLS handshake");
  if (channel_write(&channel, (const uint8_t *)request, sizeof request - 1) != sizeof request - 1) die("send");
  char answer[1024] = "";
  for (size_t length = 0; length < 4 || memcmp(answer + length - 4, "\r\n\r\n", 4);) {
    // Nothing follows before the first message is sent, so whatever comes belongs to the answer.
    ssize_t count = channel_read(&channel, answer + length, sizeof answer - 1 - length);
    if (count <= 0) die("answer");
    length += count;
  }
  if (!strstr(answer, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")) die("Sec-WebSocket-Accept");
  return channel;
}

static int is_ascii(const uint8_t *octets, size_t count) {
  uint64_t all = 0;
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    uint64_t word;
    memcpy(&word, octets + i, 8);
    all |= word;
  }
  for (; i < count; i++) all |= octets[i];
  return !(all & 0x8080808080808080);
}

// MARK: Scenarios

// Many messages on their way: writes pieces of at most `write_piece`, reads at most `read_piece` at a time, the rest of
// a long message straight into its own memory.
static void exchange(const char *scenario, long count, long in_flight, int text, size_t size, size_t read_piece,
                     size_t write_piece) {
  Channel channel = open_connection();
  int epoll = epoll_create1(0), blocked = 0, waits_to_write = 0, may_hold_more = 0;
  struct epoll_event event = {.events = EPOLLIN};
  fcntl(channel.descriptor, F_SETFL, O_NONBLOCK);
  epoll_ctl(epoll, EPOLL_CTL_ADD, channel.descriptor, &event);
  uint8_t *payload = malloc(size), *message = malloc(size), *input = malloc(read_piece);
  uint8_t *output = malloc(write_piece + HEADER_MAX), header[HEADER_MAX];
  for (size_t i = 0; i < size; i++) payload[i] = 'a' + i % 26;
  long begun = 0, received = 0;
  size_t filled = 0, written = 0, encoded = size;  // of the output, of the output, of the payload that is being sent
  unsigned header_count = 0, header_needs = size < 126 ? 2 : size < 65536 ? 4 : 10;
  size_t had = 0;  // octets of the message that is being received
  uint32_t key = 0;
  Mark start = mark();
  while (received < count) {
    for (blocked = 0; !blocked;) {
      if (written == filled) {
        for (written = filled = 0; filled < write_piece;) {
          if (encoded == size) {
            if (begun == count || begun == received + in_flight) break;
            begun++;
            filled += put_header(output + filled, 0x80 | (text ? 1 : 2), size, 1);
            key = random_bits();
            memcpy(output + filled, &key, 4);
            filled += 4;
            encoded = 0;
          }
          size_t piece = size - encoded;
          if (filled >= write_piece) break;
          if (piece > write_piece - filled) piece = write_piece - filled;
          mask_copy(output + filled, payload + encoded, piece, key, encoded);
          filled += piece;
          encoded += piece;
        }
        if (!filled) break;
      }
      ssize_t sent = channel_write(&channel, output + written, filled - written);
      if (sent >= 0) {
        written += sent;
      } else if (errno == EAGAIN) {
        blocked = 1;
      } else {
        die("send");
      }
    }
    if (blocked != waits_to_write) {
      waits_to_write = blocked;
      event.events = EPOLLIN | (blocked ? EPOLLOUT : 0);
      epoll_ctl(epoll, EPOLL_CTL_MOD, channel.descriptor, &event);
    }
    // What lies decrypted in OpenSSL's memory is no news of the socket's.
    struct epoll_event news = {.events = EPOLLIN};
    if (!may_hold_more) epoll_wait(epoll, &news, 1, -1);
    if (!(news.events & EPOLLIN)) continue;
    int straight = header_count == header_needs && size - had >= read_piece;
    size_t room = straight ? size - had : read_piece;
    ssize_t got = channel_fill(&channel, straight ? message + had : input, room);
    may_hold_more = tls && got == (ssize_t)room;
    if (got < 0 && errno == EAGAIN) continue;
    if (got <= 0) die("recv");
    for (size_t at = 0; at < (size_t)got;) {
      if (header_count < header_needs) {
        header[header_count++] = input[at++];
        if (header_count == header_needs && payload_length(header) != size) die("length");
        continue;
      }
      size_t piece = size - had < got - at ? size - had : got - at;
      if (text && !is_ascii((straight ? message + had : input + at), piece)) die("text");
      if (!straight && piece < size) memcpy(message + had, input + at, piece);
      had += piece;
      at += piece;
      if (had == size) {
        received++;
        header_count = 0;
        had = 0;
      }
    }
  }
  report(scenario, count, start, NULL, 0);
}

// One message at a time.
static void ping_pong(long count) {
  enum { SIZE = 32, WARM_UP = 1000 };
  Channel channel = open_connection();
  int epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN}, news;
  epoll_ctl(epoll, EPOLL_CTL_ADD, channel.descriptor, &event);
  double *trips = malloc(count * sizeof *trips);
  uint8_t payload[SIZE], frame[HEADER_MAX + SIZE], echo[2 + SIZE];
  memset(payload, 'x', SIZE);
  Mark start = mark();
  for (long number = -WARM_UP; number < count; number++) {
    if (!number) start = mark();
    double sent_at = now();
    unsigned length = put_header(frame, 0x81, SIZE, 1);
    uint32_t key = random_bits();
    memcpy(frame + length, &key, 4);
    length += 4;
    mask_copy(frame + length, payload, SIZE, key, 0);
    if (channel_write(&channel, frame, length + SIZE) != length + SIZE) die("send");
    for (size_t had = 0; had < sizeof echo;) {
      epoll_wait(epoll, &news, 1, -1);
      ssize_t got = channel_read(&channel, echo + had, sizeof echo - had);
      if (got <= 0) die("recv");
      had += got;
    }
    if (payload_length(echo) != SIZE || !is_ascii(echo + 2, SIZE)) die("echo");
    if (number >= 0) trips[number] = now() - sent_at;
  }
  report("s1", count, start, trips, 0);
}

// Connections that stay idle.
static void open_many(long count) {
  int epoll = epoll_create1(0);
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  double before = resident_kib();
  Mark start = mark();
  for (long number = 0; number < count; number++) {
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(epoll, EPOLL_CTL_ADD, open_connection().descriptor, &event);
  }
  report("s4", count, start, NULL, (resident_kib() - before) / count);
}

int main(int argc, char **argv) {
  if (argc > 3 && !strcmp(argv[argc - 2], "--ca")) {
    prepare_tls();
    if (!SSL_CTX_load_verify_file(tls, argv[argc - 1])) die_of_tls(argv[argc - 1]);
    SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, NULL);
    argc -= 2;
  }
  const char *scenario = argc > 2 ? argv[2] : "";
  long count = argc > 3 ? atol(argv[3]) : 0;
  port = argc > 1 ? atoi(argv[1]) : 0;
  if (!strcmp(scenario, "s1")) {
    ping_pong(count ? count : 20000);
  } else if (!strcmp(scenario, "s2")) {
    exchange("s2", count ? count : 200000, 256, 1, 125, 256 << 10, 64 << 10);
  } else if (!strcmp(scenario, "s3a")) {
    exchange("s3a", count ? count : 4000, 8, 0, 64 << 10, 16 << 10, 64 << 10);
  } else if (!strcmp(scenario, "s3b")) {
    exchange("s3b", count ? count : 300, 8, 0, 1 << 20, 64 << 10, 16 << 10);
  } else if (!strcmp(scenario, "s4")) {
    open_many(count ? count : 1000);
  } else {
    fprintf(stderr, "usage: raw-client PORT s1|s2|s3a|s3b|s4 [COUNT] [--ca FILE]\n");
    return 2;
  }
}
