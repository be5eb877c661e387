/* SPDX-License-Identifier: Apache-2.0
 *
 * The metrics endpoint [spec 15] through plain sockets: answers, what clients may send, addresses, and two threads.
 */
#include "base/clock.h"
#include "base/random.h"
#include "cli/metrics_http.h"
#include "tests/lib/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sel_metrics_http *server;
static uint16_t port;

static void begin(void) {
    struct selene_message message = {""};
    int result = sel_metrics_http_start(&server, "127.0.0.1:0", &message);
    if (result)
        fail_msg("%s", message.text);
    const char *colon = strrchr(sel_metrics_http_address(server), ':');
    assert_non_null(colon);
    port = (uint16_t)strtoul(colon + 1, NULL, 10);
    assert_true(port > 0);
}

static void end(void) {
    sel_metrics_http_stop(&server);
    assert_null(server);
}

static void set_text(const char *text) {
    char *copy = strdup(text);
    assert_non_null(copy);
    sel_metrics_http_set(server, &copy, strlen(text), 0);
    assert_null(copy);
}

/* -1 when the server takes no more. */
static int connect_now(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct timeval patience = {.tv_sec = 60};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_ok(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience));
    assert_ok(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience));
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Sends what the server takes of it, and reads to the end: the whole answer, malloc'ed, "" when there is none. */
static char *exchange_bytes(const void *bytes, size_t count) {
    char *answer = calloc(1, 1 << 16);
    size_t length = 0;
    int fd = connect_now();
    assert_non_null(answer);
    if (fd < 0)
        return answer;
    for (size_t sent = 0; sent < count;) {
        ssize_t wrote = send(fd, (const char *)bytes + sent, count - sent, MSG_NOSIGNAL);
        if (wrote <= 0)
            break;
        sent += (size_t)wrote;
    }
    shutdown(fd, SHUT_WR);
    for (ssize_t got; (got = recv(fd, answer + length, (1 << 16) - 1 - length, 0)) > 0;)
        length += (size_t)got;
    close(fd);
    return answer;
}

static char *exchange(const char *request) { return exchange_bytes(request, strlen(request)); }

