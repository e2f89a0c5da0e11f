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
    Lapses,   \* how many leases end in all
    Away,     \* the replicas whose lease may end, and that need not come back then
    Readers,  \* slots for reads, numbers: reads in two slots may overlap
    Removed   \* the guards of the protocol that are left out; {} in the protocol as it is

VARIABLES
    log,      \* the update log: a sequence of entries that add a block, drop that of another one, or acknowledge it
    state,    \* of each entry: its quorum is pending, committed or failed; or it has none
    votes,    \* of each entry: who joined its quorum, and in which epoch
    told,     \* the entries of whose success somebody was told
    end,      \* how far each source is backed up
    dedup,    \* the ids <<source, from>> of backups that are done or under way
    pointer,  \* the index of the entry each replica executes next
    held,     \* the blocks each replica holds
    epoch,    \* each replica's epoch
    lost,     \* the replicas that are marked lost
    idle,     \* the replicas whose lease is over
    read,     \* the sequential reads that are under way
    shown,    \* what those showed that have ended
    missed,   \* what the last one should have shown because it was told of when the read began
    receded,  \* what it should have shown because a read that had ended when it began did
    stale     \* the quorums as a copy of the store knows them that lags behind

replicas == <<pointer, held, epoch, lost, idle>>
reads == <<read, shown, missed, receded>>
vars == <<log, state, votes, told, end, dedup, replicas, reads, stale>>

Guard(name) == name \notin Removed

Max(numbers) == CHOOSE n \in numbers \union {0} : \A m \in numbers : m <= n

Indices == 1..Len(log)
Of(source) == {i \in Indices : log[i].kind = "add" /\ log[i].source = source}
In(word) == {i \in Indices : state[i] = word}

(* The entry by which one has succeeded; 0: none. *)
Acknowledgement(i) == Max({j \in Indices : log[j].kind = "acknowledged" /\ log[j].of = i})

NoRead == [at |-> 0, replica |-> 0, blocks |-> {}, told |-> {}, before |-> {}]

TypeOK ==
    /\ Len(state) = Len(log) /\ Len(votes) = Len(log)
    /\ \A i \in Indices : state[i] \in {"none", "pending", "committed", "failed"}
    /\ \A s \in Sources : end[s] \in 0..Goal
    /\ \A r \in Replicas : pointer[r] \in 1..Len(log) + 1 /\ held[r] \subseteq Indices
    /\ lost \subseteq Replicas /\ idle \subseteq Away /\ shown \subseteq Indices /\ told \subseteq Indices

Init ==
    /\ log = <<>> /\ state = <<>> /\ votes = <<>> /\ told = {} /\ stale = <<>>
    /\ end = [s \in Sources |-> 0]
    /\ dedup = {}
    /\ pointer = [r \in Replicas |-> 1]
    /\ held = [r \in Replicas |-> {}]
    /\ epoch = [r \in Replicas |-> 1]
    /\ lost = {} /\ idle = {}
    /\ read = [j \in Readers |-> NoRead] /\ shown = {} /\ missed = {} /\ receded = {}

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
    /\ UNCHANGED <<told, replicas, reads, stale>>

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
    /\ UNCHANGED <<told, held, epoch, lost, idle, reads, stale>>

-----------------------------------------------------------------------------
(* Replicas. *)

(* Who reaches a failed entry makes an empty commit; who holds the block removes it at the drop. *)
After(r) ==
    LET i == pointer[r]
    IN IF log[i].kind = "drop" THEN held[r] \ {log[i].of}
       ELSE IF log[i].kind = "acknowledged" THEN held[r]
       ELSE IF state[i] = "failed" THEN held[r] ELSE held[r] \union {i}

(* Success is told of as soon as a quorum, none of it lost, has executed the entry that says so. *)
Tellable(at) ==
    {i \in In("committed") : Cardinality({r \in Replicas \ lost : at[r] > Acknowledgement(i)}) >= Size}

