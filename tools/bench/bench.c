/* SPDX-License-Identifier: Apache-2.0
 *
 * selene-bench: measures Selene's parts beside what bounds them, in one run, and says which goals are met.
 */
#include "tools/bench/bench_priv.h"

#include "cli/cli.h"
#include "cli/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static const struct {
    const char *name;
    bench_run *run;
} groups[] = {
    {"hash", bench_hash},   {"memory", bench_memory_group}, {"index", bench_index}, {"disk", bench_disk},
    {"drain", bench_drain}, {"growth", bench_growth},       {"peers", bench_peers},
};
#define GROUP_COUNT (sizeof groups / sizeof groups[0])

struct arguments {
    struct bench bench;
    bool chosen[GROUP_COUNT];
    bool any;
};

enum key { KEY_JSON = 'j', KEY_DIR = 'd', KEY_BYTES = 'b', KEY_ROUNDS = 'r', KEY_THREADS = 't', KEY_RECORDS = 'n' };

static const struct argp_option option_table[] = {
    {"json", KEY_JSON, "FILE", 0,
     "Write the results to FILE as JSON (\"-\": standard output, tables then go to standard error)", 0},
    {"dir", KEY_DIR, "DIR", 0, "Put scratch files below DIR: the device that is measured (default: .)", 0},
    {"bytes", KEY_BYTES, "SIZE", 0, "Data of one measurement, at least 64M (default: 256M)", 0},
    {"rounds", KEY_ROUNDS, "N", 0, "Rounds, in each of which everything is measured once (default: 5)", 0},
    {"threads", KEY_THREADS, "N", 0, "Threads for copies and hashes (default: as many as processors, at most 8)", 0},
    {"records", KEY_RECORDS, "N", 0, "Records of the groups index and growth (default: 1000000)", 0},
    {0}};

static const char about[] = "Measures Selene's parts beside what bounds them, in one run.\v"
                            "GROUP is one or more of:\n"
                            "  hash    checksums, copies and prefix keys, beside memcpy and SHA-256\n"
                            "  memory  publish and restore in memory, beside memcpy and a streaming copy\n"
                            "  index   look-ups and inserts in the prefix tree, opening a store\n"
                            "  disk    records written and read, beside raw I/O to a file as it is\n"
                            "  drain   what is only in memory written to disk, beside a raw write of its bytes\n"
                            "  growth  one publish, insert, eviction in a small store and in one of --records\n"
                            "  peers   the same records in RocksDB (if built with it) and in files\n"
                            "  all     all of them\n\n"
                            "Exit code: 0 all goals met, 1 some were missed, 2 something could not be measured.";

static void choose(struct arguments *arguments, struct argp_state *state, const char *name) {
    bool found = false;
    for (size_t i = 0; i < GROUP_COUNT; i++)
        if (strcmp(name, "all") == 0 || strcmp(name, groups[i].name) == 0)
            arguments->chosen[i] = found = true;
    if (!found)
        argp_error(state, "found `%s`, expected hash, memory, index, disk, drain, growth, peers or all", name);
    arguments->any = true;
}

static error_t parse(int key, char *text, struct argp_state *state) {
    struct arguments *arguments = state->input;
    struct bench_options *options = &arguments->bench.options;
    switch (key) {
    case KEY_JSON:
        options->json = text;
        return 0;
    case KEY_DIR:
        options->directory = text;
        return 0;
    case KEY_BYTES:
        options->bytes = sel_cli_size(state, "bytes", text, UINT64_C(64) << 20, UINT64_C(64) << 30);
        return 0;
    case KEY_ROUNDS:
        options->rounds = (unsigned)sel_cli_number(state, "rounds", text, 1, BENCH_ROUNDS_MAX);
        return 0;
    case KEY_THREADS:
        options->threads = (unsigned)sel_cli_number(state, "threads", text, 1, 64);
        return 0;
    case KEY_RECORDS:
        options->records = sel_cli_number(state, "records", text, 1000, 100000000);
        return 0;
    case ARGP_KEY_ARG:
        choose(arguments, state, text);
        return 0;
    case ARGP_KEY_END:
        if (!arguments->any)
            argp_error(state, "name a group: hash, memory, index, disk, drain, growth, peers or all");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct bench_options *bench_options(const struct bench *bench) { return &bench->options; }

static void processor_name(char name[128]) {
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[256];
    snprintf(name, 128, "unknown");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "model name : %127[^\n]", name) == 1)
            break;
    if (file)
        fclose(file);
}

int bench_machine_json(struct sel_json *json) {
    char processor[128];
    struct utsname system;
    struct sel_json *machine = sel_json_object();
    processor_name(processor);
    int rc =
        sel_json_set_string(machine, "processor", processor) |
        sel_json_set_u64(machine, "processors", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN)) |
        sel_json_set_u64(machine, "memory_bytes", (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
    if (uname(&system) == 0)
        rc |= sel_json_set_string(machine, "kernel", system.release);
    double load[1] = {0};
    if (getloadavg(load, 1) == 1)
        rc |= sel_json_set_double(machine, "load_average", load[0]);
    return rc | sel_json_set(json, "machine", machine);
}

static int run(struct arguments *arguments, struct selene_message *message) {
    struct bench *bench = &arguments->bench;
    int rc = bench->options.json ? sel_json_writable(bench->options.json, message) : 0;
    if (rc == 0 && bench_scratch_start() != 0)
        rc = sel_fail(message, SELENE_E_NOMEM, "cannot start a thread");
    if (rc)
        return rc;
    bench_report_start(bench);
    for (size_t i = 0; i < GROUP_COUNT && rc == 0; i++)
        if (arguments->chosen[i])
            rc = groups[i].run(bench, message);
    bench_scratch_end();
    int reported = bench_report_end(bench, rc ? NULL : message);
    return rc ? rc : reported;
}

int main(int argc, char **argv) {
    static struct arguments arguments;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    struct selene_message message = {""};
    const struct argp argp = {.options = option_table, .parser = parse, .args_doc = "GROUP...", .doc = about};
    arguments.bench.options = (struct bench_options){.directory = ".",
                                                     .bytes = UINT64_C(256) << 20,
                                                     .records = 1000000,
                                                     .rounds = 5,
                                                     .threads = processors < 1   ? 1
                                                                : processors > 8 ? 8
                                                                                 : (unsigned)processors};
    sel_cli_start("selene-bench " BENCH_VERSION);
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    int rc = run(&arguments, &message);
    if (rc) {
        sel_cli_error("%s", message.text[0] ? message.text : sel_error_text(rc));
        return SEL_EXIT_USAGE;
    }
    return arguments.bench.missed ? SEL_EXIT_FOUND : SEL_EXIT_OK;
}
