/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of selene-replay.
 */
#include "tools/replay/replay.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TEXT(number)      #number
#define VERSION(a, b, c)  TEXT(a) "." TEXT(b) "." TEXT(c)
#define CONVERSATIONS_MAX 65536
#define TURNS_MAX         65536
#define CONTEXT_MAX       SEL_TRACE_REQUEST_TOKENS_MAX
#define CHECKPOINTS_MAX   64
#define AGE_SECONDS_MAX   UINT64_C(3153600000) /* a hundred years: in nanoseconds it fits 64 bits */
static const char tool_and_version[] =
    "selene-replay " VERSION(SELENE_VERSION_MAJOR, SELENE_VERSION_MINOR, SELENE_VERSION_PATCH);
static const char about[] =
    "Plays real requests through a Selene store as an inference engine would, and verifies every restored byte.\v"
    "TRACE is a file of requests: mooncake (ids of 512-token blocks), runs (agent sessions as runs of 64-token blocks) "
    "or "
    "tokens (NAME.requests.jsonl with NAME.tokens.u32le beside it; either may be named). The form is told from the "
    "content. Instead, --generate agent makes up conversations of agents, and --generate conversation long ones with "
    "many checkpoints.\n"
    "\n"
    "Each request is looked up (at most n - 1 of its n tokens), what is held is restored into paged device memory and "
    "compared byte by byte with what it must be, the rest is computed, and the state is captured at the end of the "
    "prompt, of the reply, if its tokens are known, and of messages, if they are. Captures are offered to the store at "
    "once or, with rows, some of them when a request resumes there.\n"
    "\n"
    "Sizes take K, M, G, T. Without --disk there is no disk tier and nothing is written. With it DIR is created when "
    "it "
    "is missing and kept; a second run on the same DIR finds the records of the first.\n"
    "\n"
    "Exit status: 0 all is well; 1 a wrong byte, a lost record or a broken invariant; 2 bad usage or input, or the "
    "store "
    "cannot be used.";

enum key {
    KEY_GENERATE = 'g',
    KEY_LAYOUT = 'l',
    KEY_MEMORY = 'm',
    KEY_DISK = 'd',
    KEY_REQUESTS = 'n',
    KEY_QUIET = 'q',
    KEY_FORM = 256,
    KEY_LIST,
    KEY_SCALE,
    KEY_LIMIT,
    KEY_DURABILITY,
    KEY_DISK_THREADS,
    KEY_SESSIONS,
    KEY_CONVERSATIONS,
    KEY_TURNS,
    KEY_CONTEXT,
    KEY_CHECKPOINTS,
    KEY_RERENDER,
    KEY_SEQUENTIAL,
    KEY_CONCURRENCY,
    KEY_RATE,
    KEY_RESTART,
    KEY_CRASH,
    KEY_GROUP,
    KEY_THREADS,
    KEY_NO_THIN,
    KEY_NO_PACK,
    KEY_NO_DEFER,
    KEY_SPARE_ROWS,
    KEY_MAX_AGE,
    KEY_DRAIN,
    KEY_CHECK,
    KEY_SEED,
    KEY_JSON,
    KEY_PLOT,
    KEY_METRICS
};

