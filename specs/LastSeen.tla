------------------------------- MODULE LastSeen -------------------------------
(* What machines remember of an archive at one place, and whether they notice that it was put back.             *)
(*                                                                                                              *)
(* A commit has an id that no other one ever has, and its number is its place in the folder. A replica's commit *)
(* executes an entry of the log, which has an index and an id. A recovery brings many entries by one commit.    *)
(* README.md beside this file says what is modelled, and what is not.                                           *)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    Machines,   \* those that remember; others have no memory
    Log,        \* whether the archive is a replica
    Writes,     \* how many commits are added, or entries appended
    Puts,       \* how often a copy is put back
    Whole,      \* whether a copy is of all replicas and of the coordination store, or of this place alone
    Accepts,    \* how often an older state is accepted
    Recoveries, \* how often the replica is recovered, in its folder or in a new one
    Removed     \* the guards of the protocol that are left out; {} in the protocol as it is

VARIABLES
    folder,  \* when it was made, and its commits
    log,     \* the ids of the log's entries, by index
    copy,    \* a copy of both that was kept
    memory,  \* what each machine remembers
    shown,   \* what each machine was shown last
    numbers, \* the number of each commit that there ever was, by id
    givenup, \* ids of the commits that somebody has given up by accepting
    ids,     \* how many entries there ever were
    left     \* how often what is bounded may still happen

vars == <<folder, log, copy, memory, shown, numbers, givenup, ids, left>>

Guard(name) == name \notin Removed

Last(sequence) == sequence[Len(sequence)]

-----------------------------------------------------------------------------
(* What a folder says. *)

Line(f) == IF f.commits = <<>> THEN <<>> ELSE Last(f.commits).line
Ids(f) == {f.commits[n].id : n \in 1..Len(f.commits)}

(* Up to which number it takes the place of another state, as its last acceptance says. *)
Superseded(f) ==
    LET accepting == {n \in 1..Len(f.commits) : f.commits[n].accepts > 0}
    IN IF accepting = {} THEN 0
       ELSE f.commits[CHOOSE n \in accepting : \A m \in accepting : m <= n].accepts

Seen(f) ==
    [made |-> f.made, number |-> Len(f.commits), id |-> IF f.commits = <<>> THEN 0 ELSE Last(f.commits).id,
     index |-> Len(Line(f)), entry |-> IF Line(f) = <<>> THEN 0 ELSE Last(Line(f)), accepted |-> Superseded(f)]

-----------------------------------------------------------------------------
(* Judging it. *)

(* The commit that was seen is where it was. *)
GoesOn(b, f) ==
    \/ b.number = 0
    \/ /\ b.number <= Len(f.commits)
       /\ f.commits[b.number].id = b.id \/ ~Guard("a number is compared with its commit")

(* The replica has come to the entry that was seen, in this folder or by a recovery. *)
HasExecuted(b, f) ==
    /\ Log /\ b.index <= Len(Line(f))
    /\ LET same == {n \in 1..Len(f.commits) : Len(f.commits[n].line) = b.index}
       IN \/ \E n \in same : b.index = 0 \/ Last(f.commits[n].line) = b.entry
          \/ same = {}
          \/ ~Guard("an index is compared with its entry")

TakesThePlace(b, f) ==
    /\ b.number <= Superseded(f)
    /\ b.accepted # Superseded(f) \/ ~Guard("an acceptance that was seen excuses nothing")

IsAfter(b, f) == GoesOn(b, f) \/ HasExecuted(b, f)
Opens(m) == IsAfter(memory[m], folder) \/ TakesThePlace(memory[m], folder)

(* The newest stays, but of what was accepted in its place. *)
Note(b, f) ==
    LET now == Seen(f)
    IN IF \/ b.index < now.index \/ (b.index = now.index /\ b.number < now.number)
          \/ ~IsAfter(b, f) /\ Guard("who accepts remembers what was accepted")
       THEN now ELSE b

-----------------------------------------------------------------------------

Init ==
    /\ folder = [made |-> 1, commits |-> <<>>] /\ log = <<>>
    /\ copy = [folder |-> folder, log |-> log]
    /\ memory = [m \in Machines |-> Seen(folder)] /\ shown = memory
    /\ numbers = <<>> /\ givenup = {} /\ ids = 0
    /\ left = [write |-> Writes, put |-> Puts, accept |-> Accepts, recover |-> Recoveries]

Spend(word) == left[word] > 0 /\ left' = [left EXCEPT ![word] = @ - 1]

Adds(f, line, accepts) ==
    /\ folder' = [f EXCEPT !.commits = Append(@, [id |-> Len(numbers) + 1, line |-> line, accepts |-> accepts])]
    /\ numbers' = Append(numbers, Len(f.commits) + 1)

(* Who is not among the machines has no memory. *)
May(m) == m \in Machines => Opens(m)
Remembers(m) ==
    /\ memory' = [n \in Machines |-> IF n = m THEN Note(memory[n], folder') ELSE memory[n]]
    /\ shown' = [n \in Machines |-> IF n = m THEN Seen(folder') ELSE shown[n]]

