---------------------------- MODULE VoidNumbers ----------------------------
(* Commits that are created if absent, in a store that may refuse a write and leave an empty object in its     *)
(* place, which the write may still fill, or never. A commit that voids says that such numbers never count.    *)
(*                                                                                                             *)
(* README.md beside this file says what is modelled, and what is not.                                          *)
EXTENDS Integers, FiniteSets

CONSTANTS
    Writers, \* numbers
    Voiders, \* numbers: who give up what is empty
    Size,    \* how many numbers there are
    Empty,   \* how many writes may leave an empty object first
    Removed  \* the guards of the protocol that are left out; {} in the protocol as it is

VARIABLES
    body,    \* what each number has: "none", "empty" or "full"
    void,    \* the first number that its commit voids, or voids once it arrives; 0: none
    coming,  \* the numbers whose write is under way: their objects may still be filled
    old,     \* the numbers whose objects are older than lease and grace
    pc,      \* where each writer is
    at,      \* the number each writer has offered its commit for; 0: none
    look,    \* where each voider is: 0: nowhere, 1 or 2: at that listing, 3: it has looked
    seen,    \* the number that each listing of a voider looks at next
    from,    \* the first number that each voider gives up
    last,    \* the last one that it gives up
    refused  \* how many writes have left an empty object

vars == <<body, void, coming, old, pc, at, look, seen, from, last, refused>>

Guard(name) == name \notin Removed

Numbers == 1..Size
There == {n \in Numbers : body[n] # "none"}
Full == {n \in Numbers : body[n] = "full"}
Max(set) == IF set = {} THEN 0 ELSE CHOOSE n \in set : \A m \in set : m <= n
Min(set) == CHOOSE n \in set : \A m \in set : n <= m

(* Those that count: a commit voids what it says if it counts itself, so they are decided from the newest back. *)
Voids(m, n) == m \in Full /\ void[m] # 0 /\ void[m] <= n /\ n < m
Counting ==
    IF Guard("the newest decides first")
    THEN CHOOSE set \in SUBSET There :
            \A n \in There : n \in set <=> ~\E m \in set : Voids(m, n)
    ELSE {n \in There : ~\E m \in There : Voids(m, n)}

(* Who reads stops before the first that counts and is empty. *)
Damage == {n \in Counting : body[n] = "empty"}
Read == {n \in Counting : \A m \in Damage : n < m}

TypeOK ==
    /\ \A n \in Numbers : body[n] \in {"none", "empty", "full"} /\ void[n] \in 0..Size
    /\ coming \subseteq Numbers /\ old \subseteq Numbers
    /\ \A w \in Writers : pc[w] \in {"idle", "waiting", "late", "settling", "done", "again"} /\ at[w] \in 0..Size

Init ==
    /\ body = [n \in Numbers |-> "none"] /\ void = [n \in Numbers |-> 0]
    /\ coming = {} /\ old = {} /\ refused = 0
    /\ pc = [w \in Writers |-> "idle"] /\ at = [w \in Writers |-> 0]
    /\ look = [v \in Voiders |-> 0] /\ seen = [v \in Voiders |-> 0]
    /\ from = [v \in Voiders |-> 0] /\ last = [v \in Voiders |-> 0]

-----------------------------------------------------------------------------
(* The store. *)

(* A write takes a free number at once, or leaves an empty object that it may fill later. *)
Create(n, first) ==
    /\ body[n] = "none"
    /\ void' = [void EXCEPT ![n] = first]
    /\ \/ body' = [body EXCEPT ![n] = "full"] /\ UNCHANGED <<coming, refused>>
       \/ /\ refused < Empty
          /\ body' = [body EXCEPT ![n] = "empty"]
          /\ coming' = coming \union {n} /\ refused' = refused + 1

Arrive(n) ==
    /\ n \in coming
    /\ body' = [body EXCEPT ![n] = "full"]
    /\ coming' = coming \ {n}
    /\ UNCHANGED <<void, old, pc, at, look, seen, from, last, refused>>

(* Time passes; what is there grows old. *)
Tick(n) ==
    /\ n \in There \ old
    /\ old' = old \union {n}
    /\ UNCHANGED <<body, void, coming, pc, at, look, seen, from, last, refused>>

-----------------------------------------------------------------------------
(* Writers. *)

(* The tail is read, and the next number offered for. *)
Offer(w) ==
    /\ pc[w] = "idle" /\ Damage = {} /\ Max(There) < Size
    /\ Create(Max(There) + 1, 0)
    /\ at' = [at EXCEPT ![w] = Max(There) + 1]
    /\ pc' = [pc EXCEPT ![w] = "waiting"]
    /\ UNCHANGED <<old, look, seen, from, last>>

(* The answer comes at any time once the object is whole. An old object tells that it is late. *)
Acknowledge(w) ==
    /\ pc[w] = "waiting" /\ body[at[w]] = "full"
    /\ pc' = [pc EXCEPT ![w] = IF at[w] \in old /\ Guard("a late writer looks") THEN "late" ELSE "done"]
    /\ UNCHANGED <<body, void, coming, old, at, look, seen, from, last, refused>>

(* A late writer reads what is behind its commit. Before what cannot be read it knows nothing. *)
Look(w) ==
    /\ pc[w] \in {"late", "settling"}
    /\ LET behind == {n \in Read : n > at[w]}
       IN pc' = [pc EXCEPT ![w] =
            IF behind # {} THEN (IF at[w] \in Counting THEN "done" ELSE "again")
            ELSE IF Damage # {} THEN pc[w]
            ELSE IF Guard("a late writer takes the next number") THEN "settling" ELSE "done"]
    /\ UNCHANGED <<body, void, coming, old, at, look, seen, from, last, refused>>

