/* SPDX-License-Identifier: Apache-2.0
 *
 * selene_metrics_text [spec 15]: the counters in the Prometheus text exposition format 0.0.4.
 *
 * One table drives it: a row names a field of struct selene_stats, or an array of them with one set of labels for each
 * element. Rows of one name follow each other; the first has the help. Every sample of a family has the same label names
 * and all label values are always present, so that sums and rates have no gaps. Names are selene_*, units are base units
 * (seconds, bytes), counters end in _total. docs/COUNTERS.md is held to this table by a test, and the test finds a field
 * that nobody prints.
 */
#include "engine/metrics.h"

#include "engine/store_priv.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum metric_kind {
    COUNTER,
    GAUGE,
    NS_COUNTER, /* counted in nanoseconds, printed in seconds */
    STATE,      /* an int that names one of the label sets: that sample is 1, the others are 0 */
};

struct metric {
    const char *name;
    enum metric_kind kind;
    uint16_t offset, count;
    const char *const *labels; /* one text for each sample; NULL: one sample without labels */
    const char *help;          /* NULL: the row goes on with the family of the row before it */
};

#define FIELD(member)                                                                                                  \
    offsetof(struct selene_stats, member), sizeof(((struct selene_stats *)NULL)->member) / sizeof(uint64_t)
#define ONE(text)                                                                                                      \
    (const char *const[]) { text }

static const char *const tier[] = {"tier=\"memory\"", "tier=\"disk\"", "tier=\"pool\""};
static const char *const reason[] = {"reason=\"none\"", "reason=\"slots\"", "reason=\"in_flight\"", "reason=\"pool\""};
static const char *const retry[] = {"answer=\"retry\",reason=\"none\"", "answer=\"retry\",reason=\"slots\"",
                                    "answer=\"retry\",reason=\"in_flight\"", "answer=\"retry\",reason=\"pool\""};
static const char *const disk_state[] = {"state=\"ok\"", "state=\"full\"", "state=\"read_only\"", "state=\"failing\"",
                                         "state=\"stalled\""};
_Static_assert(SEL_COUNT(tier) == SELENE_TIER_COUNT, "a label for each tier");