Execute(r) ==
    /\ r \notin lost \union idle /\ pointer[r] <= Len(log)
    /\ held' = [held EXCEPT ![r] = After(r)]
    /\ pointer' = [pointer EXCEPT ![r] = @ + 1]
    /\ told' = told \union Tellable([pointer EXCEPT ![r] = @ + 1])
    /\ UNCHANGED <<log, state, votes, end, dedup, epoch, lost, idle, reads, stale>>

(* The votes that count, of those that were given. *)
Counts(r, given) ==
    /\ \E e \in 1..epoch[r] :
          /\ <<r, e>> \in given
          /\ e = epoch[r] \/ ~Guard("the wait for a quorum counts votes of their own epoch")
    /\ r \notin lost \/ ~Guard("who is lost does not count")

(* A replica that holds the block joins; with whom the quorum is complete, it has succeeded: an entry says so. *)
Join(r, i) ==
    /\ r \notin lost \union idle /\ i \in held[r] /\ <<r, epoch[r]>> \notin votes[i]
    /\ state[i] = "pending" \/ (state[i] = "failed" /\ ~Guard("who joins too late changes nothing"))
    /\ LET given == votes[i] \union {<<r, epoch[r]>>}
           voted == [votes EXCEPT ![i] = given]
           enough == Cardinality({x \in Replicas : Counts(x, given)}) >= Size
       IN /\ log' = IF enough THEN Append(log, [kind |-> "acknowledged", source |-> "", from |-> 0, of |-> i]) ELSE log
          /\ votes' = IF enough THEN Append(voted, {}) ELSE voted
          /\ state' = IF enough THEN Append([state EXCEPT ![i] = "committed"], "none") ELSE state
          /\ told' = IF enough /\ ~Guard("success is told once a quorum has executed it") THEN told \union {i} ELSE told
    /\ UNCHANGED <<end, dedup, replicas, reads, stale>>

Lose(r) ==
    /\ lost = {} /\ Cardinality(UNION {{x} \X (2..epoch[x]) : x \in Replicas}) < Losses
    /\ lost' = {r}
    /\ UNCHANGED <<log, state, votes, told, end, dedup, pointer, held, epoch, idle, reads, stale>>

(* The lease is over. What was given before still counts, until it begins anew: that is another epoch. *)
Lapse(r) ==
    /\ r \in Away \ idle /\ Cardinality(UNION {{x} \X (2..epoch[x]) : x \in Replicas}) + Cardinality(idle) < Lapses
    /\ idle' = idle \union {r}
    /\ UNCHANGED <<log, state, votes, told, end, dedup, pointer, held, epoch, lost, reads, stale>>

Activate(r) ==
    /\ r \in idle
    /\ idle' = idle \ {r}
    /\ epoch' = [epoch EXCEPT ![r] = @ + 1]
    /\ UNCHANGED <<log, state, votes, told, end, dedup, pointer, held, lost, reads, stale>>

(* The entry by which a quorum succeeded last. *)
Acknowledged == Max({i \in Indices : log[i].kind = "acknowledged"})

