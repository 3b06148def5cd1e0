-------------------------------- MODULE Rows --------------------------------
(***************************************************************************)
(* The token table as a judge: one row, the requests that may come for it, *)
(* what each asks of the row (its condition) and what it makes of it.      *)
(* Pure: nothing here says who sends what, or when.                        *)
(*                                                                         *)
(* Every guard has a name and can be dropped.  With none dropped all       *)
(* promises hold; with any one of them dropped TLC finds a counterexample. *)
(***************************************************************************)
EXTENDS Integers, FiniteSets

CONSTANTS
    Dropped,    \* the guards that this run does without: {} but in a twin
    Fences,     \* whether fences are counted: they tell states apart that are alike in all else
    Streams,    \* whether the watchdog reads the table's stream, and a first acquisition is not listed
    None        \* nobody, nothing

Guards == {
    \* conditions of an acquisition
    "claim",                    \* it asks at all that nobody claims the token
    "lapsed",                   \* what is in progress changes hands only when its lease is over
    "settled",                  \* what is complete is acquired only past its ttl
    "ghost",                    \* attempt <> :a on a released row
    "released_as_seen",         \* under hold and probe: a released row only as it was seen
    "seen_lease",               \* after a probe: the attempt and the lease that it was asked about,
    "seen_state",               \*   and still in progress
    "listed_free",              \* what a decision released is free, though the index has it,
    "listed_as_seen",           \*   and so under hold and probe, as it was seen
    "before",                   \* taken over is only what was in progress
    "fence_clock",              \* the first fence of a row is the clock's
    \* conditions of every later write
    "attempt",                  \* the row still names the attempt
    "in_progress",              \* and is still in progress
    "lengthen",                 \* extend only ever lengthens
    \* ttl
    "ttl_covers_lease",         \* of a row in progress: its lease and keep
    "ttl_follows_extend",       \* extend moves it along
    "ttl_under_hold",           \* an acquisition under hold or probe sets none
    "ttl_off_at_acquisition",   \* and removes the one that was there
    "ttl_off_on_hold",          \* HOLD removes it
    "ttl_off_on_release",       \* and so does a decision that releases
    "pin",                      \* a request answered Held removes it
    \* the list, where the watchdog reads the stream: a first acquisition alone leaves it to the watchdog
    "list_taken",               \* an acquisition of a row that is there lists it, also of one that expired,
    "list_extended",            \*   and so does extend,
    "list_waiting",             \*   what waits for a person, or was released by one,
    "list_pinned",              \*   and what loses its ttl
    "list_as_read",             \* the watchdog lists the attempt that it read, while in progress
    "keep_alive",               \* what it read alive it keeps, and reads again
    "scan_gap",                 \* after a gap it reads the whole table
    \* parts of large results
    "parts_first",              \* they are written before the row is flipped
    "parts_by_attempt",         \* named by attempt
    "parts_by_write",           \*   and by the write that they belong to
    "parts_outlive",            \* and expire after the row
    \* what an attempt makes of an answer
    "recognition",              \* a refused write may be our own
    "write_id",                 \*   if the row bears the id of this very write
    "own_outcome",              \* refused by another write of its attempt, an attempt answers what stands
    "own_lease",                \* a recognised acquisition has the lease of the row, not of the last wish
    "fresh_id",                 \* an attempt id is made for each acquisition
    "resolution_id",            \* and for each resolution by probe or operator
    "margin",                   \* the lease outlasts the invocation
    "lease_alive",              \* nothing starts on a lease that is over
    "answered",                 \* nothing starts on an acquisition without an answer
    "atomic"                    \* transact: effect and completion are one write
}

(* What another condition of the same write implies: dropped alone, nothing breaks. *)
Spares == {
    "own_lapsed",               \* attempt <> :a on a lapsed row: our own wish is older than our own lease
    "released_state",           \* under hold: what the attempt that was seen released stays released
    "seen_attempt"              \* after a probe: a later attempt has a later lease
}
ASSUME Dropped \subseteq Guards \cup Spares
On(guard) == guard \notin Dropped