/* clang-format off */
static const struct metric table[] = {
    {"selene_records", GAUGE, FIELD(records), tier, "Records held."},
    {"selene_held_bytes", GAUGE, FIELD(held_bytes), tier, "Bytes of records held, without padding."},
    {"selene_rows", GAUGE, FIELD(rows), tier, "Records held with their row."},
    {"selene_packed_records", GAUGE, FIELD(packed_records), tier, "Records held whose pages are stored once for all ranks."},
    {"selene_per_rank_records", GAUGE, FIELD(per_rank_records), tier, "Records held whose pages are stored for each rank."},
    {"selene_packed_rows", GAUGE, FIELD(packed_rows), tier, "Records held whose row is stored once for all ranks."},
    {"selene_slots_used", GAUGE, FIELD(slots_used), NULL, "Slots of host memory in use."},
    {"selene_slots_capacity", GAUGE, FIELD(slots_total), NULL, "Slots of host memory in all, the intake included."},
    {"selene_slots_intake", GAUGE, FIELD(slots_intake), NULL, "Slots kept free to receive new records."},
    {"selene_lookups_total", COUNTER, FIELD(lookups), NULL, "Look-ups."},
    {"selene_lookup_hits_total", COUNTER, FIELD(lookup_hits), tier, "Look-ups with a match, by the slowest tier it lies in."},
    {"selene_lookup_misses_total", COUNTER, FIELD(lookup_misses), NULL, "Look-ups without a match."},
    {"selene_restore_estimates_total", COUNTER, FIELD(estimates), NULL, "Look-ups whose restore time could be estimated."},
    {"selene_restores_declined_total", COUNTER, FIELD(declines), NULL, "Look-ups told that computing is faster."},
    {"selene_restores_total", COUNTER, FIELD(restores), NULL, "Restores started."},
    {"selene_restored_bytes_total", COUNTER, FIELD(restored_bytes), tier, "Bytes restored and good, by the tier they came from."},
    {"selene_restore_seconds_total", NS_COUNTER, FIELD(restore_ns), tier, "Time of restores, by the slowest tier they read."},
    {"selene_publishes_total", COUNTER, FIELD(publishes_accepted), ONE("answer=\"accepted\",reason=\"none\""), "Publishes by answer, retries by reason."},
    {"selene_publishes_total", COUNTER, FIELD(publishes_present), ONE("answer=\"present\",reason=\"none\""), NULL},
    {"selene_publishes_total", COUNTER, FIELD(publishes_oversize), ONE("answer=\"oversize\",reason=\"none\""), NULL},
    {"selene_publishes_total", COUNTER, FIELD(publishes_retry), retry, NULL},
    {"selene_publishes_abandoned_total", COUNTER, FIELD(publishes_abandoned), reason, "Retried publishes that the caller gave up."},
    {"selene_publishes_failed_total", COUNTER, FIELD(publishes_failed), NULL, "Accepted publishes that ended with an error."},
    {"selene_published_bytes_total", COUNTER, FIELD(published_bytes), NULL, "Bytes copied out of device memory."},
    {"selene_rows_thinned_total", COUNTER, FIELD(rows_thinned), tier, "Rows given up because nobody will resume there."},
    {"selene_rows_brought_back_total", COUNTER, FIELD(rows_brought_back), NULL, "Rows published again after they were given up."},
    {"selene_abandoned_stores_total", COUNTER, FIELD(abandoned_stores), NULL, "Streams given up because a later window differed between ranks."},
    {"selene_evictions_total", COUNTER, FIELD(evictions), tier, "Records that left for want of room."},
    {"selene_expiries_total", COUNTER, FIELD(expiries), tier, "Records that left because of their age."},
    {"selene_dropped_records_total", COUNTER, FIELD(dropped_records), NULL, "Records that left their last tier for want of a readable copy or of a disk that takes them."},
    {"selene_spills_total", COUNTER, FIELD(spills), NULL, "Records written to disk to make room in memory."},
    {"selene_spill_retries_total", COUNTER, FIELD(spill_retries), NULL, "Writes tried again in another segment."},
    {"selene_drained_records_total", COUNTER, FIELD(drained_written), ONE("result=\"written\""), "Records that drains wrote, or skipped and why."},
    {"selene_drained_records_total", COUNTER, FIELD(drained_skipped_deadline), ONE("result=\"skipped_deadline\""), NULL},
    {"selene_drained_records_total", COUNTER, FIELD(drained_skipped_failed), ONE("result=\"skipped_failed\""), NULL},
    {"selene_drained_records_total", COUNTER, FIELD(drained_skipped_parent), ONE("result=\"skipped_parent\""), NULL},
    {"selene_drained_records_total", COUNTER, FIELD(drained_skipped_room), ONE("result=\"skipped_room\""), NULL},
    {"selene_checksum_failures_total", COUNTER, FIELD(checksum_failures), tier, "Copies whose checksum was wrong."},
    {"selene_io_errors_total", COUNTER, FIELD(io_errors), tier, "Copies that could not be read or written."},
    {"selene_disk_state", STATE, FIELD(disk_state), disk_state, "1 for the state that the disk tier is in."},
    {"selene_disk_written_bytes_total", COUNTER, FIELD(disk_written_bytes), NULL, "Bytes written to segments, headers included."},
    {"selene_disk_read_bytes_total", COUNTER, FIELD(disk_read_bytes), NULL, "Bytes read from segments, headers included."},
    {"selene_disk_allocated_bytes", GAUGE, FIELD(disk_allocated_bytes), NULL, "Bytes that the record directory takes."},
    {"selene_disk_live_bytes", GAUGE, FIELD(disk_live_bytes), NULL, "Bytes of extents that belong to records."},
    {"selene_disk_dead_bytes", GAUGE, FIELD(disk_dead_bytes), NULL, "Bytes of extents that no record needs and that are not given back yet."},
    {"selene_disk_segments", GAUGE, FIELD(disk_segments), NULL, "Segment files."},
    {"selene_recovered_records_total", COUNTER, FIELD(recovered_records), NULL, "Records found past the index after a crash."},
    {"selene_torn_extents_total", COUNTER, FIELD(torn_extents), NULL, "Extents that a crash left incomplete."},
    {"selene_recycled_segments_total", COUNTER, FIELD(recycled_segments), NULL, "Dead segments used again."},
    {"selene_punched_bytes_total", COUNTER, FIELD(punched_bytes), NULL, "Bytes of dead extents given back to the file system."},
    {"selene_copied_forward_bytes_total", COUNTER, FIELD(copied_forward_bytes), NULL, "Bytes of live extents moved to free their segment."},
    {"selene_index_bytes", GAUGE, FIELD(memory_index_bytes), ONE("tier=\"memory\""), "Bytes of the index: the prefix tree, and the index file on disk."},
    {"selene_index_bytes", GAUGE, FIELD(index_bytes), ONE("tier=\"disk\""), NULL},
};
/* clang-format on */

