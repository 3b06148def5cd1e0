------------------------------- MODULE Tokens -------------------------------
(***************************************************************************)
(* The life of one token: attempts that acquire it, work and settle it, a  *)
(* network that delays, repeats and loses, clocks that differ, and a table *)
(* that deletes what is past its ttl.                                      *)
(*                                                                         *)
(* A process is one invocation and makes one attempt.  A crash, a kill and *)
(* a pause are the same here: the process takes no step, for as long as it *)
(* likes; if it takes one after its lease is over it is a zombie.          *)
(***************************************************************************)
EXTENDS Rows, TLC

CONSTANTS
    Procs,          \* invocations
    RequestId,      \* stands for an attempt id that was not made freshly
    Operator,       \* the person
    Policies,       \* on_lapse: a subset of {"take_over", "hold", "probe"}; each process has one
    Errors,         \* what an exception may do: a subset of {"release", "hold"}
    Transact,       \* whether the effect is written by transact
    Large,          \* whether results are stored in parts
    Work,           \* how long an invocation has
    Renewal,        \* how long it has after extend
    Margin,         \* what the lease has beyond that
    Keep,           \* how long an outcome is kept
    PartMargin,     \* how much longer its parts are
    Reading,        \* how long a reader may take from row to parts
    Skews,          \* by how much a clock may be ahead of true time
    Patience,       \* how long a request is sent again whose answer somebody waits for: 30 s, a tick here
    Delay,          \* how long a copy of a request that nobody waits for may be under way
    MaxTime,
    Faults,         \* how many answers may be lost, or waited for in vain
    Ghosts,         \* how many requests may arrive a second time
    Extends,        \* how often leases may be renewed
    Operators,      \* how often the person may act
    Deletes,        \* whether the table deletes what is past its ttl
    Zombies         \* whether somebody may be at work past its invocation's end

ASSUME Patience + Delay < Keep  \* nothing is under way for longer than an outcome is kept

VARIABLES
    now,            \* true time
    row,            \* the token
    parts,          \* parts of large results: [name, of, ttl], of the write that they belong to
    net,            \* requests under way
    pc,             \* where each process stands
    req,            \* the request whose answer it waits for
    lease,          \* until when it believes that the token is its own
    saw,            \* the row that refused it
    skew, policy,   \* of each process, chosen at the start
    budget,         \* what of faults, ghosts, extends and operators is left
    effects,        \* who has had an effect on the world
    stored,         \* every outcome that was ever stored
    vouched,        \* attempts of which a probe or the person said that they did nothing
    final,          \* the outcome that stands, and until when it must
    fences,         \* the largest fence handed out
    fell,           \* whether a later one was not larger
    strayed,        \* who started without holding the token
    watch           \* what the watchdog has of the token: nothing, the unread record of its first acquisition,
                    \*   one that other records follow, a key that it keeps, a gap in the stream

vars == <<now, row, parts, net, pc, req, lease, saw, skew, policy, budget, effects, stored,
          vouched, final, fences, fell, strayed, watch>>
world == <<effects, stored, vouched, final, fences, fell>>

Clock(p)    == now + skew[p]
Ahead       == CHOOSE s \in Skews : \A t \in Skews : t <= s
Id(p)       == IF On("fresh_id") THEN p ELSE RequestId
Mortal(p)   == policy[p] = "take_over"
Beyond      == IF On("margin") THEN Margin ELSE 0
NewLease(p) == Clock(p) + Work + Beyond
Renewed(p)  == Clock(p) + Renewal + Beyond
\* a ttl that nobody here lives to see is as good as any other
Later(time) == IF time > MaxTime + 3 THEN MaxTime + 3 ELSE time