/* One exchange: the status line, a text that the headers must have, and the whole body (NULL: whatever). */
static void expect(const char *request, const char *status, const char *header, const char *body) {
    char *answer = exchange(request), *end_of_headers = strstr(answer, "\r\n\r\n");
    if (strncmp(answer, status, strlen(status)) != 0)
        fail_msg("%s: expected %s, found %s", request, status, answer);
    assert_non_null(end_of_headers);
    assert_non_null(strstr(answer, header));
    assert_true(strstr(answer, header) < end_of_headers);
    if (body)
        assert_string_equal(end_of_headers + 4, body);
    free(answer);
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

static void expect_metrics(const char *text) {
    expect(GET("/metrics"), "HTTP/1.1 200 ", "Content-Type: text/plain; version=0.0.4\r\n", text);
}

static void test_answers(void **state) {
    char length[64];
    (void)state;
    begin();
    expect(GET("/metrics"), "HTTP/1.1 503 ", "Content-Type: text/plain\r\n", "No counters yet.\n");
    set_text("selene_records{tier=\"memory\"} 1\n");
    expect_metrics("selene_records{tier=\"memory\"} 1\n");
    set_text("other 2\n");
    expect_metrics("other 2\n");
    expect(GET("/metrics?name=x"), "HTTP/1.1 200 ", "Connection: close\r\n", "other 2\n");
    expect("GET /metrics HTTP/1.0\r\n\r\n", "HTTP/1.", "Content-Length: 8\r\n", "other 2\n");
    snprintf(length, sizeof length, "Content-Length: %zu\r\n", strlen("other 2\n"));
    expect("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 ", length, "");
    expect(GET("/"), "HTTP/1.1 200 ", "Content-Type: text/html", NULL);
    expect(GET("/metrics/"), "HTTP/1.1 404 ", "Content-Length: ", NULL);
    expect(GET("/%2e%2e/etc/passwd"), "HTTP/1.1 404 ", "Content-Length: ", NULL);
    const char *const refused[] = {
        "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
        "PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "NONSENSE /metrics HTTP/1.1\r\nHost: x\r\n\r\n"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        expect(refused[i], "HTTP/1.1 405 ", "Allow: GET, HEAD\r\n", NULL);
    end();
}

/* Once a second, and at once before the first. */
static void test_due(void **state) {
    const uint64_t now = 5 * SEL_NS_PER_SECOND;
    char *text = strdup("x\n");
    (void)state;
    begin();
    assert_true(sel_metrics_http_due(server, now));
    sel_metrics_http_set(server, &text, 2, now);
    assert_false(sel_metrics_http_due(server, now));
    assert_false(sel_metrics_http_due(server, now + SEL_NS_PER_SECOND - 1));
    assert_true(sel_metrics_http_due(server, now + SEL_NS_PER_SECOND));
    end();
}

/* Whatever comes, the next client is served. */
static void test_garbage(void **state) {
    struct sel_random random;
    static char large[1 << 20];
    const char *const bad[] = {"",
                               "\r\n\r\n",
                               "GET",
                               "GET /metrics",
                               "GET /metrics HTTP/9.9\r\n\r\n",
                               "GET /metrics HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                               "GET /metrics HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
                               "GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
                               "GET /metrics HTTP/1.1\r\nHost: x\r\n: \r\n\r\n",
                               "GET \x01\xff HTTP/1.1\r\n\r\n"};
    (void)state;
    begin();
    set_text("good 1\n");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        free(exchange(bad[i]));
        expect_metrics("good 1\n");
    }
    sel_random_seed(&random, 1);
    for (int i = 0; i < 100; i++) {
        uint8_t bytes[512];
        for (size_t at = 0; at < sizeof bytes; at++)
            bytes[at] = (uint8_t)sel_random_u64(&random);
        free(exchange_bytes(bytes, 1 + sel_random_u64(&random) % sizeof bytes));
    }
    /* Headers without end, and a path of a megabyte. */
    memset(large, 'a', sizeof large);
    memcpy(large, "GET /", 5);
    free(exchange_bytes(large, sizeof large));
    expect_metrics("good 1\n");
    end();
}

/* Clients that connect and say nothing, or half a request: more of them than are let in. The owner is not held up, and
 * when they go others are served. Those that stay are thrown out when the server stops. */
static void test_slow_clients(void **state) {
    int slow[80]; /* those that are not let in wait in the backlog, which must not overflow */
    (void)state;
    begin();
    set_text("before 1\n");
    for (int i = 0; i < 10; i++) {
        slow[i] = connect_now();
        assert_true(slow[i] >= 0);
        assert_int_equal(send(slow[i], "GET /met", 8, MSG_NOSIGNAL), 8);
    }
    expect_metrics("before 1\n");
    for (int i = 10; i < 80; i++)
        slow[i] = connect_now();
    set_text("during 1\n");
    for (int i = 0; i < 80; i++)
        if (slow[i] >= 0)
            close(slow[i]);
    /* The server notices one after another that they are gone. */
    char *answer = NULL;
    do {
        free(answer);
        answer = exchange(GET("/metrics"));
    } while (*answer == 0);
    assert_non_null(strstr(answer, "\r\n\r\nduring 1\n"));
    free(answer);
    for (int i = 0; i < 5; i++)
        assert_true((slow[i] = connect_now()) >= 0);
    end();
    char byte;
    for (int i = 0; i < 5; i++) {
        assert_true(recv(slow[i], &byte, 1, 0) <= 0);
        close(slow[i]);
    }
}

/* More clients than are let in, each of which sends a byte a second and so is never silent: others are served. The number of
 * rounds is no measure of speed: without room the answer never comes. */
static void test_dripping_clients(void **state) {
    int drip[40];
    char byte;
    struct pollfd wait = {.events = POLLIN};
    (void)state;
    begin();
    set_text("good 1\n");
    for (int i = 0; i < 40; i++) {
        assert_true((drip[i] = connect_now()) >= 0);
        assert_int_equal(send(drip[i], "GET /", 5, MSG_NOSIGNAL), 5);
    }
    assert_true((wait.fd = connect_now()) >= 0);
    assert_true(send(wait.fd, GET("/metrics"), strlen(GET("/metrics")), MSG_NOSIGNAL) > 0);
    for (int round = 0; round < 30 && poll(&wait, 1, 1000) == 0; round++)
        for (int i = 0; i < 40; i++)
            (void)send(drip[i], "x", 1, MSG_NOSIGNAL);
    assert_true(wait.revents & POLLIN);
    assert_int_equal(recv(wait.fd, &byte, 1, 0), 1);
    close(wait.fd);
    for (int i = 0; i < 40; i++)
        close(drip[i]);
    end();
}

static atomic_bool stop;
static atomic_uint served;

static void *scrape(void *context) {
    (void)context;
    while (!stop) {
        char *answer = exchange(GET("/metrics")), *body = strstr(answer, "\r\n\r\n");
        if (!body) {
            free(answer);
            continue;
        }
        body += 4;
        /* All of one text, never parts of two. */
        if (strlen(body) != 5000 || strspn(body, (char[]){*body, 0}) != 5000)
            abort();
        free(answer);
        served++;
    }
    return NULL;
}

/* Texts change while they are read: every answer is a whole one. */
static void test_two_threads(void **state) {
    pthread_t threads[3];
    (void)state;
    stop = false;
    served = 0;
    begin();
    for (unsigned i = 0; served < 300; i++) {
        char *text = malloc(5000);
        assert_non_null(text);
        memset(text, 'a' + (int)(i % 26), 5000);
        sel_metrics_http_set(server, &text, 5000, 0);
        for (int t = 0; i == 0 && t < 3; t++)
            assert_ok(pthread_create(&threads[t], NULL, scrape, NULL));
    }
    stop = true;
    for (int t = 0; t < 3; t++)
        pthread_join(threads[t], NULL);
    end();
}

static void test_addresses(void **state) {
    struct sel_metrics_http *other;
    struct selene_message message;
    char text[64];
    const char *const bad[] = {
        "",      ":",    "host:",  "127.0.0.1:x",  "127.0.0.1:-1", "127.0.0.1:65536", "1:2:3", "[::1",
        "[::1]", "[]:1", "::1:80", "127.0.0.1:1 ", "127.0.0.1: 1", "999.0.0.1:1",     "x",     "1e3"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        message.text[0] = 0;
        int result = sel_metrics_http_start(&other, bad[i], &message);
        if (result != SELENE_E_INVALID)
            fail_msg("`%s`: found %d", bad[i], result);
        assert_null(other);
        assert_true(*message.text);
    }
    const char *const loopback[] = {"0", ":0", "127.0.0.1:0", "localhost:0"};
    for (size_t i = 0; i < sizeof loopback / sizeof loopback[0]; i++) {
        assert_ok(sel_metrics_http_start(&other, loopback[i], &message));
        const char *found = sel_metrics_http_address(other);
        assert_true(strncmp(found, "127.0.0.1:", 10) == 0 || strncmp(found, "[::1]:", 6) == 0);
        sel_metrics_http_stop(&other);
    }
    begin();
    snprintf(text, sizeof text, "127.0.0.1:%u", port);
    message.text[0] = 0;
    assert_int_equal(sel_metrics_http_start(&other, text, &message), SELENE_E_IN_USE);
    assert_non_null(strstr(message.text, text));
    end();
    sel_metrics_http_stop(&server); /* NULL-safe */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),          cmocka_unit_test(test_due),
        cmocka_unit_test(test_garbage),          cmocka_unit_test(test_slow_clients),
        cmocka_unit_test(test_dripping_clients), cmocka_unit_test(test_two_threads),
        cmocka_unit_test(test_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