(* It takes the next number, if that is free, and looks again. *)
Settle(w) ==
    /\ pc[w] = "settling" /\ at[w] < Size
    /\ Create(at[w] + 1, 0)
    /\ UNCHANGED <<old, pc, at, look, seen, from, last>>

-----------------------------------------------------------------------------
(* Voiders. A listing shows one number after the other, while others write. *)

Begin(v) ==
    /\ look[v] = 0 /\ Damage # {}
    /\ look' = [look EXCEPT ![v] = 1]
    /\ from' = [from EXCEPT ![v] = Min(Damage)]
    /\ seen' = [seen EXCEPT ![v] = Min(Damage)]
    /\ last' = [last EXCEPT ![v] = 0]
    /\ UNCHANGED <<body, void, coming, old, pc, at, refused>>

(* The next number is empty and old enough. *)
See(v) ==
    /\ look[v] \in {1, 2} /\ seen[v] <= Size
    /\ body[seen[v]] = "empty" \/ (~Guard("what is voided is empty") /\ body[seen[v]] = "full")
    /\ seen[v] \in old \/ ~Guard("what is voided is old")
    /\ seen' = [seen EXCEPT ![v] = @ + 1]
    /\ UNCHANGED <<body, void, coming, old, pc, at, look, from, last, refused>>

(* There is no next one: the listing ends. *)
End(v) ==
    /\ look[v] \in {1, 2} /\ seen[v] > from[v]
    /\ seen[v] > Size \/ (seen[v] <= Size /\ body[seen[v]] = "none")
    /\ look[v] = 2 => last[v] = seen[v] - 1
    /\ look' = [look EXCEPT ![v] = IF Guard("two listings") THEN @ + 1 ELSE 3]
    /\ last' = [last EXCEPT ![v] = seen[v] - 1]
    /\ seen' = [seen EXCEPT ![v] = from[v]]
    /\ UNCHANGED <<body, void, coming, old, pc, at, from, refused>>

(* Something else is there: it begins again, or gives up. *)
Stop(v) ==
    /\ look[v] \in {1, 2}
    /\ look' = [look EXCEPT ![v] = 0]
    /\ UNCHANGED <<body, void, coming, old, pc, at, seen, from, last, refused>>

(* The next number is created if it is free. It may have been suspended since it looked. *)
Void(v) ==
    /\ look[v] = 3 /\ last[v] < Size
    /\ IF Guard("the next number is created if absent") \/ body[last[v] + 1] = "none"
       THEN Create(last[v] + 1, from[v])
       ELSE /\ body' = [body EXCEPT ![last[v] + 1] = "full"]
            /\ void' = [void EXCEPT ![last[v] + 1] = from[v]]
            /\ UNCHANGED <<coming, refused>>
    /\ look' = [look EXCEPT ![v] = 4]
    /\ UNCHANGED <<old, pc, at, seen, from, last>>

Next ==
    \/ \E n \in Numbers : Arrive(n) \/ Tick(n)
    \/ \E w \in Writers : Offer(w) \/ Acknowledge(w) \/ Look(w) \/ Settle(w)
    \/ \E v \in Voiders : Begin(v) \/ See(v) \/ End(v) \/ Stop(v) \/ Void(v)

Safe == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* A commit of which somebody was told counts, and stays. *)
Kept == \A w \in Writers : pc[w] = "done" => at[w] \in Counting

(* A number that was given up, and behind which somebody was told of a commit, never counts again. *)
GivenUp ==
    \A w \in Writers, n \in Full :
        (pc[w] = "done" /\ n < at[w] /\ void[n] # 0 /\ n \in Counting) => \A m \in void[n]..(n - 1) : m \notin Counting

(* Where a commit counts, what is before it counts or was voided: nobody reads past what is empty. *)
NothingBetween == \A n \in Read : \A m \in Numbers : (m < n /\ body[m] # "full") => m \notin Counting
=============================================================================
