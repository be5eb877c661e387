/* SPDX-License-Identifier: Apache-2.0
 *
 * Intrusive doubly linked list. The head is a `struct sel_list` that points to itself when empty; a member is a
 * `struct sel_list` inside the owner's struct. A member that is in no list points to itself, so that removing it twice
 * is harmless and sel_list_linked() is exact. No allocation, no locking: one thread, or the caller's lock.
 */
#ifndef SEL_BASE_LIST_H
#define SEL_BASE_LIST_H

#include "base/check.h"

#include <stdbool.h>

struct sel_list {
    struct sel_list *next;
    struct sel_list *prev;
};

static inline void sel_list_init(struct sel_list *list) { list->next = list->prev = list; }

static inline bool sel_list_linked(const struct sel_list *member) { return member->next != member; }

static inline bool sel_list_empty(const struct sel_list *head) { return head->next == head; }

static inline void sel_list_add_tail(struct sel_list *head, struct sel_list *member) {
    SEL_DEBUG(!sel_list_linked(member));
    member->prev = head->prev;
    member->next = head;
    head->prev->next = member;
    head->prev = member;
}

static inline void sel_list_add_head(struct sel_list *head, struct sel_list *member) {
    sel_list_add_tail(head->next, member);
}

static inline void sel_list_remove(struct sel_list *member) {
    member->prev->next = member->next;
    member->next->prev = member->prev;
    sel_list_init(member);
}

/* The first member, unlinked, or NULL. */
static inline struct sel_list *sel_list_pop(struct sel_list *head) {
    struct sel_list *first = head->next;
    if (first == head)
        return NULL;
    sel_list_remove(first);
    return first;
}

/* Moves all members of `from` to the tail of `to`; `from` is empty afterwards. */
static inline void sel_list_splice_tail(struct sel_list *to, struct sel_list *from) {
    if (sel_list_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    sel_list_init(from);
}

#define SEL_LIST_ENTRY(pointer, type, member) SEL_CONTAINER(pointer, type, member)

/* Walks a list; the current member may be removed inside the loop. */
#define SEL_LIST_FOR_EACH(cursor, head)                                                                                \
    for (struct sel_list *cursor = (head)->next, *cursor##_next = cursor->next; cursor != (head);                      \
         cursor = cursor##_next, cursor##_next = cursor->next)

#endif