(* LogTrimming.tla has the steps. What a recovered replica holds of pending quorums, it joins anew. *)
Recover(r) ==
    /\ r \in lost
    /\ \E s \in Replicas \ lost :
          /\ pointer[s] > Acknowledged \/ ~Guard("the source of a recovery has all that succeeded")
          /\ pointer' = [pointer EXCEPT ![r] = pointer[s]]
          /\ held' = [held EXCEPT ![r] = held[s]]
    /\ epoch' = [epoch EXCEPT ![r] = @ + 1]
    /\ lost' = {}
    /\ told' = told \union
          {i \in In("committed") : Cardinality({x \in Replicas : pointer'[x] > Acknowledgement(i)}) >= Size}
    /\ UNCHANGED <<log, state, votes, end, dedup, idle, reads, stale>>

-----------------------------------------------------------------------------
(* Sequential reads: open the archive, that is, pin a commit of it, and then ask the store once. *)

Open(r, j) ==
    /\ read[j] = NoRead /\ r \notin lost
    /\ read' = [read EXCEPT ![j] =
                  [at |-> pointer[r] - 1, replica |-> r, blocks |-> held[r], told |-> told, before |-> shown]]
    /\ UNCHANGED <<log, state, votes, told, end, dedup, replicas, shown, missed, receded, stale>>

(* What the store, or a copy of it that lags behind, answers. *)
Told == IF Guard("the store is asked by a linearizable read") THEN state ELSE stale
ToldOf(word) == {i \in 1..Len(Told) : Told[i] = word}
Needed == Max({i \in 1..Len(Told) : log[i].kind = "acknowledged"})

Ask(j) ==
    /\ read[j] # NoRead
    /\ read' = [read EXCEPT ![j] = NoRead]
    /\ LET at == IF Guard("what counts is where the opened commit is") THEN read[j].at
                 ELSE pointer[read[j].replica] - 1
           hidden == IF Guard("what is not decided or failed is hidden")
                     THEN ToldOf("pending") \union ToldOf("failed") ELSE {}
           answer == read[j].blocks \ hidden
       IN IF at >= Needed \/ ~Guard("only who is past all that succeeded answers")
          THEN /\ shown' = shown \union answer
               /\ missed' = read[j].told \ answer
               /\ receded' = read[j].before \ answer
          ELSE UNCHANGED <<shown, missed, receded>>
    /\ UNCHANGED <<log, state, votes, told, end, dedup, replicas, stale>>

(* Without a linearizable read: a copy of the store catches up now and then. *)
Replay ==
    /\ ~Guard("the store is asked by a linearizable read")
    /\ stale # state
    /\ stale' = state
    /\ UNCHANGED <<log, state, votes, told, end, dedup, replicas, reads>>

-----------------------------------------------------------------------------

Next ==
    \/ \E s \in Sources : Backup(s)
    \/ \E i \in Indices : Fail(i)
    \/ \E r \in Replicas : Execute(r) \/ Lose(r) \/ Recover(r) \/ Lapse(r) \/ Activate(r)
    \/ \E r \in Replicas : \E j \in Readers : Open(r, j)
    \/ \E r \in Replicas : \E i \in Indices : Join(r, i)
    \/ \E j \in Readers : Ask(j)
    \/ Replay

Safe == Init /\ [][Next]_vars

(* Backups are tried until they succeed, replicas sync, join and recover. No quorum has to fail. *)
Spec ==
    /\ Safe
    /\ \A s \in Sources : WF_vars(Backup(s))
    /\ \A r \in Replicas : WF_vars(Execute(r)) /\ WF_vars(\E i \in Indices : Join(r, i)) /\ WF_vars(Recover(r))

-----------------------------------------------------------------------------
(* What must hold. *)

(* What somebody was told of when a sequential read began is shown. *)
ReadAfterWrite == missed = {}

(* What one showed that had ended when it began, too. *)
MonotonicRead == receded = {}

(* What succeeded of a source is without gaps, and nothing of it is there twice. *)
Chain ==
    \A s \in Sources :
        LET blocks == Of(s) \intersect In("committed")
        IN /\ \A i, j \in blocks : log[i].from = log[j].from => i = j
           /\ \A i \in blocks : log[i].from = 0 \/ \E j \in blocks : log[j].from = log[i].from - 1

(* While one replica is lost, somebody who is not holds all that succeeded. *)
Durable == \A i \in In("committed") : \E r \in Replicas \ lost : i \in held[r]

(* And of what somebody was told, somebody who is not lost knows that. *)
Known == \A i \in told : \E r \in Replicas \ lost : pointer[r] > Acknowledgement(i)

(* A quorum succeeds only when so many replicas that are not lost hold its block. *)
QuorumHeld ==
    [][\A i \in Indices :
          state[i] # "committed" /\ state'[i] = "committed"
              => Cardinality({r \in Replicas \ lost : i \in held[r]}) >= Size]_vars

(* Of every backup one is told in the end that it has succeeded, *)
Progress == <>[](\A s \in Sources : Cardinality(Of(s) \intersect told) = Goal)

(* and replicas that are there hold what succeeded, and nothing else. *)
Converges == <>[](\A r \in Replicas \ idle : pointer[r] = Len(log) + 1 /\ held[r] = In("committed"))

=============================================================================