Look(m) ==
    /\ May(m) /\ UNCHANGED folder /\ Remembers(m)
    /\ UNCHANGED <<log, copy, numbers, givenup, ids, left>>

(* A plain archive. *)
Write(m) ==
    /\ ~Log /\ May(m) /\ Spend("write")
    /\ Adds(folder, <<>>, 0) /\ Remembers(m)
    /\ UNCHANGED <<log, copy, givenup, ids>>

(* A replica, or another one of the archive, appends; whoever syncs executes. *)
Extend ==
    /\ Log /\ Spend("write")
    /\ log' = Append(log, ids + 1) /\ ids' = ids + 1
    /\ UNCHANGED <<folder, copy, memory, shown, numbers, givenup>>

Execute(m) ==
    /\ Log /\ May(m) /\ Len(Line(folder)) < Len(log)
    /\ Adds(folder, SubSeq(log, 1, Len(Line(folder)) + 1), 0) /\ Remembers(m)
    /\ UNCHANGED <<log, copy, givenup, ids, left>>

(* From another replica, which has executed all. *)
Recover(m, anew) ==
    /\ Log /\ Spend("recover")
    /\ Adds(IF anew THEN [made |-> folder.made + 1, commits |-> <<>>] ELSE folder, log, 0) /\ Remembers(m)
    /\ UNCHANGED <<log, copy, givenup, ids>>

Accept(m) ==
    /\ ~Opens(m) /\ Spend("accept")
    /\ Adds(folder, Line(folder), memory[m].number) /\ Remembers(m)
    /\ givenup' = givenup \union {x \in 1..Len(numbers) : numbers[x] <= memory[m].number /\ x \notin Ids(folder)}
    /\ UNCHANGED <<log, copy, ids>>

Keep ==
    /\ copy' = [folder |-> folder, log |-> log] /\ copy' # copy
    /\ UNCHANGED <<folder, log, memory, shown, numbers, givenup, ids, left>>

PutBack ==
    /\ Spend("put") /\ folder # copy.folder
    /\ folder' = copy.folder
    /\ log' = IF Whole THEN copy.log ELSE log
    /\ UNCHANGED <<copy, memory, shown, numbers, givenup, ids>>

Next ==
    \/ \E m \in Machines \union {0} : Look(m) \/ Write(m) \/ Execute(m)
    \/ \E m \in Machines : Accept(m) \/ \E anew \in BOOLEAN : Recover(m, anew)
    \/ Extend \/ Keep \/ PutBack

Safe == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Whoever is shown an archive finds there what they were shown before, unless it was given up by name. *)
Noticed ==
    \A m \in Machines :
        LET b == shown[m]
        IN Opens(m) =>
              \/ b.number = 0 \/ b.id \in Ids(folder) \union givenup
              \/ Log /\ b.index <= Len(Line(folder)) /\ (b.index = 0 \/ Line(folder)[b.index] = b.entry)

(* Nobody is refused where nothing was put back, nor where a replica has come to what was seen. *)
NotInVain ==
    \A m \in Machines :
        \/ Opens(m)
        \/ left.put < Puts /\ (Log /\ ~Whole => Len(Line(folder)) < memory[m].index)
=============================================================================
