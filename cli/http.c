/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP by libmicrohttpd, see http.h. Every answer closes its connection, so that idle ones hold nothing.
 */
#include "cli/http.h"

#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* More than a few scrapers; each takes a file descriptor and REQUEST_BYTES. */
#define CONNECTIONS_MAX 32
/* Of more than these the one that came first is cut off: the rest is room for that to take effect. */
#define CONNECTIONS_KEPT 24
/* In which a client must say something, or take something. */
#define SILENCE_SECONDS 10
/* For a request's line and headers, and those of the answer. */
#define REQUEST_BYTES ((size_t)16 << 10)
#define BACKLOG       64

/* Of the server's thread. */
struct visitor {
    uint64_t number; /* in the order in which they came; 0: nobody */
    int fd;
    bool leaving; /* cut off, but not closed yet */
};

struct sel_http {
    struct MHD_Daemon *daemon;
    struct visitor visitors[CONNECTIONS_MAX];
    uint64_t visitor_count; /* ever */
    sel_http_make_page *make;
    void *context;
    char address[INET6_ADDRSTRLEN + 16];
};

/* ---- answers ---- */

static enum MHD_Result answer_with(struct MHD_Connection *connection, unsigned status, const char *content_type,
                                   void *body, size_t bytes, bool owned) {
    struct MHD_Response *response =
        MHD_create_response_from_buffer(bytes, body, owned ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
    if (!response) {
        if (owned)
            free(body);
        return MHD_NO;
    }
    bool good = MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type) == MHD_YES &&
                MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close") == MHD_YES;
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        good = good && MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD") == MHD_YES;
    enum MHD_Result result = good ? MHD_queue_response(connection, status, response) : MHD_NO;
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer(void *context, struct MHD_Connection *connection, const char *path, const char *method,
                              const char *version, const char *upload, size_t *upload_bytes, void **state) {
    static char refused[] = "Only GET and HEAD.\n";
    const struct sel_http *http = context;
    struct sel_http_page page = {0};
    (void)version, (void)upload, (void)upload_bytes, (void)state;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return answer_with(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", refused, sizeof refused - 1, false);
    http->make(http->context, path, &page);
    if (!page.body)
        return MHD_NO;
    return answer_with(connection, page.status, page.content_type, page.body, page.body_bytes, true);
}

/* ---- who is connected ---- */

/* The one that came first leaves when there are too many. */
static void crowd_check(struct sel_http *http) {
    struct visitor *first = NULL;
    unsigned staying = 0;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        struct visitor *visitor = &http->visitors[i];
        if (visitor->number == 0 || visitor->leaving)
            continue;
        staying++;
        if (!first || visitor->number < first->number)
            first = visitor;
    }
    if (staying <= CONNECTIONS_KEPT)
        return;
    first->leaving = true;
    (void)shutdown(first->fd, SHUT_RDWR);
}

/* `visit`: the visitor of a connection. A client that sends a byte now and then is never silent, so that enough of them
 * would shut everybody else out. */
static void came_or_went(void *context, struct MHD_Connection *connection, void **visit,
                         enum MHD_ConnectionNotificationCode code) {
    struct sel_http *http = context;
    const union MHD_ConnectionInfo *info;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (*visit)
            *(struct visitor *)*visit = (struct visitor){0};
        return;
    }
    if ((info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)) == NULL)
        return;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        if (http->visitors[i].number)
            continue;
        http->visitors[i] = (struct visitor){.number = ++http->visitor_count, .fd = info->connect_fd};
        *visit = &http->visitors[i];
        break;
    }
    crowd_check(http);
}

/* ---- the address ---- */

/* Cuts an address in two; `host` is empty when there is none. False: it is none. */
static bool address_cut(const char *address, char *host, size_t host_size, const char **port) {
    const char *colon = strrchr(address, ':'), *begin = address;
    size_t length = colon ? (size_t)(colon - address) : 0;
    unsigned long number = 0;
    *port = colon ? colon + 1 : address;
    if (length && *begin == '[') {
        if (length < 3 || begin[length - 1] != ']')
            return false;
        begin++;
        length -= 2;
    } else if (length && memchr(begin, ':', length)) {
        return false;
    }
    if (length >= host_size || strlen(*port) > 5 || **port == 0 || strspn(*port, "0123456789") != strlen(*port))
        return false;
    memcpy(host, begin, length);
    host[length] = 0;
    number = strtoul(*port, NULL, 10);
    return number <= UINT16_MAX;
}

