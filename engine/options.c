/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of a store: defaults, and what is wrong with them, said so that the caller can mend it.
 */
#include "engine/store_priv.h"

#include <inttypes.h>
#include <string.h>

#define SEL_ACTIVE_REQUESTS_MAX 65536
#define SEL_PAGE_GROUP_MAX      65536
/* Room for one small page segment and one row segment, what is kept ahead, and the index: below, nothing would ever be
 * written and the empty index alone could exceed the limit [D6]. */
#define SEL_DISK_LIMIT_MIN (UINT64_C(4) << 20)

void selene_options_init(struct selene_options *options) {
    if (!options)
        return;
    memset(options, 0, sizeof *options);
    options->struct_bytes = sizeof *options;
    options->spare_rows = 1;
    options->log_level = SEL_LOG_WARNING;
}

int sel_options_check_planes(const struct selene_options *options, struct selene_message *message) {
    const struct selene_layout *layout = options->layout;
    if (!options->planes)
        return sel_fail(message, SELENE_E_INVALID, "planes: NULL, expected %" PRIu32 " x %" PRIu32 " entries",
                        layout->rank_count, layout->plane_count);
    if (options->block_count == 0)
        return sel_fail(message, SELENE_E_INVALID, "block_count: 0, expected at least 1");
    for (uint32_t rank = 0; rank < layout->rank_count; rank++)
        for (uint32_t plane = 0; plane < layout->plane_count; plane++) {
            const struct selene_plane_memory *memory = &options->planes[rank * layout->plane_count + plane];
            if (!memory->base)
                return sel_fail(message, SELENE_E_INVALID, "planes: rank %" PRIu32 " plane %" PRIu32 ": base is NULL",
                                rank, plane);
            if (options->block_count > 1 && memory->stride_bytes < layout->planes[plane].bytes)
                return sel_fail(message, SELENE_E_INVALID,
                                "planes: rank %" PRIu32 " plane %" PRIu32 ": stride_bytes %" PRIu64
                                ", expected at least the plane's %" PRIu64,
                                rank, plane, memory->stride_bytes, layout->planes[plane].bytes);
            uint64_t end;
            if (__builtin_mul_overflow(memory->stride_bytes, options->block_count - 1, &end) ||
                __builtin_add_overflow(end, layout->planes[plane].bytes, &end) ||
                __builtin_add_overflow(end, (uintptr_t)memory->base, &end))
                return sel_fail(message, SELENE_E_INVALID,
                                "planes: rank %" PRIu32 " plane %" PRIu32 ": stride_bytes %" PRIu64
                                " x block_count %" PRIu32 " from %p on leaves the address space",
                                rank, plane, memory->stride_bytes, options->block_count, memory->base);
        }
    return 0;
}

int sel_options_check(const struct selene_options *options, struct selene_message *message) {
    if (!options)
        return sel_fail(message, SELENE_E_INVALID, "options: NULL");
    if (options->struct_bytes != sizeof *options)
        return sel_fail(message, SELENE_E_INVALID,
                        "struct_bytes: %zu, expected %zu (selene_options_init sets it; header and library differ?)",
                        options->struct_bytes, sizeof *options);
    if (!options->layout)
        return sel_fail(message, SELENE_E_INVALID, "layout: NULL");
    if (options->host_budget_bytes && options->memory_bytes > options->host_budget_bytes)
        return sel_fail(message, SELENE_E_INVALID,
                        "memory_bytes: %" PRIu64 ", expected at most host_budget_bytes, %" PRIu64,
                        options->memory_bytes, options->host_budget_bytes);
    if (options->max_active_requests > SEL_ACTIVE_REQUESTS_MAX)
        return sel_fail(message, SELENE_E_INVALID, "max_active_requests: %" PRIu32 ", expected at most %d",
                        options->max_active_requests, SEL_ACTIVE_REQUESTS_MAX);
    if (options->page_group > SEL_PAGE_GROUP_MAX)
        return sel_fail(message, SELENE_E_INVALID, "page_group: %" PRIu32 ", expected at most %d", options->page_group,
                        SEL_PAGE_GROUP_MAX);
    if (options->worker_threads > SELENE_WORKER_THREADS_MAX)
        return sel_fail(message, SELENE_E_INVALID, "worker_threads: %" PRIu32 ", expected at most %d",
                        options->worker_threads, SELENE_WORKER_THREADS_MAX);
    if (options->spare_rows > SELENE_SPARE_ROWS_MAX)
        return sel_fail(message, SELENE_E_INVALID, "spare_rows: %" PRIu32 ", expected at most %d", options->spare_rows,
                        SELENE_SPARE_ROWS_MAX);
    if (!(options->prefill_tokens_per_s >= 0)) /* also what is no number */
        return sel_fail(message, SELENE_E_INVALID, "prefill_tokens_per_s: %g, expected at least 0",
                        options->prefill_tokens_per_s);
    if (options->durability != SELENE_RELAXED && options->durability != SELENE_STRICT)
        return sel_fail(message, SELENE_E_INVALID, "durability: %d, expected SELENE_RELAXED (0) or SELENE_STRICT (1)",
                        options->durability);
    if (options->disk_directory && !*options->disk_directory)
        return sel_fail(message, SELENE_E_INVALID, "disk_directory: an empty name, expected a path or NULL");
    if (options->disk_limit_bytes && options->disk_limit_bytes < SEL_DISK_LIMIT_MIN)
        return sel_fail(message, SELENE_E_INVALID, "disk_limit_bytes: %" PRIu64 ", expected 0 or at least %" PRIu64,
                        options->disk_limit_bytes, SEL_DISK_LIMIT_MIN);
    return 0;
}