(* Where a process may stand. Its ends: in progress, answered, held, fenced, completed, released, asked a   *)
(* person, transacted, unmarked (it gave up writing what is done), gave up (before it started); and two that must not   *)
(* be: its own enemy (it took its own write for another's) and deceived (it took another's for its own).    *)
Waiting  == {"acquiring", "extending", "readying", "completing", "storing", "holding", "releasing",
             "transacting", "pinning", "resolving"}
Believes == {"won", "working", "worked", "extending", "readying", "transacting"}
AtWork(p) == pc[p] \in {"working", "worked", "extending", "transacting"}
OnTime(p) == Clock(p) <= lease[p] - Beyond

(* -------------------------------------------------------------- requests *)

Asks(p, kind) == Request(kind, p, Id(p), Later(now + Delay))

Acquire(p, take, seen) ==
    LET until == NewLease(p)
        from  == IF On("ttl_covers_lease") THEN until ELSE Clock(p)
    IN  [Asks(p, "acquire") EXCEPT
            !.take = take, !.seen = seen.id, !.seenLease = seen.lease, !.seenState = seen.state,
            !.clock = Clock(p), !.lease = until,
            !.ttl = IF Mortal(p) \/ ~On("ttl_under_hold") THEN Later(from + Keep) ELSE Never]

Extend(p) ==
    [Asks(p, "extend") EXCEPT
        !.lease = Renewed(p),
        !.ttl = IF ~On("ttl_follows_extend") THEN Same ELSE IF Mortal(p) THEN Later(Renewed(p) + Keep)
                ELSE Never]

Settles(p, kind) == [Asks(p, kind) EXCEPT !.ttl = Later(Clock(p) + Keep)]
PartsOf(p, kind) == [Settles(p, "parts") EXCEPT !.write = [of |-> p, how |-> kind]]
Holds(p) == [Asks(p, "hold") EXCEPT !.ttl = IF On("ttl_off_on_hold") THEN Never ELSE Same]
Pins(p, seen) == [Asks(p, "pin") EXCEPT !.id = seen.id]

Resolves(by, seen, to, clock) ==
    LET id == IF On("resolution_id") THEN [fresh |-> by] ELSE seen.id
    IN  [Request("resolve", by, id, Later(now + Delay)) EXCEPT
            !.take = to, !.seen = seen.id, !.seenLease = seen.lease, !.seenState = seen.state,
            !.ttl = IF to = "released" /\ On("ttl_off_on_release") THEN Never ELSE Later(clock + Keep)]

(* --------------------------------------- what a process does next, as a value *)

Goes(p, to)       == [pc |-> to, req |-> None, send |-> {}, saw |-> NoRow,
                      lease |-> IF to \in Believes THEN lease[p] ELSE 0]
Sends(p, to, m)   == [Goes(p, to) EXCEPT !.req = m, !.send = {m}]
Refused(p, to, r) == [Goes(p, to) EXCEPT !.saw = r]

IsHeld(p, r) ==
    IF r.state = "inProgress" /\ r.ttl # Never /\ On("pin")
    THEN [Sends(p, "pinning", Pins(p, r)) EXCEPT !.saw = r]
    ELSE Refused(p, "held", r)

(* core/lifecycle.py, decide(): what a refused acquisition leads to. *)
Decide(p, r) ==
    CASE r.state = "absent" \/ Expired(r, Clock(p)) ->
            Sends(p, "acquiring", Acquire(p, IF Mortal(p) THEN "any" ELSE "unclaimed", NoRow))
      [] r.state = "released" /\ r.id # Id(p) ->
            Sends(p, "acquiring", Acquire(p, IF Mortal(p) THEN "any" ELSE "released", r))
      [] r.state = "complete" -> Goes(p, "answered")
      [] r.state = "held" -> IsHeld(p, r)
      [] Lapsed(r, Clock(p)) ->
           (CASE policy[p] = "take_over" -> Sends(p, "acquiring", Acquire(p, "any", NoRow))
              [] policy[p] = "hold"      -> IsHeld(p, r)
              [] policy[p] = "probe"     -> Refused(p, "asking", r))
      [] r.state = "inProgress" /\ r.id = Id(p) -> Goes(p, "its own enemy")
      [] OTHER -> Goes(p, "in progress")

