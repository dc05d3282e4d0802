// The C calls that Swift cannot reach through its own overlay of the C library.
#pragma once

#if !defined(__linux__) || !(defined(__x86_64__) || defined(__aarch64__))
#error "swift-websocket-handler runs on Linux on x86_64 and arm64"
#endif

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>

#include "tlswire.h"

// epoll: an event carries 64 bits of the caller's, which Swift sees as a union; these two hide it.
int csystem_epoll_control(int epoll, int operation, int descriptor, uint32_t events, uint64_t token);
uint64_t csystem_epoll_token(const struct epoll_event *event);

// A stream socket, and the next connection of a listener: both non-blocking and closed on exec.
int csystem_stream_socket(int family);
int csystem_accept(int listener);

// Sets a linger time of zero, so that closing the descriptor resets the connection.
int csystem_reset_on_close(int descriptor);
