----------------------------- MODULE Guarantees -----------------------------
(***************************************************************************)
(* What docs/guarantees.md promises, as invariants.  The number before     *)
(* each is the guarantee's.                                                *)
(***************************************************************************)
EXTENDS Tokens

(* 1. Nobody is at work under a lease beside another who is. *)
OneHolder ==
    \A p, q \in Procs : p # q => ~(AtWork(p) /\ OnTime(p) /\ AtWork(q) /\ OnTime(q))

(* 1, 7. Whoever starts holds the token at that moment. *)
StartsAsHolder == strayed = {}

(* 1. A later acquisition has a larger fence. *)
FenceGrows == ~fell

(* 2. The row was written last by the attempt that it names: no late attempt touched its successor's. *)
NoStranger == row.by = row.id

(* 2, 4. An outcome that is stored stands as it is until its ttl. *)
OutcomeStays == Stands => row.state = "complete" /\ row.outcome = final.outcome

(* 2. What is in progress is somebody's: of an attempt that is on its way, or of one that gave up unheard. *)
(* Under take_over that holds until a second attempt comes: then a ghost of the first may take what the    *)
(* second released. For one lease nobody is at work, and nobody is called for it.                          *)
NothingOrphaned ==
    /\ row.state = "inProgress" /\ row.id \in Procs
    /\ Mortal(row.id) => \A p \in Procs \ {row.id} : pc[p] = "idle"
    => pc[row.id] \notin {"idle", "completed", "transacted", "answered", "fenced", "released", "asked a person", "held",
                          "in progress"}

(* 3. No attempt is refused because of what it wrote itself. *)
NotAgainstItself == \A p \in Procs : pc[p] # "its own enemy"

(* 3. What an attempt is told to have written stands there. *)
ToldTheTruth ==
    /\ \A p \in Procs : pc[p] # "deceived"
    /\ \A p \in Procs : row.id = Id(p) =>
        /\ pc[p] = "asked a person" => row.state = "held"
        /\ pc[p] \in {"completed", "transacted"} => row.state = "complete"

(* 4. What the first caller was given had been stored; every later one is given what the row says. *)
GivenIsStored ==
    \A p \in Procs :
        /\ pc[p] = "completed"  => [of |-> p, how |-> "complete"] \in stored
        /\ pc[p] = "transacted" => [of |-> p, how |-> "transact"] \in stored

(* 5. While an outcome stands, and for as long as a reader may take, its parts are there and its own. *)
PartsThere ==
    Large /\ final # None /\ now < final.ttl + Reading =>
        \E x \in parts : x.name = PartName([id |-> final.id, write |-> final.write]) /\ x.of = final.outcome

(* 13. What is released runs: the acquisition that follows from reading it is granted, while it is as it was read. *)
ReleasedRuns ==
    \A p \in Procs :
        row.state = "released" /\ row.id # Id(p) =>
            Takes(row, Acquire(p, IF Mortal(p) THEN "any" ELSE "released", row))

(* 13. Taken over is only what was in progress. *)
TakenOverLapsed ==
    \A m \in net : m.kind = "acquire" /\ Accepts(row, m) /\ TakenOver(row) => row.state = "inProgress"

(* 6. What waits for a person, or may have to, has no ttl; nor has what a decision released, until it runs. *)
WaitsForever ==
    /\ row.state = "held" => row.ttl = Never
    /\ row.listed => row.state = "released" /\ row.ttl = Never
    /\ row.state = "inProgress" /\ row.id \in Procs /\ policy[row.id] # "take_over" => row.ttl = Never
    /\ \A p \in Procs :
        pc[p] = "held" /\ row.state = "inProgress" /\ saw[p].id = row.id /\ saw[p].lease = row.lease =>
            row.ttl = Never

(* 6. What is open is in the list, or the watchdog has it still: unread, kept, or in a gap. *)
OpenIsListed ==
    Streams =>
        /\ row.entry => Open(row)
        /\ Open(row) => row.entry \/ watch # "nothing"

(* 10. Under hold and probe there is one effect, unless somebody vouched for an attempt that was alive. *)
OneEffect == "take_over" \notin Policies => Cardinality(effects \ vouched) <= 1

(* 8. Under transact there is one effect, whatever happens; there is none without its completion, and no *)
(* transaction is told to have been written that was not.                                                 *)
TransactOnce ==
    Transact =>
        /\ effects = {outcome.of : outcome \in {each \in stored : each.how = "transact"}}
        /\ Cardinality(effects) <= 1
        /\ \A p \in Procs : pc[p] = "transacted" => p \in effects
=============================================================================