(* The successor's outcome, where there is one. *)
IsFenced(p, r) ==
    CASE r.state = "complete" /\ r.id = Id(p) /\ ~On("own_outcome") -> Goes(p, "completed")
      [] r.state = "complete" -> Goes(p, "answered")
      [] r.id = Id(p) /\ r.state # "held" -> Goes(p, "its own enemy")
      [] OTHER -> Goes(p, "fenced")

Completes(p) ==
    IF Large /\ On("parts_first") THEN Sends(p, "storing", PartsOf(p, "complete"))
    ELSE Sends(p, "completing", Settles(p, "complete"))

(* The answer to m, which is judged by the row as it is now. *)
Answer(p, m) ==
    LET ok == Accepts(row, m) \/ Made(row, m)
    IN  CASE ok /\ ~Accepts(row, m) /\ ~MadeBy(row, m) -> Goes(p, "deceived")
          [] m.kind = "acquire" ->
               (CASE Accepts(row, m) -> [Goes(p, "won") EXCEPT !.lease = m.lease]
                  \* an earlier wish of the same attempt may have been written, with a shorter lease
                  [] ok -> [Goes(p, "won") EXCEPT !.lease = IF On("own_lease") THEN row.lease ELSE m.lease]
                  [] OTHER -> Decide(p, row))
          [] m.kind = "extend" ->
               (CASE ok -> [Goes(p, IF pc[p] = "readying" THEN "won" ELSE "working") EXCEPT !.lease = m.lease]
                  [] ~ok /\ pc[p] = "readying" -> Decide(p, row)
                  [] OTHER -> IsFenced(p, row))
          [] m.kind = "parts" ->
               (CASE m.write.how = "transact" ->
                        Sends(p, "transacting", [Settles(p, "transact") EXCEPT !.ttl = m.ttl])
                  [] On("parts_first") -> Sends(p, "completing", [Settles(p, "complete") EXCEPT !.ttl = m.ttl])
                  [] OTHER -> Goes(p, "completed"))
          [] m.kind = "complete" ->
               (CASE ok /\ Large /\ ~On("parts_first") ->
                        Sends(p, "storing", [PartsOf(p, "complete") EXCEPT !.ttl = m.ttl])
                  [] ok -> Goes(p, "completed")
                  [] OTHER -> IsFenced(p, row))
          [] m.kind = "transact" ->
               (CASE ok -> Goes(p, "transacted")
                  [] ~ok /\ row.id = Id(p) -> Goes(p, "its own enemy")
                  [] OTHER -> Goes(p, "fenced"))
          [] m.kind = "release" -> IF ok THEN Goes(p, "released") ELSE Goes(p, "fenced")
          [] m.kind = "hold" -> IF ok THEN Goes(p, "asked a person") ELSE Goes(p, "fenced")
          [] m.kind = "pin" -> Refused(p, "held", saw[p])
          [] m.kind = "resolve" -> Decide(p, After(row, m))

Proceeds(p, next, others) ==
    /\ pc'    = [pc EXCEPT ![p] = next.pc]
    /\ req'   = [req EXCEPT ![p] = next.req]
    /\ lease' = [lease EXCEPT ![p] = next.lease]
    /\ saw'   = [saw EXCEPT ![p] = next.saw]
    /\ net'   = others \cup next.send

Left(what) == budget[what] > 0
Spends(what) == budget' = [budget EXCEPT ![what] = @ - 1]

(* ---------------------------------------------------------- the network *)

(* Somebody waits for its answer still, and sends it again while the invocation may last. *)
Awaited(m) ==
    /\ m.from \in Procs /\ pc[m.from] \in Waiting /\ req[m.from] = m
    /\ now <= m.until + Patience

PartName(m) ==
    CASE ~On("parts_by_attempt") -> RequestId
      [] ~On("parts_by_write")   -> m.id
      [] OTHER                   -> m.write

Stands == final # None /\ now + Ahead < final.ttl

(* What the table does with m. *)
Applied(m) ==
    LET new == After(row, m)
        done == Accepts(row, m)
    IN  /\ row' = new
        /\ parts' = IF m.kind # "parts" THEN parts
                    ELSE {x \in parts : x.name # PartName(m)} \cup
                         {[name |-> PartName(m), of |-> m.write,
                           ttl |-> m.ttl + IF On("parts_outlive") THEN PartMargin ELSE 0]}
        /\ stored' = IF new.state = "complete" THEN stored \cup {new.outcome} ELSE stored
        /\ final' = IF new # row /\ new.state = "complete" /\ ~Stands
                    THEN [outcome |-> new.outcome, id |-> new.id, write |-> new.write, ttl |-> new.ttl]
                    ELSE final
        /\ effects' = IF m.kind = "transact" /\ (done \/ ~On("atomic")) THEN effects \cup {m.from} ELSE effects
        /\ fences' = IF done /\ new.fence > fences THEN new.fence ELSE fences
        /\ watch' = CASE ~Streams                                      -> watch
                      [] row.state = "absent" /\ new # row /\ watch = "nothing" -> "inserted"
                      [] row.state = "absent" /\ new # row /\ watch = "modified" -> "inserted"
                      [] new # row /\ watch = "inserted"                -> "modified"
                      [] OTHER                                          -> watch
        /\ fell' = (fell \/ (Fences /\ done /\ m.kind = "acquire" /\ new.fence <= fences))

(* The answer comes. A copy may be under way still. *)
Answered(m) ==
    /\ Awaited(m)
    /\ Applied(m)
    /\ \/ Proceeds(m.from, Answer(m.from, m), net \ {m}) /\ UNCHANGED budget
       \/ Left("ghosts") /\ Proceeds(m.from, Answer(m.from, m), net) /\ Spends("ghosts")
    /\ UNCHANGED <<now, skew, policy, vouched, strayed>>

(* The write is done and its answer is lost: the same request goes out again. *)
AnswerLost(m) ==
    /\ Awaited(m) /\ Left("faults") /\ After(row, m) # row
    /\ Applied(m) /\ Spends("faults")
    /\ UNCHANGED <<now, net, pc, req, lease, saw, skew, policy, vouched, strayed>>

(* A copy arrives that nobody waits for. *)
Arrives(m) ==
    /\ ~Awaited(m) /\ now <= m.until
    /\ Applied(m) /\ net' = net \ {m}
    /\ UNCHANGED <<now, pc, req, lease, saw, skew, policy, budget, vouched, strayed>>

(* No answer in the time there was. What was sent may arrive still. *)
GivesUp(p) ==
    /\ pc[p] \in Waiting /\ Left("faults") /\ Spends("faults")
    /\ LET back == Settles(p, "release")
           next ==
            CASE pc[p] = "acquiring" /\ ~On("answered") -> [Goes(p, "won") EXCEPT !.lease = req[p].lease]
              \* released as best it can be: nothing started
              [] pc[p] \in {"acquiring", "readying"} -> [Goes(p, "gave up") EXCEPT !.send = {back}]
              [] pc[p] = "extending" -> Goes(p, "working")
              \* StoreUnavailable leaves the work, and what says "retry later" releases
              [] pc[p] = "transacting" -> Sends(p, "releasing", back)
              [] OTHER -> Goes(p, "unmarked")
       IN  \/ Proceeds(p, next, net)
           \* or the work catches StoreUnavailable, and returns another value
           \/ pc[p] = "transacting" /\ Proceeds(p, Completes(p), net)
    /\ UNCHANGED <<now, row, parts, skew, policy, watch, world, strayed>>

(* --------------------------------------------------------- one invocation *)

Moves(p, next) == Proceeds(p, next, net)

Delivery(p) ==
    /\ pc[p] = "idle"
    /\ Moves(p, Sends(p, "acquiring", Acquire(p, IF Mortal(p) THEN "any" ELSE "unclaimed", NoRow)))
    /\ UNCHANGED <<now, row, parts, skew, policy, watch, budget, world, strayed>>

Starts(p) ==
    /\ pc[p] = "won"
    /\ \/ /\ OnTime(p) \/ ~On("lease_alive")
          /\ Moves(p, Goes(p, "working"))
          /\ strayed' = IF row.id = Id(p) /\ row.state = "inProgress" THEN strayed ELSE strayed \cup {p}
          /\ UNCHANGED budget
       \/ /\ ~OnTime(p) /\ On("lease_alive")
          /\ \/ Left("extends") /\ Spends("extends") /\ Moves(p, Sends(p, "readying", Extend(p)))
             \/ Moves(p, Sends(p, "releasing", Settles(p, "release"))) /\ UNCHANGED budget
          /\ UNCHANGED strayed
    /\ UNCHANGED <<now, row, parts, skew, policy, watch, world>>

Renews(p) ==
    /\ pc[p] = "working" /\ Left("extends") /\ Renewed(p) > lease[p]
    /\ Spends("extends") /\ Moves(p, Sends(p, "extending", Extend(p)))
    /\ UNCHANGED <<now, row, parts, skew, policy, watch, world, strayed>>

Works(p) ==
    /\ pc[p] = "working"
    /\ IF Transact
       THEN /\ UNCHANGED effects
            /\ Moves(p, IF Large THEN Sends(p, "storing", PartsOf(p, "transact"))
                        ELSE Sends(p, "transacting", Settles(p, "transact")))
       ELSE Moves(p, Goes(p, "worked")) /\ effects' = effects \cup {p}
    /\ UNCHANGED <<now, row, parts, skew, policy, watch, budget, stored, vouched, final, fences, fell, strayed>>

Returns(p) ==
    /\ pc[p] = "worked" /\ Moves(p, Completes(p))
    /\ UNCHANGED <<now, row, parts, skew, policy, watch, budget, world, strayed>>

(* RELEASE says that nothing was done; HOLD may say it of work that was. *)
Raises(p) ==
    /\ \/ "release" \in Errors /\ pc[p] = "working" /\ Moves(p, Sends(p, "releasing", Settles(p, "release")))
       \/ "hold" \in Errors /\ pc[p] \in {"working", "worked"} /\ Moves(p, Sends(p, "holding", Holds(p)))
    /\ UNCHANGED <<now, row, parts, skew, policy, watch, budget, world, strayed>>

(* The probe tells the truth, or that it does not know. *)
Asked(p) ==
    /\ pc[p] = "asking"
    /\ \/ effects # {} /\ Moves(p, Sends(p, "resolving", Resolves(p, saw[p], "complete", Clock(p))))
                       /\ UNCHANGED vouched
       \/ effects = {} /\ Moves(p, Sends(p, "acquiring", Acquire(p, "lapsed", saw[p])))
                       /\ vouched' = vouched \cup {saw[p].id}
       \/ Moves(p, IsHeld(p, saw[p])) /\ UNCHANGED vouched
    /\ UNCHANGED <<now, row, parts, skew, policy, watch, budget, effects, stored, final, fences, fell, strayed>>

(* The person looks at what waits, and says what became of it. *)
Resolved ==
    /\ Left("operators") /\ Spends("operators")
    /\ row.state = "held" \/ Lapsed(row, now)
    /\ \/ effects # {} /\ net' = net \cup {Resolves(Operator, row, "complete", now)} /\ UNCHANGED vouched
       \/ effects = {} /\ net' = net \cup {Resolves(Operator, row, "released", now)}
                       /\ vouched' = vouched \cup {row.id}
    /\ UNCHANGED <<now, row, parts, pc, req, lease, saw, skew, policy, watch, effects, stored, final, fences,
                   fell, strayed>>

(* --------------------------------------------------------------- the rest *)

Tick ==
    /\ now < MaxTime /\ now' = now + 1
    /\ Zombies \/ \A p \in Procs : AtWork(p) => Clock(p) < lease[p] - Beyond
    /\ net' = {m \in net : Awaited(m) \/ now + 1 <= m.until}
    /\ UNCHANGED <<row, parts, pc, req, lease, saw, skew, policy, watch, budget, world, strayed>>

(* DynamoDB deletes what is past its ttl, in any order, up to days late. *)
Deleted ==
    /\ Deletes
    /\ \/ /\ row.ttl <= now /\ row' = NoRow /\ UNCHANGED parts
          /\ watch' = IF watch = "inserted" THEN "modified" ELSE watch
       \/ \E x \in parts : x.ttl <= now /\ parts' = parts \ {x} /\ UNCHANGED <<row, watch>>
    /\ UNCHANGED <<now, net, pc, req, lease, saw, skew, policy, budget, world, strayed>>

(* The watchdog reads its keys, or a page of the stream. What is not answered moves it no further, so a run *)
(* that crashes is one that did not happen.  It reads the row of a key whose last record in the page is that *)
(* of a first acquisition: whatever else was written has ended the token, or listed it.                      *)
Listing(r) == [Request("list", Operator, r.id, Later(now + Delay)) EXCEPT !.seen = r.id]

Watches ==
    /\ Streams
    /\ \/ watch = "modified" /\ watch' = "nothing" /\ UNCHANGED <<row, net>>
       \/ /\ watch \in {"inserted", "modified", "kept"}
          /\ UNCHANGED row
          /\ CASE ~Open(row) \/ row.entry -> watch' = "nothing" /\ UNCHANGED net
               [] Lapsed(row, now)        -> net' = net \cup {Listing(row)} /\ UNCHANGED watch
               [] OTHER -> watch' = (IF On("keep_alive") THEN "kept" ELSE "nothing") /\ UNCHANGED net
       \/ watch \in {"inserted", "modified"} /\ watch' = "gap" /\ UNCHANGED <<row, net>>
       \/ /\ watch = "gap" /\ watch' = "nothing" /\ UNCHANGED net
          /\ row' = [row EXCEPT !.entry = @ \/ (Open(row) /\ On("scan_gap"))]
    /\ UNCHANGED <<now, parts, pc, req, lease, saw, skew, policy, budget, world, strayed>>

Init ==
    /\ now = 0 /\ row = NoRow /\ parts = {} /\ net = {}
    /\ pc = [p \in Procs |-> "idle"] /\ req = [p \in Procs |-> None]
    /\ lease = [p \in Procs |-> 0] /\ saw = [p \in Procs |-> NoRow]
    /\ skew \in [Procs -> Skews] /\ policy \in [Procs -> Policies]
    /\ budget = [faults |-> Faults, ghosts |-> Ghosts, extends |-> Extends, operators |-> Operators]
    /\ effects = {} /\ stored = {} /\ vouched = {} /\ final = None /\ fences = 0 /\ fell = FALSE
    /\ strayed = {} /\ watch = "nothing"

Next ==
    \/ \E m \in net : Answered(m) \/ AnswerLost(m) \/ Arrives(m)
    \/ \E p \in Procs : \/ Delivery(p) \/ Starts(p) \/ Renews(p) \/ Works(p) \/ Returns(p)
                        \/ Raises(p) \/ Asked(p) \/ GivesUp(p)
    \/ Resolved \/ Tick \/ Deleted \/ Watches

Spec == Init /\ [][Next]_vars
Symmetry == Permutations(Procs)
=============================================================================
