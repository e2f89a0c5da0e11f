---------------------------- MODULE LogTrimming ----------------------------
(* The update log of a replicated archive: who still needs which entry, trimming, and the recovery of replicas *)
(* that were away for longer than the log is kept.                                                             *)
(*                                                                                                             *)
(* An entry is its index. A replica executes entries strictly in order, so what its archive holds is a number: *)
(* that of the last entry it committed. The store's transactions are serializable: each is one step here.      *)
(* README.md beside this file says what is modelled, and what is not.                                          *)
EXTENDS Integers, FiniteSets

CONSTANTS
    Replicas, \* numbers
    Runs,     \* slots for runs of the recovery, numbers: an older run may be suspended while a newer one works
    Entries,  \* how many entries are ever appended
    MinKeep,  \* that many entries are always kept
    MaxKeep,  \* that many entries are kept for replicas that are not active
    Unsteady, \* the replicas whose lease may end
    Lapses,   \* how many leases end in all
    Away,     \* the replicas that need not come back
    Apart,    \* whether trimming looks in one transaction and acts in another; else it does both in one
    Removed   \* the guards of the protocol that are left out; {} in the protocol as it is

VARIABLES
    head,     \* the index of the newest entry
    log,      \* the indices of the entries that are kept
    active,   \* the replicas whose lease is not over
    epoch,    \* each replica's epoch: how often it was activated
    pointer,  \* the index of the entry each replica executes next, as the store knows it
    lost,     \* the replicas that are marked lost
    held,     \* the last entry of each archive: it holds what all entries up to it say
    run,      \* the runs of the recovery
    plan,     \* what trimming has read: up to where it would remove, who would be lost by that, each epoch
    lapses    \* how many leases have ended

vars == <<head, log, active, epoch, pointer, lost, held, run, plan, lapses>>

Guard(name) == name \notin Removed

Min(numbers) == CHOOSE n \in numbers : \A m \in numbers : n <= m
Max(a, b) == IF a > b THEN a ELSE b

(* The index of the oldest entry that is kept; of the next one where none is. *)
Start == Min(log \union {head + 1})

NoRun == [pc |-> "none", of |-> 0, epoch |-> 0, source |-> 0, took |-> 0]
NoPlan == [upto |-> 0, victims |-> {}, epoch |-> [r \in Replicas |-> 0]]

TypeOK ==
    /\ head \in 0..Entries /\ log \subseteq 1..head
    /\ active \subseteq Replicas /\ lost \subseteq Replicas /\ lapses \in 0..Lapses
    /\ \A r \in Replicas : epoch[r] \in 1..Lapses + 1 /\ pointer[r] \in 1..head + 1 /\ held[r] \in 0..head
    /\ \A j \in Runs : run[j].pc \in {"none", "begun", "copying", "set", "adopted"}
    /\ plan.upto \in 0..head + 1

Init ==
    /\ head = 0 /\ log = {} /\ active = Replicas /\ lost = {} /\ lapses = 0
    /\ epoch = [r \in Replicas |-> 1]
    /\ pointer = [r \in Replicas |-> 1]
    /\ held = [r \in Replicas |-> 0]
    /\ run = [j \in Runs |-> NoRun]
    /\ plan = NoPlan

-----------------------------------------------------------------------------
(* The life of a replica. *)

AppendEntry ==
    /\ head < Entries /\ active \ lost # {}
    /\ head' = head + 1
    /\ log' = log \union {head + 1}
    /\ UNCHANGED <<active, epoch, pointer, lost, held, run, plan, lapses>>

(* Executing one entry. That the commit and the pointer are two steps matters in Replication.tla, not here. *)
Sync(r) ==
    /\ r \in active \ lost /\ pointer[r] \in log
    /\ held' = [held EXCEPT ![r] = pointer[r]]
    /\ pointer' = [pointer EXCEPT ![r] = @ + 1]
    /\ UNCHANGED <<head, log, active, epoch, lost, run, plan, lapses>>

(* The lease is over: the replica died, or is suspended, and whatever runs there may go on later. *)
Lapse(r) ==
    /\ r \in active \intersect Unsteady /\ lapses < Lapses
    /\ active' = active \ {r}
    /\ lapses' = lapses + 1
    /\ UNCHANGED <<head, log, epoch, pointer, lost, held, run, plan>>

(* The epoch moves whenever a lease that was over begins anew; so it does for a recovery (Begin). *)
Activate(r) ==
    /\ r \notin active \union lost
    /\ active' = active \union {r}
    /\ epoch' = [epoch EXCEPT ![r] = @ + 1]
    /\ UNCHANGED <<head, log, pointer, lost, held, run, plan, lapses>>

(* Whoever is suspended for too long must not simply go on: others may have acted on its absence. *)
RenewLate(r) ==
    /\ ~Guard("a lease that is over is not renewed")
    /\ r \notin active
    /\ active' = active \union {r}
    /\ UNCHANGED <<head, log, epoch, pointer, lost, held, run, plan, lapses>>

-----------------------------------------------------------------------------
(* Trimming: whatever it does it does in one transaction; where Apart, on what it read in an earlier one. *)

(* The active ones that are lost are those that recover. *)
Counted == IF Guard("who recovers holds trimming back") THEN active ELSE active \ lost

(* The others that are not lost are waited for, but not with more than MaxKeep entries. *)
Upto ==
    LET everybody == Min({pointer[r] : r \in Counted \union (Replicas \ lost)} \union {head + 1 - MinKeep})
        overdue == Min({pointer[r] : r \in Counted} \union {head + 1 - MaxKeep})
    IN IF Guard("nobody is waited for beyond MaxKeep") THEN Max(everybody, overdue) ELSE everybody

Victims == {r \in Replicas \ (active \union lost) : pointer[r] < Upto}

Remove(upto, victims) ==
    /\ log' = {i \in log : i >= upto}
    /\ lost' = IF Guard("who needed a removed entry is lost at once") THEN lost \union victims ELSE lost

SomebodyIsLeft(victims) == lost \union victims # Replicas \/ ~Guard("never are all replicas lost")

TrimAtOnce ==
    /\ ~Apart /\ Upto > Start /\ SomebodyIsLeft(Victims)
    /\ Remove(Upto, Victims)
    /\ UNCHANGED <<head, active, epoch, pointer, held, run, plan, lapses>>

TrimPlan ==
    /\ Apart /\ plan = NoPlan /\ Upto > Start
    /\ plan' = [upto |-> Upto, victims |-> Victims, epoch |-> epoch]
    /\ UNCHANGED <<head, log, active, epoch, pointer, lost, held, run, lapses>>

(* Each row of a replica is matched by its epoch; the guard is that all of them are. *)
TrimCommit ==
    /\ plan # NoPlan
    /\ plan' = NoPlan
    /\ LET victims == {r \in plan.victims : plan.epoch[r] = epoch[r]}
           may ==
               /\ plan.epoch = epoch \/ ~Guard("nobody was activated since trimming looked")
               /\ SomebodyIsLeft(victims)
       IN IF may THEN Remove(plan.upto, victims) ELSE UNCHANGED <<log, lost>>
    /\ UNCHANGED <<head, active, epoch, pointer, held, run, lapses>>

-----------------------------------------------------------------------------
(* The recovery of a lost replica, in steps between which its lease may end and a newer run may begin. *)

Own(j) == run[j].epoch = epoch[run[j].of] /\ run[j].of \in lost
Alive(j) == run[j].pc # "none" /\ Own(j) /\ run[j].of \in active

(* Activate while still lost, choose a source, and commit `recovering`. From now on the pointer is the source's: its *)
(* archive is never behind that, so the log is kept from where the copy will go on. The run takes a free slot, or    *)
(* that of one whose lease is over and which is dead.                                                                *)
Begin(r, j) ==
    /\ r \in lost \ active
    /\ \/ run[j].pc = "none" /\ \A i \in Runs : i < j => run[i].pc # "none"
       \/ run[j].pc # "none" /\ ~Alive(j)
    /\ \E s \in Replicas \ {r} :
          /\ s \notin lost \/ ~Guard("the source is not lost")
          /\ run' = [run EXCEPT ![j] = [pc |-> "begun", of |-> r, epoch |-> epoch[r] + 1, source |-> s, took |-> 0]]
          /\ pointer' = IF Guard("a recovery begins with its source's pointer")
                        THEN [pointer EXCEPT ![r] = pointer[s]] ELSE pointer
    /\ active' = active \union {r}
    /\ epoch' = [epoch EXCEPT ![r] = @ + 1]
    /\ UNCHANGED <<head, log, lost, held, plan, lapses>>

To(j, pc) == run' = [run EXCEPT ![j].pc = pc]

(* Whoever is refused gives up: the recovery begins anew when its lease is over. *)
Refused(j) == run' = [run EXCEPT ![j] = NoRun]

(* Pointer and blocks come from one commit of the source's archive. Copying them takes long and shows nowhere. *)
Take(j) ==
    /\ run[j].pc = "begun"
    /\ run' = [run EXCEPT ![j].pc = "copying", ![j].took = held[run[j].source]]
    /\ UNCHANGED <<head, log, active, epoch, pointer, lost, held, plan, lapses>>

(* One transaction, where target, source and log are as they have to be. *)
SetPointer(j) ==
    /\ run[j].pc = "copying"
    /\ LET may ==
               /\ Own(j) \/ ~Guard("the pointer is set in one's own epoch")
               /\ run[j].source \notin lost \/ ~Guard("the source is not lost")
               /\ Start <= run[j].took + 1 \/ ~Guard("the log starts at or below the pointer")
       IN IF may
          THEN /\ To(j, "set")
               /\ pointer' = [pointer EXCEPT ![run[j].of] =
                                 IF Guard("pointer and blocks are of one commit")
                                 THEN run[j].took + 1 ELSE pointer[run[j].source]]
          ELSE Refused(j) /\ UNCHANGED pointer
    /\ UNCHANGED <<head, log, active, epoch, lost, held, plan, lapses>>

(* The commit `recovered`. It answers one's own `recovering`: the archive itself can tell. *)
Adopt(j) ==
    /\ run[j].pc = "set"
    /\ IF Own(j) \/ ~Guard("`recovered` answers one's own `recovering`")
       THEN To(j, "adopted") /\ held' = [held EXCEPT ![run[j].of] = run[j].took]
       ELSE Refused(j) /\ UNCHANGED held
    /\ UNCHANGED <<head, log, active, epoch, pointer, lost, plan, lapses>>

Clear(j) ==
    /\ run[j].pc = "adopted"
    /\ LET r == run[j].of
           may ==
               /\ Own(j) \/ ~Guard("is_lost is cleared in one's own epoch")
               /\ r \in active \/ ~Guard("is_lost is cleared under one's own lease")
               /\ Start <= pointer[r] \/ ~Guard("the log starts at or below the pointer")
       IN IF may
          THEN lost' = lost \ {r} /\ run' = [run EXCEPT ![j] = NoRun]
          ELSE Refused(j) /\ UNCHANGED lost
    /\ UNCHANGED <<head, log, active, epoch, pointer, held, plan, lapses>>

Step(j) == Take(j) \/ SetPointer(j) \/ Adopt(j) \/ Clear(j)

-----------------------------------------------------------------------------

Next ==
    \/ AppendEntry \/ TrimAtOnce \/ TrimPlan \/ TrimCommit
    \/ \E r \in Replicas : Sync(r) \/ Lapse(r) \/ Activate(r) \/ RenewLate(r)
    \/ \E r \in Replicas : \E j \in Runs : Begin(r, j)
    \/ \E j \in Runs : Take(j) \/ SetPointer(j) \/ Adopt(j) \/ Clear(j)

Safe == Init /\ [][Next]_vars

(* Trimming is done, who is active syncs, who can come back does, and a recovery goes on while its lease lives.
   Nothing has to be appended, and no lease has to end; a run without a lease may stand still for ever. *)
Fair ==
    /\ WF_vars(TrimAtOnce) /\ WF_vars(TrimPlan) /\ WF_vars(TrimCommit)
    /\ \A r \in Replicas : WF_vars(Sync(r))
    /\ \A r \in Replicas \ Away : WF_vars(Activate(r)) /\ WF_vars(\E j \in Runs : Begin(r, j))
    /\ \A j \in Runs : WF_vars(Alive(j) /\ Step(j))

Spec == Safe /\ Fair

-----------------------------------------------------------------------------
(* What must hold. *)

(* Nobody who goes on from its pointer needs an entry that was removed. *)
ValidLogPointer == \A r \in active \ lost : pointer[r]..head \subseteq log

(* Somebody is left to recover from. *)
NotAllLost == lost # Replicas

(* The log has no holes: trimming takes from its start, appending adds at its end. *)
Gapless == log = Start..head

(* Whoever is not lost holds exactly what comes before its pointer. *)
Complete == \A r \in Replicas \ lost : held[r] = pointer[r] - 1

(* A recovery that lives can go on from what it took. *)
NotInVain == \A j \in Runs : Alive(j) /\ run[j].pc # "begun" => Start <= run[j].took + 1

(* The log becomes trimmed, in the end, and stays so: those who are away keep no more than MaxKeep. *)
IsLogCleared == <>[](Cardinality(log) <= IF Away = {} THEN MinKeep ELSE MaxKeep)

(* Whoever comes back is not lost in the end. *)
Recovers == <>[](lost \subseteq Away)

=============================================================================
