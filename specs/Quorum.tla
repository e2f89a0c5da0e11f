------------------------------- MODULE Quorum -------------------------------
(* Backups that succeed when a quorum of replicas holds their block, and sequential reads.                       *)
(*                                                                                                               *)
(* The log and the quorums are in the store, whose transactions are serializable: each is one step here. A block *)
(* is named by the index of its entry: a retry has another one. An archive is how far it is and what it holds.   *)
(* README.md beside this file says what is modelled, and what is not.                                            *)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    Replicas, \* numbers
    Sources,  \* strings
    Goal,     \* how many blocks of each source are wanted
    Size,     \* how many replicas are a quorum
    Failures, \* how many quorums fail
    Losses,   \* how often a replica becomes lost; one at a time
    Reads,    \* whether anybody reads
    Removed   \* the guards of the protocol that are left out; {} in the protocol as it is

VARIABLES
    log,      \* the update log: a sequence of entries that add a block, or drop that of another entry
    state,    \* of each entry: its quorum is pending, committed or failed; or it has none
    votes,    \* of each entry: who joined its quorum, and in which epoch
    latest,   \* the entry whose quorum succeeded last; what must not be asked for
    end,      \* how far each source is backed up
    dedup,    \* the ids <<source, from>> of backups that are done or under way
    pointer,  \* the index of the entry each replica executes next
    held,     \* the blocks each replica holds
    epoch,    \* each replica's epoch
    lost,     \* the replicas that are marked lost
    read,     \* the sequential read that is under way
    shown,    \* what the last one showed
    missed,   \* what it should have shown because it was committed when the read began
    receded,  \* what it should have shown because the read before did
    stale     \* the quorums as a copy of the store knows them that lags behind

replicas == <<pointer, held, epoch, lost>>
reads == <<read, shown, missed, receded>>
vars == <<log, state, votes, latest, end, dedup, replicas, reads, stale>>

Guard(name) == name \notin Removed

Max(numbers) == CHOOSE n \in numbers \union {0} : \A m \in numbers : m <= n

Indices == 1..Len(log)
Of(source) == {i \in Indices : log[i].kind = "add" /\ log[i].source = source}
In(word) == {i \in Indices : state[i] = word}

NoRead == [at |-> 0, replica |-> 0, blocks |-> {}, committed |-> {}, before |-> {}]

TypeOK ==
    /\ Len(state) = Len(log) /\ Len(votes) = Len(log)
    /\ \A i \in Indices : state[i] \in {"none", "pending", "committed", "failed"}
    /\ \A s \in Sources : end[s] \in 0..Goal
    /\ \A r \in Replicas : pointer[r] \in 1..Len(log) + 1 /\ held[r] \subseteq Indices
    /\ lost \subseteq Replicas /\ shown \subseteq Indices

Init ==
    /\ log = <<>> /\ state = <<>> /\ votes = <<>> /\ latest = 0 /\ stale = <<>>
    /\ end = [s \in Sources |-> 0]
    /\ dedup = {}
    /\ pointer = [r \in Replicas |-> 1]
    /\ held = [r \in Replicas |-> {}]
    /\ epoch = [r \in Replicas |-> 1]
    /\ lost = {}
    /\ read = NoRead /\ shown = {} /\ missed = {} /\ receded = {}

-----------------------------------------------------------------------------
(* Backups. *)

(* A retry has the dedup id of the first try. It waits until that one is decided. *)
Backup(s) ==
    /\ end[s] < Goal /\ <<s, end[s]>> \notin dedup
    /\ Of(s) \intersect In("pending") = {} \/ ~Guard("one pending quorum per source")
    /\ log' = Append(log, [kind |-> "add", source |-> s, from |-> end[s], of |-> 0])
    /\ state' = Append(state, "pending")
    /\ votes' = Append(votes, {})
    /\ end' = [end EXCEPT ![s] = @ + 1]
    /\ dedup' = dedup \union {<<s, end[s]>>}
    /\ UNCHANGED <<latest, replicas, reads, stale>>