Never == 99     \* a ttl that the row does not have
Same  == -1     \* a write that leaves the ttl as it was

(***************************************************************************)
(* A row: its state, the attempt id that it bears, the id of whoever wrote *)
(* it last (no attribute of the real row: see NoStranger), the id of the   *)
(* write that ended it, lease, ttl, the outcome, the fence; and whether    *)
(* the index has it though it is released, because a decision released it. *)
(***************************************************************************)
NoRow == [state |-> "absent", id |-> None, by |-> None, write |-> None, lease |-> 0, ttl |-> Never,
          outcome |-> None, fence |-> 0, listed |-> FALSE, entry |-> FALSE]

Finished(row)       == row.state \in {"complete", "released"}
Expired(row, time)  == Finished(row) /\ row.ttl <= time
Lapsed(row, time)   == row.state = "inProgress" /\ row.lease < time

(***************************************************************************)
(* A request: its kind, the process it comes from, the attempt id that the *)
(* row bears after it, until when a copy of it may arrive, the clock that  *)
(* an acquisition compares with, lease and ttl that it writes, and what it *)
(* saw where it asks for that.  `take' is what an acquisition asks for,    *)
(* and what a resolution does.  `write' is the id of a write that ends an  *)
(* attempt: who makes it, and which of the few that it may make.           *)
(***************************************************************************)
Ends == {"complete", "transact", "release", "hold", "resolve"}

Request(kind, from, id, until) ==
    [kind |-> kind, from |-> from, id |-> id, until |-> until, clock |-> 0, lease |-> 0, ttl |-> Never,
     take |-> "", seen |-> None, seenLease |-> 0, seenState |-> "",
     write |-> IF kind \in Ends THEN [of |-> from, how |-> kind] ELSE None]

(* ------------------------------------------------------------ conditions *)

AsSeen(row, m) ==
    /\ row.id = m.seen \/ ~On("seen_attempt")
    /\ row.lease = m.seenLease \/ ~On("seen_lease")
    /\ row.state = m.seenState \/ ~On("seen_state")
    /\ row.state # "absent"

Takes(row, m) ==
    LET free     == \/ row.state = "absent"
                    \/ Expired(row, m.clock)
                    \/ row.state = "complete" /\ ~On("settled")
        released == /\ row.state = "released"
                    /\ row.id # m.id \/ ~On("ghost")
                    /\ ~row.listed \/ On("listed_free")
        lapsed   == /\ row.state = "inProgress"
                    /\ row.lease < m.clock \/ ~On("lapsed")
                    /\ row.id # m.id \/ ~On("own_lapsed")
    IN  \/ ~On("claim")
        \/ m.take = "any"       /\ (free \/ released \/ lapsed)
        \/ m.take = "unclaimed" /\ (free \/ (row.state = "released" /\ ~On("released_as_seen")))
        \/ m.take = "released"  /\ row.id = m.seen /\ (row.state = "released" \/ ~On("released_state"))
                                /\ (~row.listed \/ On("listed_as_seen"))
        \/ m.take = "lapsed"    /\ AsSeen(row, m)

(* Whether the answer to a granted acquisition says that it was taken over. *)
TakenOver(row) == row.state = "inProgress" \/ (row.listed /\ ~On("before"))

Ours(row, m) ==
    /\ row.id = m.id \/ ~On("attempt")
    /\ row.state = "inProgress" \/ ~On("in_progress")
    /\ row.state # "absent"

Accepts(row, m) ==
    CASE m.kind = "acquire" -> Takes(row, m)
      [] m.kind = "extend"  -> Ours(row, m) /\ (row.lease < m.lease \/ ~On("lengthen"))
      [] m.kind = "resolve" -> AsSeen(row, m)
      [] m.kind = "parts"   -> TRUE
      [] m.kind = "list"    -> /\ row.state # "absent"
                               /\ (row.id = m.id /\ row.state = "inProgress") \/ ~On("list_as_read")
      [] OTHER              -> Ours(row, m)

(* ---------------------------------------------------------------- writes *)

Acquired(row, m) ==
    LET kept == m.ttl = Never /\ row.state # "absent" /\ ~On("ttl_off_at_acquisition")
        first == IF On("fence_clock") THEN 10 * m.clock ELSE 0
    IN  [state |-> "inProgress", id |-> m.id, by |-> m.id, write |-> None, lease |-> m.lease,
         ttl |-> IF kept THEN row.ttl ELSE m.ttl, outcome |-> None, listed |-> FALSE,
         entry |-> Streams /\ row.state # "absent" /\ On("list_taken"),
         fence |-> IF ~Fences THEN 0 ELSE (IF row.state = "absent" THEN first ELSE row.fence) + 1]

Settled(row, m, state) ==
    [row EXCEPT !.state = state, !.by = m.id, !.write = m.write, !.ttl = IF m.ttl = Same THEN @ ELSE m.ttl,
                !.listed = m.kind = "resolve" /\ state = "released",
                !.entry = /\ Streams /\ On("list_waiting")
                          /\ state = "held" \/ (state = "released" /\ m.kind = "resolve"),
                !.outcome = IF state = "complete" THEN m.write ELSE None]

After(row, m) ==
    CASE ~Accepts(row, m)     -> row
      [] m.kind = "acquire"   -> Acquired(row, m)
      [] m.kind = "complete"  -> Settled(row, m, "complete")
      [] m.kind = "transact"  -> Settled(row, m, "complete")
      [] m.kind = "release"   -> Settled(row, m, "released")
      [] m.kind = "hold"      -> Settled(row, m, "held")
      [] m.kind = "extend"    -> [row EXCEPT !.lease = m.lease, !.by = m.id,
                                             !.entry = @ \/ (Streams /\ On("list_extended")),
                                             !.ttl = IF m.ttl = Same THEN @ ELSE m.ttl]
      [] m.kind = "pin"       -> [row EXCEPT !.ttl = Never, !.entry = @ \/ (Streams /\ On("list_pinned"))]
      [] m.kind = "list"      -> [row EXCEPT !.entry = TRUE]
      [] m.kind = "resolve"   -> [Settled(row, m, m.take) EXCEPT
                                    !.id = m.id, !.fence = IF Fences THEN @ + 1 ELSE @]
      [] m.kind = "parts"     -> row

(* What is not finished, and nobody else will finish. *)
Open(row) == row.state \in {"inProgress", "held"} \/ (row.state = "released" /\ row.listed)

(* The row is as m would have made it. *)
AsMade(row, m) ==
    \/ m.kind = "acquire" /\ row.state = "inProgress"
    \/ m.kind \in {"complete", "transact"} /\ row.state = "complete"
    \/ m.kind = "release" /\ row.state = "released"
    \/ m.kind = "hold" /\ row.state = "held"
    \/ m.kind = "extend" /\ row.state = "inProgress" /\ row.lease >= m.lease
    \/ m.kind = "pin" /\ row.state = "inProgress" /\ row.ttl = Never
    \/ m.kind = "resolve" /\ row.state = m.take

(* The row is as it is by m: an end says so by its id, and else there is but one way to make it so. *)
MadeBy(row, m) == IF m.kind \in Ends THEN row.write = m.write ELSE row.id = m.id /\ AsMade(row, m)

(* What a refused write may be: our own, of which only the response was lost. *)
Made(row, m) ==
    /\ On("recognition")
    /\ MadeBy(row, m) \/ (~On("write_id") /\ row.id = m.id /\ AsMade(row, m))
=============================================================================
