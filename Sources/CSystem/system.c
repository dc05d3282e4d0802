#define _GNU_SOURCE
#include "CSystem.h"
#include <sys/socket.h>

int csystem_epoll_control(int epoll, int operation, int descriptor, uint32_t events, uint64_t token) {
  struct epoll_event event = {.events = events, .data.u64 = token};
  return epoll_ctl(epoll, operation, descriptor, &event);
}

uint64_t csystem_epoll_token(const struct epoll_event *event) { return event->data.u64; }

int csystem_stream_socket(int family) { return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

int csystem_accept(int listener) { return accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC); }

int csystem_reset_on_close(int descriptor) {
  struct linger linger = {.l_onoff = 1, .l_linger = 0};
  return setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
}