(* The deadline is over: one transaction. *)
Fail(i) ==
    /\ state[i] = "pending" \/ (state[i] = "committed" /\ ~Guard("what has succeeded does not fail"))
    /\ Cardinality(In("failed")) < Failures
    /\ LET s == log[i].source
           drops == Guard("a failure appends a drop")
       IN /\ log' = IF drops THEN Append(log, [kind |-> "drop", source |-> s, from |-> 0, of |-> i]) ELSE log
          /\ state' = LET marked == [state EXCEPT ![i] = "failed"]
                      IN IF drops THEN Append(marked, "none") ELSE marked
          /\ votes' = IF drops THEN Append(votes, {}) ELSE votes
          /\ end' = IF Guard("a failure puts the end position back") THEN [end EXCEPT ![s] = log[i].from] ELSE end
          /\ dedup' = IF Guard("a failure releases the dedup id") THEN dedup \ {<<s, log[i].from>>} ELSE dedup
    /\ pointer' = IF Guard("a failure moves no pointer") THEN pointer
                  ELSE [r \in Replicas |-> IF pointer[r] <= i THEN i + 1 ELSE pointer[r]]
    /\ UNCHANGED <<latest, held, epoch, lost, reads, stale>>

-----------------------------------------------------------------------------
(* Replicas. *)

(* Who reaches a failed entry makes an empty commit; who holds the block removes it at the drop. *)
After(r) ==
    LET i == pointer[r]
    IN IF log[i].kind = "drop" THEN held[r] \ {log[i].of}
       ELSE IF state[i] = "failed" THEN held[r] ELSE held[r] \union {i}

Execute(r) ==
    /\ r \notin lost /\ pointer[r] <= Len(log)
    /\ held' = [held EXCEPT ![r] = After(r)]
    /\ pointer' = [pointer EXCEPT ![r] = @ + 1]
    /\ UNCHANGED <<log, state, votes, latest, end, dedup, epoch, lost, reads, stale>>

(* The votes that count, of those that were given. *)
Counts(r, given) ==
    /\ \E e \in 1..epoch[r] :
          /\ <<r, e>> \in given
          /\ e = epoch[r] \/ ~Guard("the wait for a quorum counts votes of their own epoch")
    /\ r \notin lost \/ ~Guard("who is lost does not count")

(* A replica that holds the block joins; with whom the quorum is complete, it has succeeded. *)
Join(r, i) ==
    /\ r \notin lost /\ i \in held[r] /\ <<r, epoch[r]>> \notin votes[i]
    /\ state[i] = "pending" \/ (state[i] = "failed" /\ ~Guard("who joins too late changes nothing"))
    /\ LET given == votes[i] \union {<<r, epoch[r]>>}
           enough == Cardinality({x \in Replicas : Counts(x, given)}) >= Size
       IN /\ votes' = [votes EXCEPT ![i] = given]
          /\ state' = IF enough THEN [state EXCEPT ![i] = "committed"] ELSE state
          /\ latest' = IF enough THEN i ELSE latest
    /\ UNCHANGED <<log, end, dedup, replicas, reads, stale>>

Lose(r) ==
    /\ lost = {} /\ Cardinality(UNION {{x} \X (2..epoch[x]) : x \in Replicas}) < Losses
    /\ lost' = {r}
    /\ UNCHANGED <<log, state, votes, latest, end, dedup, pointer, held, epoch, reads, stale>>

(* LogTrimming.tla has the steps. What a recovered replica holds of pending quorums, it joins anew. *)
Recover(r) ==
    /\ r \in lost
    /\ \E s \in Replicas \ lost :
          /\ pointer[s] > Max(In("committed")) \/ ~Guard("the source of a recovery has all that succeeded")
          /\ pointer' = [pointer EXCEPT ![r] = pointer[s]]
          /\ held' = [held EXCEPT ![r] = held[s]]
    /\ epoch' = [epoch EXCEPT ![r] = @ + 1]
    /\ lost' = {}
    /\ UNCHANGED <<log, state, votes, latest, end, dedup, reads, stale>>