static const struct argp_option table[] = {
    {NULL, 0, NULL, 0, "What is played:", 1},
    {"generate", KEY_GENERATE, "KIND", 0, "A built-in workload instead of a trace: agent or conversation", 1},
    {"format", KEY_FORM, "FORM", 0, "Form of TRACE: mooncake, runs or tokens (default: told from its content)", 1},
    {"requests", KEY_REQUESTS, "N", 0, "The first N requests only (agent: so many, default 600)", 1},
    {"sessions", KEY_SESSIONS, "N", 0, "Requests of the first N sessions only", 1},
    {"conversations", KEY_CONVERSATIONS, "N", 0, "conversation: so many, which take turns (default 1)", 1},
    {"turns", KEY_TURNS, "N", 0, "conversation: turns of each (default 170)", 1},
    {"context", KEY_CONTEXT, "TOKENS", 0, "conversation: tokens of each at its end (default 130000)", 1},
    {"checkpoints-per-turn", KEY_CHECKPOINTS, "N", 0,
     "conversation: the ends of N - 2 messages, of the prompt and of the reply (default 4)", 1},
    {"rerender", KEY_RERENDER, NULL, 0,
     "conversation: replies come back from the client a little different, so nothing resumes at their ends", 1},
    {"seed", KEY_SEED, "N", 0, "Seed of the generated workload and of the KV bytes (default 1)", 1},
    {NULL, 0, NULL, 0, "For which model:", 2},
    {"layout", KEY_LAYOUT, "NAME|FILE", 0, "Layout of the KV cache: a known model, or a JSON file (default qwen3-8b)",
     2},
    {"list-layouts", KEY_LIST, NULL, 0, "List the known layouts", 2},
    {"scale", KEY_SCALE, "N", 0, "Divide the bytes of each plane and row by N (default 256)", 2},
    {NULL, 0, NULL, 0, "The store:", 3},
    {"memory", KEY_MEMORY, "SIZE", 0, "Warm tier; 0: none (default 256M)", 3},
    {"disk", KEY_DISK, "DIR", 0, "Record directory (default: no disk tier)", 3},
    {"disk-limit", KEY_LIMIT, "SIZE", 0, "Most that DIR may take; 0: no limit (default)", 3},
    {"durability", KEY_DURABILITY, "WORD", 0, "relaxed (default) or strict", 3},
    {"disk-threads", KEY_DISK_THREADS, NULL, 0, "Do not use io_uring", 3},
    {"page-group", KEY_GROUP, "N", 0, "Pages a record, for layouts without rows (default: the store's)", 3},
    {"threads", KEY_THREADS, "N", 0, "Threads that copy and hash (default: the store's)", 3},
    {"spare-rows", KEY_SPARE_ROWS, "N", 0, "Rows kept above each newest record (default 1)", 3},
    {"no-thin", KEY_NO_THIN, NULL, 0, "Keep every row, for comparison", 3},
    {"no-defer", KEY_NO_DEFER, NULL, 0, "Offer every checkpoint to the store at once, for comparison", 3},
    {"no-pack", KEY_NO_PACK, NULL, 0, "Store identical ranks one by one, for comparison", 3},
    {"max-age", KEY_MAX_AGE, "SECONDS", 0, "Records unused so long expire; 0: never (default)", 3},
    {NULL, 0, NULL, 0, "How it is played:", 4},
    {"sequential", KEY_SEQUENTIAL, NULL, 0,
     "One request at a time, each publish ready before the next look-up, no restore declined: the hit ratio must then "
     "equal the ideal one unless something was dropped",
     4},
    {"concurrency", KEY_CONCURRENCY, "N", 0, "Requests in flight without --sequential (default 4)", 4},
    {"prefill-rate", KEY_RATE, "N", 0,
     "Without --sequential: decline restores estimated slower than computing N tokens a second (default 0: never)", 4},
    {"restart-at", KEY_RESTART, "F", 0, "After this fraction of the requests drain, close and open the store again", 4},
    {"crash-at", KEY_CRASH, "F", 0,
     "After this fraction of the requests kill the process that holds the store, without warning, open it again, check "
     "that every record that was committed is found, and go on",
     4},
    {"drain-at-end", KEY_DRAIN, NULL, 0, "Write to disk what is only in memory before the store is closed", 4},
    {"check", KEY_CHECK, NULL, 0, "Verify the store's invariants before each closing", 4},
    {NULL, 0, NULL, 0, "Results:", 5},
    {"json", KEY_JSON, "FILE", 0, "Write the results as JSON; -: to standard output instead of the table", 5},
    {"plot", KEY_PLOT, "FILE", 0,
     "Draw memory, disk and hit ratio over the run as SVG; with one or two files RESULT.json that --json wrote, draw "
     "those, side by side, and play nothing",
     5},
    {"metrics", KEY_METRICS, "HOST:PORT", 0,
     "Serve the store's counters at http://HOST:PORT/metrics while it plays; without HOST on loopback, with port 0 on "
     "a "
     "free one",
     5},
    {"quiet", KEY_QUIET, NULL, 0, "No table, no progress bar, errors only", 5},
    {0},
};

