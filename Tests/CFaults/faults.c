// Not _GNU_SOURCE: with it the socket header declares its calls with a union that a definition here cannot match.
#include "CFaults.h"
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAXIMUM_DESCRIPTOR 65536

static atomic_int armed_call = -1, armed_side, armed_number, armed_error;
static atomic_int calls[cfaults_call_count];
static atomic_uchar is_accepted[MAXIMUM_DESCRIPTOR];

void cfaults_arm(cfaults_call call, cfaults_side side, int number, int error) {
  atomic_store(&armed_call, -1);
  for (int index = 0; index < cfaults_call_count; index++) atomic_store(&calls[index], 0);
  atomic_store(&armed_side, side);
  atomic_store(&armed_number, number);
  atomic_store(&armed_error, error);
  atomic_store(&armed_call, call);
}

static atomic_int connects_early, accepts;

void cfaults_connect_early(void) { atomic_store(&connects_early, 1); }

// Connects to a listener on this machine; the descriptor stays open as long as the process.
static void connect_to(int listener) {
  struct sockaddr_storage address;
  socklen_t length = sizeof address;
  syscall(SYS_getsockname, listener, &address, &length);
  int client = (int)syscall(SYS_socket, address.ss_family, SOCK_STREAM, 0);
  syscall(SYS_connect, client, &address, length);
}

int cfaults_calls(cfaults_call call) { return atomic_load(&calls[call]); }

static cfaults_side side_of(int descriptor) {
  return descriptor >= 0 && descriptor < MAXIMUM_DESCRIPTOR && atomic_load(&is_accepted[descriptor])
             ? cfaults_accepted
             : cfaults_opened;
}

static int remember(int descriptor, cfaults_side side) {
  if (descriptor >= 0 && descriptor < MAXIMUM_DESCRIPTOR)
    atomic_store(&is_accepted[descriptor], side == cfaults_accepted);
  return descriptor;
}

// The error that this call is to fail with, or 0.
static int failure(cfaults_call call, cfaults_side side) {
  if (atomic_load(&armed_call) < 0 || side != (cfaults_side)atomic_load(&armed_side)) return 0;
  int number = atomic_fetch_add(&calls[call], 1) + 1;
  int failing = atomic_load(&armed_number);
  if (atomic_load(&armed_call) != (int)call || (failing != number && failing != -1)) return 0;
  return atomic_load(&armed_error);
}

static int failed(int error) {
  errno = error;
  return -1;
}

int socket(int family, int type, int protocol) {
  int error = failure(cfaults_socket, cfaults_opened);
  return error ? failed(error) : remember((int)syscall(SYS_socket, family, type, protocol), cfaults_opened);
}

int connect(int descriptor, const struct sockaddr *address, socklen_t length) {
  int error = failure(cfaults_connect, side_of(descriptor));
  // An interrupted connect goes on in the background (POSIX).
  if (error == EINTR) syscall(SYS_connect, descriptor, address, length);
  return error ? failed(error) : (int)syscall(SYS_connect, descriptor, address, length);
}

int accept4(int descriptor, struct sockaddr *address, socklen_t *length, int flags);
int accept4(int descriptor, struct sockaddr *address, socklen_t *length, int flags) {
  atomic_fetch_add(&accepts, 1);
  int error = failure(cfaults_accept, side_of(descriptor));
  if (error) return failed(error);
  return remember((int)syscall(SYS_accept4, descriptor, address, length, flags), cfaults_accepted);
}

ssize_t send(int descriptor, const void *bytes, size_t count, int flags) {
  int error = failure(cfaults_send, side_of(descriptor));
  return error ? failed(error) : syscall(SYS_sendto, descriptor, bytes, count, flags, NULL, 0);
}

ssize_t recv(int descriptor, void *bytes, size_t count, int flags) {
  int error = failure(cfaults_recv, side_of(descriptor));
  return error ? failed(error) : syscall(SYS_recvfrom, descriptor, bytes, count, flags, NULL, NULL);
}

// Only sockets that are added count: the other descriptors are the loops' and the toolchain's own.
int epoll_ctl(int epoll, int operation, int descriptor, struct epoll_event *event) {
  int type = 0;
  socklen_t length = sizeof type;
  int is_stream = syscall(SYS_getsockopt, descriptor, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_STREAM;
  int error = operation == EPOLL_CTL_ADD && is_stream ? failure(cfaults_epoll_add, side_of(descriptor)) : 0;
  if (error) return failed(error);
  int listens = 0;
  int is_early = operation == EPOLL_CTL_ADD && is_stream &&
                 syscall(SYS_getsockopt, descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens &&
                 atomic_exchange(&connects_early, 0);
  int before = atomic_load(&accepts);
  if (is_early) connect_to(descriptor);
  int status = (int)syscall(SYS_epoll_ctl, epoll, operation, descriptor, event);
  while (is_early && atomic_load(&accepts) == before) usleep(100);
  return status;
}

int setsockopt(int descriptor, int level, int name, const void *value, socklen_t length) {
  int error = failure(cfaults_setsockopt, side_of(descriptor));
  return error ? failed(error) : (int)syscall(SYS_setsockopt, descriptor, level, name, value, length);
}

int getsockopt(int descriptor, int level, int name, void *value, socklen_t *length) {
  int error = failure(cfaults_getsockopt, side_of(descriptor));
  return error ? failed(error) : (int)syscall(SYS_getsockopt, descriptor, level, name, value, length);
}

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **list) {
  int error = failure(cfaults_getaddrinfo, cfaults_opened);
  if (error) {
    errno = ENOMEM;
    return error;
  }
  // The next definition behind this one: RTLD_NEXT, which the header keeps to _GNU_SOURCE.
  int (*original)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =
      (int (*)(const char *, const char *, const struct addrinfo *, struct addrinfo **))dlsym((void *)-1L, "getaddrinfo");
  return original(host, service, hints, list);
}