/* What is written into; `length` goes on where the room ends. */
struct writer {
    char *text;
    size_t size, length;
};

__attribute__((format(printf, 2, 3))) static void put(struct writer *writer, const char *format, ...) {
    bool room = writer->length < writer->size;
    va_list arguments;
    va_start(arguments, format);
    int wrote = vsnprintf(room ? writer->text + writer->length : NULL, room ? writer->size - writer->length : 0, format,
                          arguments);
    va_end(arguments);
    writer->length += wrote > 0 ? (size_t)wrote : 0;
}

static uint64_t sample_value(const struct metric *metric, const struct selene_stats *stats, size_t index) {
    const uint8_t *at = (const uint8_t *)stats + metric->offset;
    uint64_t value;
    if (metric->kind == STATE) {
        int state;
        memcpy(&state, at, sizeof state);
        return state == (int)index;
    }
    memcpy(&value, at + index * sizeof value, sizeof value);
    return value;
}

static void put_sample(struct writer *writer, const struct metric *metric, const struct selene_stats *stats,
                       size_t index) {
    uint64_t value = sample_value(metric, stats, index);
    put(writer, "%s", metric->name);
    if (metric->labels)
        put(writer, "{%s}", metric->labels[index]);
    if (metric->kind == NS_COUNTER)
        put(writer, " %" PRIu64 ".%09" PRIu64 "\n", value / SEL_NS_PER_SECOND, value % SEL_NS_PER_SECOND);
    else
        put(writer, " %" PRIu64 "\n", value);
}

size_t sel_metrics_print(const struct selene_stats *stats, char *text, size_t size) {
    struct writer writer = {text, size, 0};
    for (size_t i = 0; i < SEL_COUNT(table); i++) {
        const struct metric *metric = &table[i];
        bool counter = metric->kind == COUNTER || metric->kind == NS_COUNTER;
        size_t count = metric->kind == STATE ? SEL_COUNT(disk_state) : metric->count;
        if (metric->help)
            put(&writer, "# HELP %s %s\n# TYPE %s %s\n", metric->name, metric->help, metric->name,
                counter ? "counter" : "gauge");
        for (size_t index = 0; index < count; index++)
            put_sample(&writer, metric, stats, index);
    }
    return writer.length;
}

int64_t selene_metrics_text(selene_store *store, char *text, size_t size) {
    struct selene_stats stats;
    if (!text && size)
        return SELENE_E_INVALID;
    int result = selene_get_stats(store, &stats, sizeof stats);
    if (result)
        return result;
    if (size)
        *text = 0;
    return (int64_t)sel_metrics_print(&stats, text, size);
}
