/* SPDX-License-Identifier: Apache-2.0
 * The protocol of the command ring (ferry/ring.h) as a model for spin: reserve, lap bits, a full ring, slots given up, closing.
 * A slot is one word here; commands of two slots stand for all that is read in pieces. tests/proxy/model.sh runs it, and
 * each of the broken variants, which spin has to refuse: HOLE, EARLY, NOROOM, TORN, DROP. */

#define CAP 2          /* slots: a power of two */
#define PRODUCERS 2
#define COMMANDS 2     /* that the first producer tries; the second tries one */
#define MOST 6         /* slots ever reserved */

#define OPEN 0
#define CLOSING 1
#define CLOSED 2

#define LAP(p) (1 - ((p) / CAP) % 2)
#define ROOM(end) ((end) - consumed <= CAP)

byte head, consumed, state = OPEN, finished;
bit lap[CAP];
byte mark[CAP];        /* what a word says: 0 NOP, else 1 + position of its command */
byte size[CAP];        /* of a first word: its command's slots */
bit accepted[MOST];    /* by the position of its first slot: its producer was told that it will be carried out */
bit carried[MOST];

inline store(where, what, slots) { d_step { mark[(where) % CAP] = what; size[(where) % CAP] = slots; lap[(where) % CAP] = LAP(where) } }

inline cancel()
{
    i = 0;
    do
    :: i < n ->
#ifdef HOLE
        break
#endif
        if
        :: ROOM(at + i + 1) -> store(at + i, 0, 1)
        :: state == CLOSED -> skip
        fi;
        i++
    :: else -> break
    od
}

inline post()
{
#ifdef EARLY
    open = (state == OPEN);
#endif
    d_step { at = head; head = head + n }   /* one fetch-and-add */
#ifndef EARLY
    open = (state == OPEN);
#endif
    if
    :: !open -> cancel()
    :: open -> cancel()                     /* a producer may change its mind */
    :: open ->
        accepted[at] = 1;
#ifndef NOROOM
        if
        :: ROOM(at + n)
        :: state == CLOSED -> assert(false) /* whoever was accepted gets room before */
        fi;
#endif
        i = 0;
        do
        :: i < n -> store(at + i, 1 + at, n); i++
        :: else -> break
        od
    fi
}

active [PRODUCERS] proctype producer()
{
    byte at, n, i, k;
    bit open;
    for (k : 1 .. COMMANDS - _pid) {
        if
        :: n = 1
        :: n = 2
        fi;
        post()
    }
    finished++
}

inline consume()
{
    first = mark[consumed % CAP];
    n = size[consumed % CAP];
    i = 1;
    do
    :: i < n ->
#ifndef TORN
        lap[(consumed + i) % CAP] == LAP(consumed + i);
#endif
        assert(mark[(consumed + i) % CAP] == first);
        i++
    :: else -> break
    od;
    if
    :: first ->
        assert(first == 1 + consumed && accepted[consumed] && !carried[consumed]);
        carried[consumed] = 1
    :: else -> skip
    fi;
    consumed = consumed + n
}

active proctype consumer()
{
    byte first, n, i, end;
    do
    :: lap[consumed % CAP] == LAP(consumed) -> consume()
    :: state == OPEN -> break               /* the application closes it, whenever it likes */
    od;
    state = CLOSING;
    end = head;
#ifndef DROP
    do
    :: consumed < end -> lap[consumed % CAP] == LAP(consumed); consume()
    :: else -> break
    od;
#endif
    state = CLOSED;
    finished == PRODUCERS;                  /* nobody is left waiting, or spin calls this end invalid */
    for (i : 0 .. MOST - 1) {
        assert(!accepted[i] || carried[i])
    }
}
