/* SPDX-License-Identifier: Apache-2.0
 *
 * Publishing without a warm tier inside: a record on its way to disk (publish_stream.c), in windows (publish_window.c).
 */
#ifndef SEL_ENGINE_STREAM_PRIV_H
#define SEL_ENGINE_STREAM_PRIV_H

#include "engine/publish_priv.h"

struct sel_stream {
    struct sel_list link; /* in store->streaming, while windows are left to start */
    struct sel_draft *draft;
    struct sel_lsm_write *write; /* NULL: not begun yet, or abandoned */
    struct sel_op finish;
    struct sel_request *event; /* of the commit, when the caller wants it */
    struct sel_list windows;
    uint32_t window_count;
    uint32_t copying;                /* windows whose checksums are not known yet */
    uint32_t next;                   /* page, then piece of the row, that the next window begins at */
    struct sel_copy_part pages, row; /* pieces and checksums; the slots are the windows' */
    bool finished;
    bool write_failed;
    bool committed;
    bool kept; /* the committed record is in the tree */
};

/* publish_stream.c */
/* After each window: the end of the data, or of a stream that failed. */
void sel_stream_check(struct sel_stream *stream);
/* A window says that the ranks differ after all [K2]: this record and those after it begin again, per rank. */
void sel_stream_differs(struct sel_stream *stream);

/* publish_window.c */
/* Pages of the window that decides how all of them are stored. */
uint32_t sel_window_first_pages(const selene_store *store);
/* Starts the next window. SELENE_E_RETRY: no slots now. */
int sel_window_start(struct sel_stream *stream);
/* What waits for the caller's event is not started any more. */
void sel_windows_stop(struct sel_stream *stream);

#endif
