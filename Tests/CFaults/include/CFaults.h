// System calls that fail on demand, for tests: this target defines the calls themselves, so that everything linked
// into the same executable goes through them. As long as nothing is armed they do what the system's do.
#pragma once

typedef enum {
  cfaults_socket,
  cfaults_connect,
  cfaults_send,
  cfaults_recv,
  cfaults_epoll_add,
  cfaults_accept,
  cfaults_setsockopt,
  cfaults_getsockopt,
  cfaults_getaddrinfo,
  cfaults_call_count,
} cfaults_call;

// Whose sockets: those that were opened, or those that were accepted. Listeners count as opened.
typedef enum { cfaults_opened, cfaults_accepted } cfaults_side;

// Counts from zero; the call with that number, from 1, fails with the error (for getaddrinfo a code of its own), once.
// A number of 0 fails none, -1 each.
void cfaults_arm(cfaults_call call, cfaults_side side, int number, int error);

// The next listener that a loop is to watch has a client before that, and the call that adds it returns once somebody has
// tried to accept: the news comes before the caller knows that there is a watch.
void cfaults_connect_early(void);

// The calls since.
int cfaults_calls(cfaults_call call);