static int listen_one(const struct addrinfo *info) {
    const int on = 1;
    int fd = socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, info->ai_protocol);
    if (fd < 0)
        return -errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int error = errno;
    close(fd);
    return -error;
}

static int listen_error(int error) {
    return error == EADDRINUSE                 ? SELENE_E_IN_USE
           : error == EACCES || error == EPERM ? SELENE_E_PERMISSION
                                               : SELENE_E_IO;
}

/* A listening socket in `*fd`. */
static int listen_on(const char *address, int *fd, struct selene_message *message) {
    char host[256];
    const char *port;
    struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    if (!address_cut(address, host, sizeof host, &port))
        return sel_fail(message, SELENE_E_INVALID, "found the address `%s`, expected HOST:PORT with a port up to 65535",
                        address);
    /* Without a node: the loopback. `localhost` is that everywhere, also where no resolver knows it, in a bare container
     * say. */
    const char *node = *host ? host : "127.0.0.1";
    int error = getaddrinfo(strcmp(node, "localhost") ? node : NULL, port, &wanted, &found);
    if (error)
        return sel_fail(message, SELENE_E_INVALID, "%s: %s", address, gai_strerror(error));
    /* A name may have several addresses. One that is taken is no reason to be found at another one. */
    *fd = -ENOENT;
    for (const struct addrinfo *info = found; info && *fd < 0 && *fd != -EADDRINUSE; info = info->ai_next)
        *fd = listen_one(info);
    freeaddrinfo(found);
    if (*fd < 0)
        return sel_fail(message, listen_error(-*fd), "cannot listen on %s: %s", address, strerror(-*fd));
    return 0;
}

/* Where a socket listens, as text. */
static int address_name(int fd, char *text, size_t size) {
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    char host[INET6_ADDRSTRLEN], port[8];
    if (getsockname(fd, (struct sockaddr *)&address, &length) != 0 ||
        getnameinfo((struct sockaddr *)&address, length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return SELENE_E_IO;
    snprintf(text, size, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
    return 0;
}

/* ---- start and stop ---- */

/* Its thread takes no signals: they are the program's. */
static struct MHD_Daemon *daemon_start(struct sel_http *http, int fd) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    struct MHD_Daemon *daemon =
        MHD_start_daemon(MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_ITC, 0, NULL, NULL, answer, http,
                         MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
                         MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SILENCE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                         REQUEST_BYTES, MHD_OPTION_NOTIFY_CONNECTION, came_or_went, http, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return daemon;
}

int sel_http_start(struct sel_http **out, const char *address, sel_http_make_page *make, void *context,
                   struct selene_message *message) {
    int fd = -1;
    *out = NULL;
    struct sel_http *http = calloc(1, sizeof *http);
    if (!http)
        return sel_fail(message, SELENE_E_NOMEM, "no memory");
    http->make = make;
    http->context = context;
    int result = listen_on(address, &fd, message);
    if (!result && (result = address_name(fd, http->address, sizeof http->address)) != 0) {
        close(fd);
        sel_fail(message, result, "cannot tell where %s is", address);
    }
    /* The socket is the daemon's, also when it does not start. */
    if (!result && (http->daemon = daemon_start(http, fd)) == NULL)
        result = sel_fail(message, SELENE_E_IO, "cannot start an HTTP server on %s", address);
    if (result) {
        free(http);
        return result;
    }
    *out = http;
    return 0;
}

const char *sel_http_address(const struct sel_http *http) { return http->address; }

void sel_http_stop(struct sel_http **http) {
    if (!*http)
        return;
    MHD_stop_daemon((*http)->daemon);
    free(*http);
    *http = NULL;
}
