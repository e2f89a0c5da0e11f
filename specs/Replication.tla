---------------------------- MODULE Replication ----------------------------
(* Replicas of an archive follow one update log: backups through any of them, merges that a leader assigns.    *)
(*                                                                                                             *)
(* The log is in the store, whose transactions are serializable: each is one step here. A replica's archive is *)
(* the sequence of its commits, each of which names its entry. Blocks are numbers that are never used again.   *)
(* README.md beside this file says what is modelled, and what is not.                                          *)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    Replicas, \* numbers
    Inserts,  \* how many backups there are
    Merges,   \* how many merges are assigned
    Drops,    \* how many blocks are dropped, as a failed quorum does
    Terms,    \* how often a leader is elected
    Removed   \* the guards of the protocol that are left out; {} in the protocol as it is

VARIABLES
    log,      \* the update log: a sequence of entries
    commits,  \* the entries each archive has committed, in the order of its commits
    pointer,  \* the index of the entry each replica executes next, as the store knows it
    files,    \* the blocks whose files exist
    leader,   \* who was elected last, or 0
    term,     \* how often a leader was elected: the leader's epoch
    work,     \* the merge each replica is at, as it knows itself
    assigned  \* how many merges were assigned: each has an id of its own, whether or not an entry comes of it

vars == <<log, commits, pointer, files, leader, term, work, assigned>>

Guard(name) == name \notin Removed

Range(sequence) == {sequence[i] : i \in 1..Len(sequence)}
Last(sequence) == IF sequence = <<>> THEN 0 ELSE sequence[Len(sequence)]

NoWork == [block |-> 0, inputs |-> {}, term |-> 0]

(* What an entry adds, and what it takes away; a hole is an index nobody wrote an entry for. *)
Entry(kind, block, inputs, number) == [kind |-> kind, block |-> block, inputs |-> inputs, term |-> number]
Hole == Entry("hole", 0, {}, 0)
Of(kind) == {i \in 1..Len(log) : log[i].kind = kind}

(* The blocks that are left when these entries are executed. *)
Blocks(entries) ==
    {log[i].block : i \in entries \intersect (Of("insert") \union Of("merge"))}
        \ UNION {log[i].inputs : i \in entries}
Live == Blocks(1..Len(log))

TypeOK ==
    /\ \A i \in 1..Len(log) : log[i].kind \in {"insert", "merge", "drop", "hole"}
    /\ \A r \in Replicas : Range(commits[r]) \subseteq 1..Len(log) /\ pointer[r] \in 1..Len(log) + 1
    /\ files \subseteq 1..Inserts + Merges
    /\ leader \in Replicas \union {0} /\ term \in 0..Terms /\ assigned \in 0..Merges

Init ==
    /\ log = <<>> /\ files = {} /\ leader = 0 /\ term = 0 /\ assigned = 0
    /\ commits = [r \in Replicas |-> <<>>]
    /\ pointer = [r \in Replicas |-> 1]
    /\ work = [r \in Replicas |-> NoWork]

-----------------------------------------------------------------------------
(* Appending. *)

(* A backup writes its files, and appends. Its replica executes the entry like any other, when it is its turn. *)
Insert(r) ==
    /\ Cardinality(Of("insert")) < Inserts
    /\ files' = files \union {Cardinality(Of("insert")) + 1}
    /\ log' = Append(log, Entry("insert", Cardinality(Of("insert")) + 1, {}, 0))
    /\ commits' = IF Guard("one's own entries wait for their turn") THEN commits
                  ELSE [commits EXCEPT ![r] = Append(@, Len(log) + 1)]
    /\ UNCHANGED <<pointer, leader, term, work, assigned>>

(* A sequence hands out an index whose transaction may then fail. *)
TakeIndex ==
    /\ ~Guard("an index is taken in the append's transaction") /\ Of("hole") = {}
    /\ log' = Append(log, Hole)
    /\ UNCHANGED <<commits, pointer, files, leader, term, work, assigned>>

Drop ==
    /\ Cardinality(Of("drop")) < Drops
    /\ \E block \in Live : block <= Inserts /\ log' = Append(log, Entry("drop", 0, {block}, 0))
    /\ UNCHANGED <<commits, pointer, files, leader, term, work, assigned>>

-----------------------------------------------------------------------------
(* Merging. *)

(* The lease of the leader before is over; what it was at goes on. *)
Elect(r) ==
    /\ term < Terms
    /\ leader' = r
    /\ term' = term + 1
    /\ UNCHANGED <<log, commits, pointer, files, work, assigned>>

Assign(r) ==
    /\ r = leader /\ work[r] = NoWork /\ assigned < Merges
    /\ assigned' = assigned + 1
    /\ \E a, b \in Live :
          /\ a <= b
          /\ work' = [work EXCEPT ![r] = [block |-> Inserts + assigned + 1, inputs |-> {a, b}, term |-> term]]
    /\ UNCHANGED <<log, commits, pointer, files, leader, term>>

(* The files of the result are written from the inputs, which the replica has executed. *)
Make(r) ==
    /\ work[r].block \notin files \union {0}
    /\ work[r].inputs \subseteq Blocks(Range(commits[r]))
    /\ files' = files \union {work[r].block}
    /\ UNCHANGED <<log, commits, pointer, leader, term, work, assigned>>

(* Whoever is refused plans anew. *)
Merge(r) ==
    /\ work[r] # NoWork
    /\ work[r].block \in files \/ ~Guard("the result exists before its entry")
    /\ LET may ==
               /\ work[r].term = term \/ ~Guard("only the leader of this term appends")
               /\ work[r].inputs \subseteq Live \/ ~Guard("the inputs are there when the entry is appended")
       IN log' = IF may THEN Append(log, Entry("merge", work[r].block, work[r].inputs, work[r].term)) ELSE log
    /\ work' = [work EXCEPT ![r] = NoWork]
    /\ UNCHANGED <<commits, pointer, files, leader, term, assigned>>

-----------------------------------------------------------------------------
(* Executing: the archive's commit first, then the pointer in the store. *)

(* The commit is made where the archive ends with the entry before, and only there. *)
Execute(r) ==
    /\ pointer[r] <= Len(log) /\ log[pointer[r]].kind # "hole"
    /\ log[pointer[r]].block \in files \union {0}
    /\ pointer[r] \notin Range(commits[r]) \/ ~Guard("each entry is committed once")
    /\ commits' = [commits EXCEPT ![r] = Append(@, pointer[r])]
    /\ UNCHANGED <<log, pointer, files, leader, term, work, assigned>>

Advance(r) ==
    /\ pointer[r] \in Range(commits[r])
    /\ pointer' = [pointer EXCEPT ![r] = @ + 1]
    /\ UNCHANGED <<log, commits, files, leader, term, work, assigned>>

(* Pointers that were lost are read from the archive: the last commit tells where it is. *)
Rebuild(r) ==
    /\ pointer[r] # Last(commits[r]) + 1
    /\ pointer' = [pointer EXCEPT ![r] = Last(commits[r]) + 1]
    /\ UNCHANGED <<log, commits, files, leader, term, work, assigned>>

-----------------------------------------------------------------------------

Next ==
    \/ TakeIndex \/ Drop
    \/ \E r \in Replicas :
          Insert(r) \/ Elect(r) \/ Assign(r) \/ Make(r) \/ Merge(r) \/ Execute(r) \/ Advance(r) \/ Rebuild(r)

Safe == Init /\ [][Next]_vars

(* Replicas sync. Nobody has to insert, to be elected, or to finish a merge. *)
Spec == Safe /\ \A r \in Replicas : WF_vars(Execute(r)) /\ WF_vars(Advance(r))

-----------------------------------------------------------------------------
(* What must hold. *)

(* No pointer is past an entry that the archive does not have. *)
NothingSkipped == \A r \in Replicas : 1..pointer[r] - 1 \subseteq Range(commits[r])

(* One commit an entry. *)
Once == \A r \in Replicas : \A i, j \in 1..Len(commits[r]) : commits[r][i] = commits[r][j] => i = j

(* An entry that was appended can be executed: what it takes away is there. *)
Executable == \A i \in 1..Len(log) : log[i].inputs \subseteq Blocks(1..i - 1)

(* After the first entry of a leader none of an earlier one comes. *)
Fenced == \A i, j \in Of("merge") : i < j => log[i].term <= log[j].term

(* In the end all replicas have executed the whole log, and hold the same blocks. *)
EquivalentReplicas ==
    <>[](/\ \A r \in Replicas : pointer[r] = Len(log) + 1
         /\ \A a, b \in Replicas : Blocks(Range(commits[a])) = Blocks(Range(commits[b])))

=============================================================================