-----------------------------------------------------------------------------
(* Sequential reads: open the archive, that is, pin a commit of it, and then ask the store once. *)

Open(r) ==
    /\ Reads /\ read = NoRead /\ r \notin lost
    /\ read' = [at |-> pointer[r] - 1, replica |-> r, blocks |-> held[r],
                committed |-> In("committed"), before |-> shown]
    /\ UNCHANGED <<log, state, votes, latest, end, dedup, replicas, shown, missed, receded, stale>>

(* What the store, or a copy of it that lags behind, answers. *)
Told == IF Guard("the store is asked by a linearizable read") THEN state ELSE stale
ToldOf(word) == {i \in 1..Len(Told) : Told[i] = word}

Ask ==
    /\ read # NoRead
    /\ read' = NoRead
    /\ LET at == IF Guard("what counts is where the opened commit is") THEN read.at ELSE pointer[read.replica] - 1
           asked == IF Guard("the greatest index counts, not the latest success") THEN Max(ToldOf("committed"))
                    ELSE latest
           hidden == IF Guard("what is not decided or failed is hidden")
                     THEN ToldOf("pending") \union ToldOf("failed") ELSE {}
           answer == read.blocks \ hidden
       IN IF at >= asked \/ ~Guard("only who is past all that succeeded answers")
          THEN /\ shown' = answer
               /\ missed' = read.committed \ answer
               /\ receded' = read.before \ answer
          ELSE UNCHANGED <<shown, missed, receded>>
    /\ UNCHANGED <<log, state, votes, latest, end, dedup, replicas, stale>>

(* Without a linearizable read: a copy of the store catches up now and then. *)
Replay ==
    /\ ~Guard("the store is asked by a linearizable read")
    /\ stale # state
    /\ stale' = state
    /\ UNCHANGED <<log, state, votes, latest, end, dedup, replicas, reads>>

-----------------------------------------------------------------------------

Next ==
    \/ \E s \in Sources : Backup(s)
    \/ \E i \in Indices : Fail(i)
    \/ \E r \in Replicas : Execute(r) \/ Lose(r) \/ Recover(r) \/ Open(r)
    \/ \E r \in Replicas : \E i \in Indices : Join(r, i)
    \/ Ask \/ Replay

Safe == Init /\ [][Next]_vars

(* Backups are tried until they succeed, replicas sync, join and recover. No quorum has to fail. *)
Spec ==
    /\ Safe
    /\ \A s \in Sources : WF_vars(Backup(s))
    /\ \A r \in Replicas : WF_vars(Execute(r)) /\ WF_vars(\E i \in Indices : Join(r, i)) /\ WF_vars(Recover(r))

-----------------------------------------------------------------------------
(* What must hold. *)

(* What was committed when a sequential read began is shown. *)
ReadAfterWrite == missed = {}

(* What one showed, the next shows. *)
MonotonicRead == receded = {}

(* What succeeded of a source is without gaps, and nothing of it is there twice. *)
Chain ==
    \A s \in Sources :
        LET blocks == Of(s) \intersect In("committed")
        IN /\ \A i, j \in blocks : log[i].from = log[j].from => i = j
           /\ \A i \in blocks : log[i].from = 0 \/ \E j \in blocks : log[j].from = log[i].from - 1

(* While one replica is lost, somebody who is not holds all that succeeded. *)
Durable == \A i \in In("committed") : \E r \in Replicas \ lost : i \in held[r]

(* A quorum succeeds only when so many replicas that are not lost hold its block. *)
QuorumHeld ==
    [][\A i \in Indices :
          state[i] # "committed" /\ state'[i] = "committed"
              => Cardinality({r \in Replicas \ lost : i \in held[r]}) >= Size]_vars

(* Every backup succeeds in the end, *)
Progress == <>[](\A s \in Sources : Cardinality(Of(s) \intersect In("committed")) = Goal)

(* and replicas hold what succeeded, and nothing else. *)
Converges == <>[](\A r \in Replicas : pointer[r] = Len(log) + 1 /\ held[r] = In("committed"))

=============================================================================