static error_t parse_workload(int key, const char *text, struct argp_state *state, struct replay_options *options) {
    static const char *const kinds[] = {"agent", "conversation", NULL};
    switch (key) {
    case KEY_GENERATE:
        options->generate = kinds[sel_cli_choice(state, "generate", text, kinds)];
        return 0;
    case KEY_FORM:
        options->form = (enum sel_trace_form)sel_cli_choice(state, "format", text, sel_trace_form_names);
        return 0;
    case KEY_REQUESTS:
        options->requests = sel_cli_number(state, "requests", text, 1, SEL_TRACE_REQUESTS_MAX);
        return 0;
    case KEY_SESSIONS:
        options->sessions = sel_cli_number(state, "sessions", text, 1, SEL_TRACE_REQUESTS_MAX);
        return 0;
    case KEY_SEED:
        options->seed = sel_cli_number(state, "seed", text, 0, UINT64_MAX);
        return 0;
    case KEY_LAYOUT:
        options->layout = text;
        return 0;
    case KEY_LIST:
        replay_layouts_print(stdout);
        sel_cli_listed(state);
    case KEY_SCALE:
        options->scale = sel_cli_number(state, "scale", text, 1, UINT32_MAX);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_conversation(int key, const char *text, struct argp_state *state, struct replay_options *options) {
    struct conversation_options *conversation = &options->conversation;
    switch (key) {
    case KEY_CONVERSATIONS:
        conversation->conversations = (uint32_t)sel_cli_number(state, "conversations", text, 1, CONVERSATIONS_MAX);
        return 0;
    case KEY_TURNS:
        conversation->turns = (uint32_t)sel_cli_number(state, "turns", text, 1, TURNS_MAX);
        return 0;
    case KEY_CONTEXT:
        conversation->context_tokens = (uint32_t)sel_cli_number(state, "context", text, 1, CONTEXT_MAX);
        return 0;
    case KEY_CHECKPOINTS:
        conversation->checkpoints_per_turn =
            (uint32_t)sel_cli_number(state, "checkpoints-per-turn", text, 2, CHECKPOINTS_MAX);
        return 0;
    case KEY_RERENDER:
        conversation->rerender = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_store(int key, const char *text, struct argp_state *state, struct replay_options *options) {
    static const char *const durabilities[] = {"relaxed", "strict", NULL};
    switch (key) {
    case KEY_MEMORY:
        options->memory_bytes = sel_cli_size(state, "memory", text, 0, UINT64_MAX);
        return 0;
    case KEY_DISK:
        if (*text == '\0')
            argp_error(state, "--disk: found an empty name, expected a directory");
        options->disk = text;
        return 0;
    case KEY_LIMIT:
        options->disk_limit_bytes = sel_cli_size(state, "disk-limit", text, 0, UINT64_MAX);
        return 0;
    case KEY_DURABILITY:
        options->durability = sel_cli_choice(state, "durability", text, durabilities);
        return 0;
    case KEY_DISK_THREADS:
        options->disk_threads = true;
        return 0;
    case KEY_GROUP:
        options->page_group = (uint32_t)sel_cli_number(state, "page-group", text, 1, SELENE_PAGE_TOKENS_MAX);
        return 0;
    case KEY_SPARE_ROWS:
        options->spare_rows = (uint32_t)sel_cli_number(state, "spare-rows", text, 0, SELENE_SPARE_ROWS_MAX);
        return 0;
    case KEY_NO_THIN:
        options->no_thin = true;
        return 0;
    case KEY_NO_DEFER:
        options->no_defer = true;
        return 0;
    case KEY_NO_PACK:
        options->no_pack = true;
        return 0;
    case KEY_MAX_AGE:
        options->max_age_seconds = sel_cli_number(state, "max-age", text, 0, AGE_SECONDS_MAX);
        return 0;
    case KEY_THREADS:
        options->threads = (uint32_t)sel_cli_number(state, "threads", text, 1, SELENE_WORKER_THREADS_MAX);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_play(int key, const char *text, struct argp_state *state, struct replay_options *options) {
    switch (key) {
    case KEY_SEQUENTIAL:
        options->sequential = true;
        return 0;
    case KEY_CONCURRENCY:
        options->concurrency = (uint32_t)sel_cli_number(state, "concurrency", text, 1, 1024);
        return 0;
    case KEY_RATE:
        options->prefill_rate = sel_cli_number(state, "prefill-rate", text, 0, UINT64_MAX);
        return 0;
    case KEY_RESTART:
        options->restart_at = sel_cli_fraction(state, "restart-at", text);
        return 0;
    case KEY_CRASH:
        options->crash_at = sel_cli_fraction(state, "crash-at", text);
        return 0;
    case KEY_DRAIN:
        options->drain_at_end = true;
        return 0;
    case KEY_CHECK:
        options->check = true;
        return 0;
    case KEY_JSON:
        options->json = text;
        return 0;
    case KEY_PLOT:
        options->plot = text;
        return 0;
    case KEY_METRICS:
        options->metrics = text;
        return 0;
    case KEY_QUIET:
        options->quiet = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char *conversation_option_given(const struct conversation_options *conversation) {
    return conversation->conversations          ? "conversations"
           : conversation->turns                ? "turns"
           : conversation->context_tokens       ? "context"
           : conversation->checkpoints_per_turn ? "checkpoints-per-turn"
           : conversation->rerender             ? "rerender"
                                                : NULL;
}

/* Defaults, and whether the turns have room for their checkpoints. */
static void conversation_check(struct argp_state *state, struct replay_options *options) {
    struct conversation_options *conversation = &options->conversation;
    const char *given = conversation_option_given(conversation);
    if (options->generate == NULL || strcmp(options->generate, "conversation") != 0) {
        if (given)
            argp_error(state, "--%s needs --generate conversation", given);
        return;
    }
    if (options->sessions)
        argp_error(state, "found --sessions with --generate conversation, expected --conversations");
    conversation->conversations += conversation->conversations == 0 ? 1 : 0;
    conversation->turns += conversation->turns == 0 ? 170 : 0;
    conversation->context_tokens += conversation->context_tokens == 0 ? 130000 : 0;
    conversation->checkpoints_per_turn += conversation->checkpoints_per_turn == 0 ? 4 : 0;
    uint64_t least = (uint64_t)conversation->turns * conversation_turn_tokens_min(conversation);
    if (conversation->context_tokens < least)
        argp_error(state,
                   "--context: found %" PRIu32 ", expected at least %" PRIu64 " for %" PRIu32 " turns of %" PRIu32
                   " checkpoints",
                   conversation->context_tokens, least, conversation->turns, conversation->checkpoints_per_turn);
    uint64_t all = (uint64_t)conversation->conversations * conversation->turns * conversation->checkpoints_per_turn;
    if (all > SEL_TRACE_REQUESTS_MAX)
        argp_error(state,
                   "--conversations: found %" PRIu32 " of %" PRIu32 " turns, expected at most %" PRIu32
                   " checkpoints in all",
                   conversation->conversations, conversation->turns, SEL_TRACE_REQUESTS_MAX);
}

/* What options must satisfy together. */
static void options_check(struct argp_state *state, struct replay_options *options) {
    conversation_check(state, options);
    if (options->trace && options->generate)
        argp_error(state, "found both a trace and --generate, expected one of them");
    if (options->trace == NULL && options->generate == NULL)
        argp_error(state, "found no trace, expected TRACE or --generate");
    if (options->generate && options->form != SEL_TRACE_UNKNOWN)
        argp_error(state, "--format needs a trace");
    if (options->restart_at > 0 && options->crash_at > 0)
        argp_error(state, "found --restart-at and --crash-at, expected one of them");
    if (options->disk)
        return;
    if (options->drain_at_end)
        argp_error(state, "--drain-at-end needs --disk");
    if (options->restart_at > 0 || options->crash_at > 0)
        argp_error(state, "--%s needs --disk", options->crash_at > 0 ? "crash-at" : "restart-at");
    if (options->disk_limit_bytes || options->disk_threads)
        argp_error(state, "--%s needs --disk", options->disk_threads ? "disk-threads" : "disk-limit");
}

static bool is_result(const char *name) {
    size_t length = strlen(name);
    return length > 5 && strcmp(name + length - 5, ".json") == 0;
}

/* Files that are named: results to be drawn, or a trace. options->results holds them so far. */
static void files_check(struct argp_state *state, struct replay_options *options) {
    const char *first = options->results[0], *second = options->results[1];
    if (options->plot && is_result(options->plot)) /* forgotten before results, which would be lost */
        argp_error(state, "--plot: found `%s`, expected a file to draw into", options->plot);
    if (options->plot && options->form == SEL_TRACE_UNKNOWN && first && is_result(first) &&
        (second == NULL || is_result(second))) {
        if (options->generate || options->json)
            argp_error(state, "found results to draw and --%s, expected one of them",
                       options->generate ? "generate" : "json");
        return;
    }
    if (second)
        argp_error(state, "found a second trace `%s`, expected one", second);
    options->trace = first;
    options->results[0] = NULL;
    if (options->plot && options->json && strcmp(options->plot, options->json) == 0)
        argp_error(state, "--plot: found `%s`, where --json writes already", options->plot);
    options_check(state, options);
}

static error_t parse(int key, char *text, struct argp_state *state) {
    struct replay_options *options = state->input;
    if (key == ARGP_KEY_ARG) {
        if (options->results[1])
            argp_error(state, "found a third file `%s`, expected a trace, or two results with --plot", text);
        options->results[options->results[0] != NULL] = text;
        return 0;
    }
    if (key == ARGP_KEY_END) {
        files_check(state, options);
        return 0;
    }
    error_t result = parse_workload(key, text, state, options);
    if (result == ARGP_ERR_UNKNOWN)
        result = parse_conversation(key, text, state, options);
    if (result == ARGP_ERR_UNKNOWN)
        result = parse_store(key, text, state, options);
    return result == ARGP_ERR_UNKNOWN ? parse_play(key, text, state, options) : result;
}

void replay_options_parse(struct replay_options *options, int argc, char **argv) {
    static const struct argp argp = {
        table, parse, "TRACE\n--generate KIND\n--plot FILE RESULT.json [RESULT.json]", about, NULL, NULL, NULL};
    *options = (struct replay_options){.form = SEL_TRACE_UNKNOWN,
                                       .layout = "qwen3-8b",
                                       .scale = 256,
                                       .memory_bytes = UINT64_C(256) << 20,
                                       .spare_rows = 1,
                                       .concurrency = 4,
                                       .seed = 1};
    sel_cli_start(tool_and_version);
    argp_parse(&argp, argc, argv, 0, NULL, options);
}
